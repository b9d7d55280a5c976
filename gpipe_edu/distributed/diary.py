"""What a process notes while it runs: each message it posts, waits for and completes, and when each op ran; and what is
raised when processes can't finish.

A diary is a file that grows by a line per entry, so it survives if the process is killed by a signal, and can be read
meanwhile without disturbing the process. All processes of a machine share the clock. Lines of the function that is run
are noted, and an error shows them.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from gpipe_edu.base.validate import SaidPlainly
from gpipe_edu.process.lines import Line
from gpipe_edu.process.packing import is_in_a_library

_OURS: Final = str(Path(__file__).parents[1]) + os.sep

Entry = dict[str, Any]


class Diary:
    """The diary of one process for one run, open for writing."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.posts = 0

    def note(self, **entry: Any) -> None:
        """Add an entry, with the time."""
        os.write(self._file, json.dumps({**entry, "t": perf_counter()}).encode() + b"\n")

    def close(self) -> None:
        """Close the file; nothing is written after this."""
        os.close(self._file)


def read(path: Path) -> list[Entry]:
    """All entries that are complete so far."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:  # it has not begun
        return []
    return [json.loads(entry) for entry in text.split(b"\n")[:-1]]


def line() -> Line:
    """The innermost line of the call stack that is neither ours nor PyTorch's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_library_file(frame.f_code.co_filename):
        frame = frame.f_back
    return Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


@cache
def is_library_file(file: str) -> bool:
    """Whether `file` is not the learner's, but Python's, PyTorch's or ours."""
    return "<" in file or file.startswith(_OURS) or is_in_a_library(file)


class ProcessError(SaidPlainly, RuntimeError):
    """The processes could not finish.

    reason: for a deadlock "sends", "receives", "waits", "tags", "lost" or "returned"; for a message "size", "dtype",
    "unreceived" or "unwaited"; else "late", "died" or "exit".

    lines: those that say where. seconds: how long they had, if they were late.
    """

    def __init__(self, reason: str, message: str, lines: Sequence[Line] = (), seconds: float | None = None) -> None:
        super().__init__(message)
        self.reason, self.lines, self.seconds = reason, list(lines), seconds


class NoNeighbour(ValueError):
    """A message to or from a process that is not there."""

    reason = "no-neighbour"


def format_line(line: Line) -> str:
    """A line of code for an error message."""
    return f"\n  line {line.number} of {line.function}: {linecache.getline(line.file, line.number).strip()}"
