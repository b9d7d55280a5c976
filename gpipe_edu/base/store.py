"""The learner's progress, in one JSON file that survives restarts and that the learner may read, move or delete.

Each part of the course keeps one section, a dict of plain data. Several notebooks may write at the same time, so a
change reads the file again under a lock, and the new file replaces the old one atomically. A file that cannot be read
is renamed, and the learner is told its new name, because it may hold hours of work.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from gpipe_edu.base.atomic_write import write_whole

HOME: Final = "GPIPE_EDU_HOME"
"""The environment variable that names another folder for the file."""

_DRIVE: Final = Path("/content/drive/MyDrive")
"""Where Colab mounts its user's Drive, which outlives the machine."""

_HOSTS: Final = {"COLAB_RELEASE_TAG": "Colab", "KAGGLE_KERNEL_RUN_TYPE": "Kaggle"}
"""The environment variables by which their machines are known."""

_FILE: Final = "progress.json"
_ABOUT: Final = "Your answers and results in the gpipe_edu course. Delete this file to start anew."
_PATIENCE: Final = 5.0
"""Seconds to wait for another notebook's change, which takes milliseconds."""

Section: TypeAlias = dict[str, Any]


def path() -> Path:
    """Where the file is, or will be once there is something to keep."""
    home = os.environ.get(HOME)
    return (Path(home).expanduser() if home else _data_folder() / "gpipe_edu") / _FILE


def hosted_by() -> str:
    """ "Colab" or "Kaggle" on a machine of theirs, which has one notebook and is deleted after the session, else ""."""
    return next((name for variable, name in _HOSTS.items() if variable in os.environ), "")


def is_deleted_soon() -> bool:
    """Whether, as far as is known, the file is deleted with its machine after the session."""
    return bool(hosted_by()) and not os.environ.get(HOME) and not path().is_relative_to(_DRIVE)


def read(section: str, file: Path | None = None) -> Section:
    """What is kept in `section`, {} if nothing is; `file`: one to read instead of the learner's own."""
    file = file or path()
    try:
        return _section(_load(file), section)
    except ValueError:
        with _locked(file):
            return _section(_load_or_set_aside(file), section)


@contextmanager
def change(section: str, file: Path | None = None) -> Iterator[Section]:
    """The section as it is now, to be changed in the block; it is saved if the block ends without an error.

    Raises OSError where nothing can be written, TypeError for values that are not plain data.
    """
    file = file or path()
    with _locked(file):
        everything = _load_or_set_aside(file)
        kept = everything.setdefault(section, {})
        yield kept
        text = json.dumps({"about": _ABOUT, **everything}, indent=2, ensure_ascii=False)
        write_whole(file, text + "\n", private=True)


def _data_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if sys.platform == "emscripten":  # a browser, which keeps only the folder of the notebooks
        return Path("/drive")
    if hosted_by() == "Colab" and _DRIVE.is_dir():
        return _DRIVE
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")


def _load(file: Path) -> dict[str, Any]:
    """The whole file; raises ValueError if it does not hold sections."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except RecursionError:  # thousands of nested brackets, which no real answers have
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    wrong = [name for name, value in found.items() if name != "about" and not isinstance(value, dict)]
    if wrong:
        raise ValueError(f"{wrong[0]} is not a JSON object")
    return found


def _section(everything: dict[str, Any], name: str) -> Section:
    found: Section = everything.get(name, {})
    return found


def _load_or_set_aside(file: Path) -> dict[str, Any]:
    """As `_load`, but a file that cannot be understood is renamed, and {} is returned. Call it under the lock."""
    try:
        return _load(file)
    except ValueError as error:
        taken = (file.with_name(f"{file.stem}.broken-{number}{file.suffix}") for number in range(1, sys.maxsize))
        aside = next(name for name in taken if not name.exists())
        os.replace(file, aside)
        warnings.warn(
            f"{file} could not be understood ({error}). It was renamed to {aside.name}, in the same folder, and a new "
            f"one is begun; if you mend the old one, rename it back to {file.name}.",
            stacklevel=5,
        )
        return {}


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """One change at a time, over all notebooks. The operating system releases the lock when a kernel dies."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if sys.platform == "emscripten":  # no locks there; two notebooks never write within one millisecond
        yield
        return
    from filelock import FileLock, Timeout  # late: not needed for reading, nor in a browser

    lock = FileLock(file.with_suffix(".lock"), timeout=_PATIENCE, poll_interval=0.01)
    try:
        lock.acquire()
    except Timeout:
        held = f"another program has held {lock.lock_file} for {_PATIENCE:g} seconds; restart its kernel"
        raise TimeoutError(held) from None
    except OSError:
        pass  # some network disks have no locks; saving an answer without one is better than losing it
    try:
        yield
    finally:
        lock.release()
