"""What any exercise gets back from several processes: their notes, and why they did not come to their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from gpipe_edu.distributed.diary import Entry

Diaries: TypeAlias = Sequence[Sequence[Entry]]
"""What each process has noted."""


class Failure(NamedTuple):
    """An error: its type, its message and its lines; what the traffic says of it, and how long there was."""

    kind: str
    message: str
    lines: list[Any]
    reason: str
    seconds: float


def failure_of(error: Exception, limit: float) -> Failure:
    """Why a crew's processes did not come to their end. limit: seconds that they had, where `error` does not say."""
    lines, reason = getattr(error, "lines", []), getattr(error, "reason", "")
    seconds = getattr(error, "seconds", None) or limit
    return Failure(type(error).__name__, str(error), lines, reason, seconds)
