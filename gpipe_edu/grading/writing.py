"""A file is written whole or not at all: a full disk must not leave half a table, or half the seeds of a class."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Around work on `path`: an error of the system, which for a full disk has no name, gets its name."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def put(path: Path, text: str) -> None:
    """Write a file anew, all of it or nothing. Raises OSError."""
    with named(path):
        descriptor, name = tempfile.mkstemp(prefix=f".{path.stem[:40]}.", dir=path.parent)
        try:
            with open(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
