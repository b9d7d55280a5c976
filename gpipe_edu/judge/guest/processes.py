"""What the exercises with several processes share: what comes back from them, with their notes and why they did not
finish; and the links of a ring, which tell the judge each message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from gpipe_edu.distributed import LocalGroup, ring_links
from gpipe_edu.distributed.diary import Entry
from gpipe_edu.process.asking import ask_judge

Diaries: TypeAlias = Sequence[Sequence[Entry]]
"""What each process has noted."""


class Failure(NamedTuple):
    """An error: its type, message and lines; what the traffic says of it, and how much time there was."""

    kind: str
    message: str
    lines: list[Any]
    reason: str
    seconds: float


_group = LocalGroup()
"""In the learner's process: kept between calls, because starting takes long."""


class Ran(NamedTuple):
    """What came of several processes: the value of each, their notes, and why they did not finish."""

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


LIMIT: Final = 5.0
"""Seconds for all calls in D processes, on top of starting these."""


@contextmanager
def told_links(rank: int, D: int) -> Iterator[tuple[Any, Any]]:
    """`ring_links` for one call; each message is told to the judge."""
    ask_judge(("step",))
    with ring_links(rank, D) as (send, receive):

        def send_and_tell(array: Any) -> None:
            ask_judge(("sent", np.array(array)))
            send(array)

        def receive_and_tell(like: Any) -> Any:
            came = receive(like)
            ask_judge(("received", came))
            return came

        yield send_and_tell, receive_and_tell


def copied(answer: Any) -> Any:
    """An answer as it is now, with arrays of our own."""
    return [plain_arrays(one) for one in answer] if isinstance(answer, list) else plain_arrays(answer)


def plain_arrays(value: Any) -> Any:
    """The value, as an array of our own if it is one."""
    return np.array(value) if hasattr(value, "__array__") else value
