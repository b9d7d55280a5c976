"""The links of a ring, of which the judge is told each message; what the exercises on rings share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from gpipe_edu.distributed import ring_links
from gpipe_edu.process.asking import ask_judge

LIMIT: Final = 5.0
"""Seconds for all calls in D processes, on top of starting these."""


@contextmanager
def told_links(rank: int, D: int) -> Iterator[tuple[Any, Any]]:
    """`ring_links` for one call, of which the judge is told each message."""
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
