"""Which files of the judges an answer may read: those that call the function, and none that know what is right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

JUDGES: Final = "gpipe_edu.judge"
"""The package of the judges, which know what is expected of an answer."""

FOLDER: Final = Path(__file__).resolve().parents[1] / "judge"


def is_open(module: str) -> bool:
    """Whether a module of the judges is for answers, too."""
    rooms = module.split(".")[2:]
    return not rooms or rooms[0] == "guest" or (rooms[0] == "tasks" and all(map(_calls, rooms[2:])))


def open_files(folder: Path) -> Iterator[Path]:
    """The files in the judges' folder that an answer may read: only what Python runs, compiled or not."""
    for path in sorted(folder.rglob("*.py*")):
        *rooms, name = (part for part in path.relative_to(folder).parts if part != "__pycache__")
        stem = name.partition(".")[0]
        if is_open(".".join((JUDGES, *rooms, *([] if stem == "__init__" else [stem])))):
            yield path


def shut() -> None:
    """Let only their owner read all others: for a container, in which answers run as another user."""
    may = set(open_files(FOLDER))
    for path in FOLDER.rglob("*"):
        if path.is_file() and path not in may:
            path.chmod(0o600)


def _calls(name: str) -> bool:
    return name.startswith("perform")
