"""Where one thread hands calls to devices, the order of its loop costs time: a call that waits holds up all others.

K = 2, M = 2, calls as (micro-batch, stage). By the clock, (0, 0) (1, 0) (0, 1) (1, 1), they take three ticks:

    tick 0  (0, 0)
    tick 1  (1, 0) (0, 1)
    tick 2  (1, 1)

Micro-batch by micro-batch, (0, 0) (0, 1) (1, 0) (1, 1), they take three, too; with more devices this order is slower.
"""

from __future__ import annotations

from collections.abc import Sequence


def dispatch_calls(order: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """The ticks in which devices run the calls (micro-batch, stage), dispatched one by one in this order.

    Every call takes a tick. It begins when its device and its micro-batch are free and the call before it has begun.
    """
    ticks: list[list[tuple[int, int]]] = []
    free: dict[str, int] = {}
    now = 0
    for m, k in order:
        now = max(now, free.get(f"device {k}", 0), free.get(f"micro-batch {m}", 0))
        ticks += [[] for _ in range(now + 1 - len(ticks))]
        ticks[now].append((m, k))
        free[f"device {k}"] = free[f"micro-batch {m}"] = now + 1
    return ticks
