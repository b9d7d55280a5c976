"""A file is written whole or not at all: a full disk must not leave half a table, or half of a learner's answers.

Nor must a character that has no bytes, such as half of a pair of surrogates in an error's text: it is written as it
would be typed, "\\ud800".
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def name_errors(path: Path) -> Iterator[None]:
    """Around work on `path`: an error of the system, which for a full disk has no name, gets its name."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def escape(text: str) -> str:
    """The text, in which what UTF-8 has no bytes for stands escaped."""
    return text.encode(errors="backslashreplace").decode()


def escape_on_terminals() -> None:
    """What is printed is escaped, too, where a terminal's encoding has no bytes for it, as it is on standard error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def write_whole(path: Path, text: str, private: bool = False) -> None:
    """Write a file anew, all of it or nothing; a reader sees all of the old one or all of the new one.

    private: only its owner may read it. Raises OSError.
    """
    with name_errors(path):
        descriptor, name = tempfile.mkstemp(prefix=f".{path.stem[:40]}.", dir=path.parent)
        try:
            with open(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(escape(text))
                file.flush()
                os.fsync(file.fileno())  # or a power cut could leave the new name with nothing in it
            if not private:  # as temporary files are
                os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
