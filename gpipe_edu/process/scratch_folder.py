"""The folder that an answer may write to: whether it is full, and how it is deleted, however deep it has become.

Not os.walk and shutil.rmtree, which are recursive: they fail at a thousand nested folders, and what they have not
reached stays, uncounted, for the next answer.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from uuid import uuid4


def delete(folder: str) -> None:
    """Delete it, with all that is in it; nobody may write to it meanwhile. Raises OSError where something stays."""
    empty(folder)
    os.rmdir(folder)


def empty(folder: str) -> None:
    """Delete all that is in it, likewise.

    A folder within a folder is moved up before that one goes, so no path gets longer than it is two levels down.
    """
    _make_ours(folder)
    while inner := _folders_left(folder):
        for path in inner:
            _make_ours(path)
            for deeper in _folders_left(path):
                _make_ours(deeper)
                os.rename(deeper, os.path.join(folder, uuid4().hex))
            os.rmdir(path)


def _folders_left(folder: str) -> list[str]:
    """The folders in it, once everything else is deleted."""
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.path)
    return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _make_ours(folder: str) -> None:
    """In a folder that is another's, and sticky, even root may need a right to delete; in its own it needs none."""
    with suppress(OSError, AttributeError):  # Windows has no owners
        os.chown(folder, os.geteuid(), -1)
    with suppress(OSError):
        os.chmod(folder, 0o700)


def holds_more(folder: str, files: int, size: int) -> bool:
    """Whether it holds more than so many files and folders, or bytes; they may come and go meanwhile.

    True as well where a path is longer than the system takes: nobody can tell how much more there is.
    """
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    files -= 1
                    with suppress(OSError):
                        size -= entry.stat(follow_symlinks=False).st_size
                    if files < 0 or size < 0:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return True
    return False
