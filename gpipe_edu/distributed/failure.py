"""What is raised when processes can't finish, and how a line of the function is shown in its message."""

from __future__ import annotations

import linecache
from collections.abc import Sequence

Place = tuple[str, int, str]
"""File, line and function."""


class ProcessError(RuntimeError):
    """The processes could not finish.

    reason: for a deadlock "sends", "receives", "waits", "tags", "lost" or "returned"; for a message "size", "dtype",
    "unreceived" or "unwaited"; else "late", "died" or "exit".

    places: the lines that say where.
    """

    def __init__(self, reason: str, message: str, places: Sequence[Place] = ()) -> None:
        super().__init__(message)
        self.reason, self.places = reason, list(places)

    def _render_traceback_(self) -> list[str]:
        """In a notebook the message is what helps, not the calls that led to it."""
        return [f"{type(self).__name__}: {self}"]


def shown(place: Place) -> str:
    """A line for a message."""
    file, line, name = place
    return f"\n  line {line} of {name}: {linecache.getline(file, line).strip()}"
