"""What any exercise gets back from several processes: their notes, and why they did not come to their end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from gpipe_edu.distributed import LocalGroup
from gpipe_edu.distributed.diary import Entry
from gpipe_edu.process.asking import ask_judge

Diaries: TypeAlias = Sequence[Sequence[Entry]]
"""What each process has noted."""


class Failure(NamedTuple):
    """An error: its type, its message and its lines; what the traffic says of it, and how long there was."""

    kind: str
    message: str
    lines: list[Any]
    reason: str
    seconds: float


_group = LocalGroup()
"""In the learner's process: waits between two calls, because starting takes long."""


class Ran(NamedTuple):
    """What came of several processes: the value of each, their notes, and why they did not come to their end."""

    values: list[Any]
    diaries: Diaries
    failure: Failure | None = None


def run_judged(calls: Sequence[Callable[[], Any]], limit: float) -> Ran:
    """Call each in a process of its own. limit: seconds. The judge gets what process k asks as (k, question)."""
    try:
        return Ran(*_group.run(calls, limit, lambda k, question: ask_judge((k, question))))
    except Exception as error:
        lines, reason = getattr(error, "lines", []), getattr(error, "reason", "")
        seconds = getattr(error, "seconds", None) or limit
        return Ran([], _group.diaries, Failure(type(error).__name__, str(error), lines, reason, seconds))
