"""Where the parts of an exercise are in a clone of the repository, and what a problem with one of them is."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from gpipe_edu.course.building.build import masters
from gpipe_edu.course.building.places import ROOT
from gpipe_edu.judge import tasks
from gpipe_edu.judge.exercise import Exercise, find_exercise, folder_of

BANKS: Final = ROOT / "tests" / "solutions" / "bank"
COURSE: Final = ROOT / "docs" / "course.md"
PARTS: Final = ("__init__.py", "messages.toml", "check.py", "perform.py")
"""What every folder of an exercise holds."""


class Entry(Protocol):
    """An answer of a bank. slip: the misconception, "" for a right answer."""

    @property
    def key(self) -> str: ...  # noqa: D102

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def slip(self) -> str: ...  # noqa: D102

    @property
    def function(self) -> Callable[..., Any]: ...  # noqa: D102


class Shortcoming(NamedTuple):
    """What is not right with an exercise: where, what, and the edit or the command that fixes it."""

    where: str
    wrong: str
    mend: str

    def __str__(self) -> str:
        return " ".join(f"{self.where}: {self.wrong}. {self.mend}.".split())


class Material(NamedTuple):
    """The parts of the exercise `key`, whether they exist or not."""

    key: str

    @property
    def exercise(self) -> Exercise:
        """What the package makes of it, shared sentences included. Raises ValueError for one that does not exist."""
        return find_exercise(self.key)

    @property
    def stem(self) -> str:
        """The name of its folder and its bank: "ex06_partition"."""
        return folder_of(self.key)

    @property
    def folder(self) -> Path:
        """Its check, its sentences, and what calls the function."""
        return Path(tasks.__path__[0], self.stem)

    @property
    def messages(self) -> Path:
        """Its sentences."""
        return self.folder / "messages.toml"

    @property
    def bank(self) -> Path:
        """Its answers, wrong and right."""
        return BANKS / f"{self.stem}.py"

    @property
    def master(self) -> Path:
        """Its notebook with the solution. Raises as `sentences` does."""
        return ROOT / "solutions" / f"{self.sentences()['notebook']}.py"

    def sentences(self) -> dict[str, Any]:
        """Its messages.toml, without the shared sentences. Raises OSError, ValueError for one that cannot be read."""
        return tomllib.loads(self.messages.read_text(encoding="utf-8"))

    def entries(self) -> Sequence[Entry]:
        """The answers of its bank. Raises any error that its module raises when loaded."""
        # `gpipe-edu`, unlike `python -m gpipe_edu`, does not find the tests of the clone in which it is run.
        if str(ROOT) not in sys.path:
            sys.path.insert(0, str(ROOT))
        found: Sequence[Entry] = importlib.import_module("tests.solutions.bank").bank(self.key)
        return found

    def files(self) -> Iterator[Path]:
        """Every file that its author writes."""
        yield from sorted(path for path in self.folder.iterdir() if path.is_file())
        yield from (path for path in (self.master, self.bank) if path.is_file())


def relative(path: Path) -> str:
    """The path relative to the clone."""
    return path.relative_to(ROOT).as_posix()


def require_clone() -> None:
    """Raise FileNotFoundError outside a clone of the repository: only a clone has masters and banks."""
    masters()
    if not BANKS.is_dir():
        raise FileNotFoundError(
            f"the folder {relative(BANKS)}/ is not in {ROOT}: exercises are written in a clone of the course's "
            "repository, not in a copy for learners; clone it and run there: gpipe-edu exercise"
        )
