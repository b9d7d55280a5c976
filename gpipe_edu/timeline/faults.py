"""Steps in which one thing is wrong, simulated, to practise on.

They have what profiles have besides: every op takes a little more or less time than its like, and one takes much more,
once, for no reason that a trace could tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from gpipe_edu.schedule import Op, Schedule

from .timeline import Message, Span, Timeline

_FORWARD, _BACKWARD, _LINK = 1.0, 2.0, 0.5
"""A layer's forward and backward, and how long a message keeps its link busy."""

SLOWER: Final = 1.6
"""By what factor a slow rank's ops are longer than they should be."""

_LATER: Final = 8
"""By what factor a slow link's messages are."""


def step_with_fault(
    schedule: Schedule,
    layers: Sequence[int],
    *,
    slow_rank: int | None = None,
    slow_link: int | None = None,
    waits_for_sends: int | None = None,
    stumbles: Op | None = None,
    seed: int = 0,
) -> Timeline:
    """A step of a schedule with one stage on each rank, `layers[k]` layers on rank k.

    slow_rank: its ops take 1.6 times as long. slow_link: messages between this rank and the next do, 8 times, in both
    directions. waits_for_sends: this rank begins nothing before its own message has arrived. stumbles: the op that
    takes three times as long, once; by chance if it is not said.
    """
    draw = Random(seed)
    all_ops = [op for row in schedule.rows for op in row]
    by_chance = draw.choice(all_ops)
    spans: dict[Op, Span] = {}
    arrivals: dict[tuple[Op, int], float] = {}
    links: dict[tuple[int, int], float] = {}
    free, messages = [0.0] * schedule.devices, []
    for device, op, _ in schedule.steps:
        cost = {"F": _FORWARD, "B": _BACKWARD}[op.kind] * layers[device] * draw.uniform(0.97, 1.03)
        cost *= (SLOWER if device == slow_rank else 1) * (3 if op == (stumbles or by_chance) else 1)
        start = max([free[device], *(arrivals.get((need, device), spans[need].end) for need in schedule.needs(op))])
        spans[op] = Span(device, op, start, start + cost)
        free[device] = start + cost
        goal = device + (1 if op.kind == "F" else -1)
        if 0 <= goal < schedule.devices:
            late = _LATER if slow_link == min(device, goal) else 1
            sent = max(start + cost, links.get((device, goal), 0.0))
            there = sent + _LINK * late * draw.uniform(0.97, 1.03)
            links[device, goal] = arrivals[op, goal] = there
            messages.append(Message(op, device, goal, sent, there, there))
            if device == waits_for_sends:
                free[device] = there
    return Timeline(spans.values(), schedule.devices, name="a profile, simulated", messages=messages)
