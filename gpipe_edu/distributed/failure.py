"""What is raised when processes can't finish, and how a line of the function is shown in its message."""

from __future__ import annotations

import linecache
from collections.abc import Sequence

from gpipe_edu.base.validate import SaidPlainly
from gpipe_edu.process.lines import Line


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
