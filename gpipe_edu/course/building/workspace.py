"""A copy of the course to work in: updates reach unchanged files, and never a learner's work.

The course's own files stay as they were, so `git pull` finds no local changes. Each copied file is remembered by its
digest: one that still matches may be replaced, any other is the learner's. A new version of such a file is put beside
it, once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from .build import free_name
from .places import RECORD, ROOT, WORK

FOLDERS: Final = ("notebooks", "exercises", "docs")


class Copied(NamedTuple):
    """What was done to one file. what: "new", "same", "updated", "yours", "beside": a new version beside yours."""

    path: Path
    what: str


def copy(to: Path = WORK, root: Path = ROOT) -> list[Copied]:
    """Copy lessons, exercises and pages into the folder `to`, or bring what is unchanged there up to date.

    Raises FileNotFoundError where the course's repository is not.
    """
    if not (root / FOLDERS[0]).is_dir():
        raise FileNotFoundError(
            f"the folder {FOLDERS[0]}/ is not in {root}: lessons come with the course's repository, not with the "
            "package; clone it and run there: make lab"
        )
    to.mkdir(parents=True, exist_ok=True)
    record = to / RECORD
    given: dict[str, str] = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
    done = [_copy_one(source, name, to, given) for source, name in _files(root)]
    record.write_text(json.dumps(given, indent=1) + "\n", encoding="utf-8")
    return done


def _files(root: Path) -> Iterator[tuple[Path, str]]:
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and not any(part.startswith(".") for part in path.relative_to(root).parts):
                yield path, path.relative_to(root).as_posix()


def _copy_one(source: Path, name: str, to: Path, given: dict[str, str]) -> Copied:
    target, new, before = to / name, _digest(source), given.get(name)
    given[name] = new
    if not target.exists():
        return _write(source, target, "new")
    now = _digest(target)
    if now == new:
        return Copied(target, "same")
    if now == before:
        return _write(source, target, "updated")
    if before == new:
        return Copied(target, "yours")
    return _write(source, free_name(target, "new"), "beside")


def _write(source: Path, target: Path, what: str) -> Copied:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return Copied(target, what)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
