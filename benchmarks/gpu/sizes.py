"""How much each part does: `FULL` on a GPU, `SMALL` where a rehearsal only shows that all of it runs."""

from __future__ import annotations

from typing import Final, NamedTuple


class Sizes(NamedTuple):
    """Numbers that are larger where a device is faster."""

    cycles: int  # for which a sleeping layer keeps its stream busy, at most
    steps: int  # with sleeping layers
    durations: tuple[float, ...]  # of an op in ms; those that are judged come first
    seconds: float  # for one comparison of speed
    rounds: int  # of it at least
    width: int  # with which the search for the width of an op begins, and that of the net whose memory is looked at
    samples: int  # of that net
    lesson: tuple[int, int]  # width and samples in the appendix of lesson 06
    lesson_rounds: int  # of lesson 08's steps


FULL: Final = Sizes(2_000_000, 500, (1.0, 0.1, 10.0), 6.0, 3, 2048, 4096, (2048, 8192), 8)
SMALL: Final = Sizes(10_000, 12, (0.1,), 0.1, 2, 32, 64, (16, 64), 1)
