"""Where the course is, in a clone or in an installed package, and where a learner works on a copy of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[2]
_CARRIED: Final = _PACKAGE / "carried"

ROOT: Final = _CARRIED if _CARRIED.is_dir() else _PACKAGE.parent
"""What lessons, exercises, solutions, pages and lectures lie in: the clone, or what the wheel carries (setup.py)."""

WORK: Final = Path("gpipe-course") if ROOT == _CARRIED else ROOT / "work"
"""Where a learner's copy of the course is, unless they say otherwise: see `workspace.py`."""

FRESH: Final = ".fresh"
"""Where a copy of the course without solutions has a fresh notebook of every exercise."""

RECORD: Final = ".copied.json"
"""The file that marks a folder as a copy, and records what was copied."""


def clone(root: Path = ROOT) -> Path:
    """`root`, for those who build something from the repository. Raises FileNotFoundError if the package carries it."""
    if root == _CARRIED:
        raise FileNotFoundError(
            "this needs a clone of the course's repository, and the course is installed here: clone it, and run the "
            "command there"
        )
    return root


def copy_here() -> Path | None:
    """The copy of the course that the working directory is in, if any."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / RECORD).is_file()), None)


def workplace(root: Path = ROOT) -> Path:
    """What a learner works in: the copy that the working directory is in, else the usual copy, else the clone itself.

    Raises FileNotFoundError where there is neither: nobody works in an installed package.
    """
    usual = WORK if root == _CARRIED else root / WORK.name
    found = copy_here() or (usual if usual.is_dir() else root)
    if found == _CARRIED:
        raise FileNotFoundError(
            f"no copy of the course is here: go into yours, or make one, which will be {WORK}/, with `gpipe-edu copy`"
        )
    return found
