"""Orders as other projects write them down, read as schedules.

Each says less than a schedule does: Megatron-LM counts the micro-batches instead of naming them, and zero bubble does
not say which stage a device's second chunk is. What an order leaves out is what its own project makes of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from gpipe_edu.base.validate import whole
from gpipe_edu.base.words import shown

from .doctor import Problem, ScheduleError
from .op import Op
from .schedule import Schedule

ZERO_BUBBLE_WORD: Final = re.compile(
    r"(?:([FBWR])|S[FB]|R[FB]|[RS]?PV|OS[SE]|OR[PSE]|OB)(\d{1,9})", re.ASCII | re.IGNORECASE
)
"""A word of `read_zero_bubble`: an op, or a send, a receive, an offload or a check of gradients."""


def read_zero_bubble(text: str, name: str = "") -> Schedule:
    """What zero-bubble-pipeline-parallelism prints for a schedule: a line for each stage, such as "f0 sf0 rb0 b0 w0".

    Small letters are a device's first chunk and capitals its second; B is an input gradient where a W follows, and both
    gradients where none does. Sends and the like are left out. The print does not say which stage a second chunk is: it
    is that of a V, 2K - 1 - k on device k, unless only K + k, that of a loop, can run.

    Raises ScheduleError naming line and word for anything else.
    """
    rows: list[list[tuple[str, int, bool]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        row = []
        for word in line.split():
            match = ZERO_BUBBLE_WORD.fullmatch(word)
            if not match:
                message = (
                    f'line {number}: cannot read "{shown(word)}"; zero bubble writes f0, b0 and w0 for the first chunk '
                    f"of a device, F0, B0 and W0 for the second, and sf0, rf0, sb0, rb0 for what is sent and received"
                )
                raise ScheduleError([Problem("unreadable", message, None)])
            if match[1]:
                row.append((match[1].upper(), int(match[2]), match[1].isupper()))
        if line.split():
            rows.append(row)
    K = len(rows)
    split = {(device, m, second) for device, row in enumerate(rows) for kind, m, second in row if kind == "W"}

    def placed(second_stage: Sequence[int]) -> Schedule:
        return Schedule(
            [
                [
                    Op("I" if kind == "B" and (k, m, second) in split else kind, m, second_stage[k] if second else k)
                    for kind, m, second in row
                ]
                for k, row in enumerate(rows)
            ],
            name=name,
        )

    in_v, in_loop = placed(range(2 * K - 1, K - 1, -1)), placed(range(K, 2 * K))
    return in_loop if in_v.problems() and not in_loop.problems() else in_v


def read_megatron_order(order: Sequence[Sequence[int]], name: str = "") -> Schedule:
    """Megatron-LM's order for each rank, from its `convert_schedule_table_to_order`: 1 is a forward of the first of a
    rank's model chunks, -2 a backward of the second. Chunk c of rank k is stage (c - 1) K + k.

    A chunk's micro-batches are not named, because they go forward, and backward, in their order: 0, 1, 2, ...

    Raises ValueError for a 0, TypeError for what is no whole number.
    """
    rows = []
    for k, given in enumerate(order):
        done: Counter[int] = Counter()
        row = []
        for place, chunk in enumerate(given):
            number = whole(f"order[{k}][{place}]", chunk, -(10**9), 10**9)
            if not number:
                raise ValueError(f"order[{k}][{place}] is 0; chunks count from 1, and a backward is negative")
            stage = (abs(number) - 1) * len(order) + k
            row.append(Op("F" if number > 0 else "B", done[number], stage))
            done[number] += 1
        rows.append(row)
    return Schedule(rows, name=name)
