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
"""The file by which a copy is known, and in which it is remembered what was copied."""


def clone(root: Path = ROOT) -> Path:
    """`root`, for those who make something of the repository. Raises FileNotFoundError if the package carries it."""
    if root == _CARRIED:
        raise FileNotFoundError(
            "this needs a clone of the course's repository, and the course is installed here: clone it, and run the "
            "command there"
        )
    return root


def workplace(root: Path = ROOT) -> Path:
    """What a learner works in: the copy one stands in, else the usual copy, else the course itself."""
    here = Path.cwd()
    usual = root / WORK.name if root != _CARRIED else WORK
    copies = [folder for folder in (here, *here.parents) if (folder / RECORD).is_file()]
    return copies[0] if copies else usual if usual.is_dir() else root
