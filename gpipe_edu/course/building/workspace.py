"""A copy of the course to work in: updates reach unchanged files, and never a learner's work.

The course's own files stay as they were, so `git pull` finds no local changes. Each copied file is remembered by a
digest of what is written in it: one that still matches may be replaced, even if it was run or saved; any other is the
learner's. A new version of such a file is put beside it, once. What runs have left behind in the course's folders is
not copied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from gpipe_edu.base.atomic_write import write_whole

from .build import digest_of_work, free_name
from .places import RECORD, ROOT, WORK

_COURSE: Final = {
    "notebooks": re.compile(r"(\d\d\w*|schedule_puzzles)\.ipynb"),
    "exercises": re.compile(r"exercise_\d\d\w*\.ipynb"),
    "docs": re.compile(r".+\.(md|svg|webp)"),
}
"""By folder, how the course's files are named."""

FOLDERS: Final = tuple(_COURSE)


class Copied(NamedTuple):
    """What was done to one file. what: "new", "same", "updated", "yours", "beside": a new version beside yours."""

    path: Path
    what: str


def copy(to: Path = WORK, root: Path = ROOT) -> list[Copied]:
    """Copy lessons, exercises and pages into the folder `to`, or bring what is unchanged there up to date.

    Raises FileNotFoundError where the course's repository is missing.
    """
    if not (root / FOLDERS[0]).is_dir():
        raise FileNotFoundError(
            f"the folder {FOLDERS[0]}/ is not in {root}: lessons come with the course's repository, not with the "
            "package; clone it and run there: make lab"
        )
    to.mkdir(parents=True, exist_ok=True)
    given = _read(to / RECORD)
    try:
        done = [_copy_one(source, name, to, given) for source, name in course_files(root)]
    except OSError:  # a disk is full, and may have room for what was copied before
        with suppress(OSError):
            _remember(given, to)
        raise
    _remember(given, to)
    return done


def _remember(given: dict[str, str], to: Path) -> None:
    write_whole(to / RECORD, json.dumps(given, indent=1) + "\n")


def _read(record: Path) -> dict[str, str]:
    """What was copied; {} where the record is gone or damaged, so that files that differ are kept."""
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def course_files(root: Path) -> Iterator[tuple[Path, str]]:
    """The lessons, exercises and pages in `root`, and their names in it."""
    for folder, ours in _COURSE.items():
        for path in sorted((root / folder).rglob("*")):
            hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
            if path.is_file() and ours.fullmatch(path.name) and not hidden:
                yield path, path.relative_to(root).as_posix()


def _copy_one(source: Path, name: str, to: Path, given: dict[str, str]) -> Copied:
    target, new, before = to / name, digest_of_work(source), given.get(name)
    if not target.exists():
        done = _write(source, target, "new")
    elif (now := digest_of_work(target)) == new:
        done = Copied(target, "same")
    elif now == before:
        done = _write(source, target, "updated")
    elif before == new:
        done = Copied(target, "yours")
    else:
        done = _write(source, free_name(target, "new"), "beside")
    given[name] = new
    return done


def _write(source: Path, target: Path, what: str) -> Copied:
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, source.read_bytes())
    return Copied(target, what)
