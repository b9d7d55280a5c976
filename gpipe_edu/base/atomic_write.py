"""A file is written whole or not at all: a full disk must not leave half a table, or half of a learner's answers.

Nor must a character that UTF-8 cannot encode, such as a lone surrogate in an error message: it is written escaped, as
"\\ud800".
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def name_errors(path: Path) -> Iterator[None]:
    """Around work on `path`: an OSError names the file, which the one for a full disk does not do by itself."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def escape(text: str) -> str:
    """The text, with whatever UTF-8 cannot encode escaped."""
    return text.encode(errors="backslashreplace").decode()


def printable(text: str) -> str:
    """The text, safe for a terminal: what would move its cursor, or colour or rename it, is escaped, as "\\x1b"."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in escape(text))


def escape_on_terminals() -> None:
    """From now on, what the terminal cannot encode is escaped on standard output, as it always is on standard error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def say(words: str) -> None:
    """Print at once. Once nobody reads any more, as with `| head`, the work goes on in silence."""
    try:
        print(printable(words), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_whole(path: Path, content: str | bytes, private: bool = False) -> None:
    """Write or replace a file atomically: a reader sees all of the old one or all of the new one.

    private: only its owner may read it. Raises OSError.
    """
    with name_errors(path):
        descriptor, name = tempfile.mkstemp(prefix=f".{path.stem[:40]}.", dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(content if isinstance(content, bytes) else escape(content).encode())
                file.flush()
                os.fsync(file.fileno())  # or a power cut could leave an empty file under the new name
            if not private:  # as temporary files are
                os.chmod(name, 0o644)
            _replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _replace(name: str, path: Path) -> None:
    """Windows replaces no file that is open, as it is for the milliseconds in which another notebook reads it."""
    for pause in (0.01, 0.05, 0.2, 0.5) if sys.platform == "win32" else ():
        try:
            return os.replace(name, path)
        except PermissionError:
            time.sleep(pause)
    return os.replace(name, path)
