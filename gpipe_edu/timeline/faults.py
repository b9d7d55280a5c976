"""Steps in which one thing is wrong, to practise on: simulated, with what real profiles have besides.

Every op takes a little more or less time than its like, and one takes much more, once, for no reason that a trace could
tell. Where a rank waits for its sends, the others do not, and that shows: each begins something while a message of its
own is on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from gpipe_edu.schedule import Op, Schedule

from .timeline import Message, Span, Timeline

_FORWARD, _BACKWARD = 1.0, 2.0
"""What a layer takes."""

_LINK, _LATENCY = 0.3, 0.2
"""How long a message keeps its link busy, and how long it takes after that."""

SLOWER: Final = 1.6
"""By what factor a slow rank's ops are longer than they should be."""

_LATER: Final = 8
"""By what factor a slow link's messages take longer."""

_TRIES: Final = 10


class _Faults(NamedTuple):
    slow_rank: int | None
    slow_link: int | None
    waits_for_sends: int | None
    waits_for_link: int | None
    stumbles: Op | None


def step_with_fault(
    schedule: Schedule,
    layers: Sequence[int],
    *,
    slow_rank: int | None = None,
    slow_link: int | None = None,
    waits_for_sends: int | None = None,
    waits_for_link: int | None = None,
    stumbles: Op | None = None,
    seed: int = 0,
) -> Timeline:
    """A step of a schedule with one stage on each rank, `layers[k]` layers on rank k.

    slow_rank: its ops take 1.6 times as long. slow_link: messages between this rank and the next take 8 times as long,
    in both directions. waits_for_sends: this rank begins nothing before its own message has arrived. waits_for_link:
    this one begins nothing before its own message has left the link, which is no fault. stumbles: the op that takes
    three times as long, once; drawn at random by default.

    Durations are drawn until each rank that does not wait for its sends begins some op while a message of its own is on
    its way. Where a slow neighbour keeps a rank from that in every draw, the last draw stands.

    Raises ValueError if that is so where another rank waits for its sends: nobody could tell the two apart.
    """
    draw = Random(seed)
    faults = _Faults(slow_rank, slow_link, waits_for_sends, waits_for_link, stumbles)
    for _ in range(_TRIES):
        timeline = _simulate(schedule, layers, faults, draw)
        waiting = [k for k in range(schedule.devices) if k != waits_for_sends and not _overlaps(timeline, k)]
        if not waiting:
            return timeline
    if waits_for_sends is not None:
        raise ValueError(
            f"rank {waiting[0]} never begins an op while a message of its own is on its way, as if it waited for its "
            f"sends like rank {waits_for_sends}: take more micro-batches, or ranks with equally many layers"
        )
    return timeline


def _overlaps(timeline: Timeline, k: int) -> bool:
    """Whether a rank that sends begins an op while a message of its own is on its way."""
    sent, starts = [one for one in timeline.messages if one.source == k], [span.start for span in timeline.row(k)]
    return not sent or any(one.start <= start < one.there for one in sent for start in starts)


def _simulate(schedule: Schedule, layers: Sequence[int], faults: _Faults, draw: Random) -> Timeline:
    by_chance = draw.choice([op for row in schedule.rows for op in row])
    spans: dict[Op, Span] = {}
    arrivals: dict[tuple[Op, int], float] = {}
    links: dict[tuple[int, int], float] = {}
    free, messages = [0.0] * schedule.devices, []
    for device, op, _ in schedule.steps:
        cost = {"F": _FORWARD, "B": _BACKWARD}[op.kind] * layers[device] * draw.uniform(0.97, 1.03)
        cost *= (SLOWER if device == faults.slow_rank else 1) * (3 if op == (faults.stumbles or by_chance) else 1)
        start = max([free[device], *(arrivals.get((need, device), spans[need].end) for need in schedule.needs(op))])
        spans[op] = Span(device, op, start, start + cost)
        free[device] = start + cost
        goal = device + (1 if op.kind == "F" else -1)
        if 0 <= goal < schedule.devices:
            longer = (_LATER if faults.slow_link == min(device, goal) else 1) * draw.uniform(0.97, 1.03)
            sent = max(start + cost, links.get((device, goal), 0.0))
            end = links[device, goal] = sent + _LINK * longer
            there = arrivals[op, goal] = sent + (_LINK + _LATENCY) * longer
            messages.append(Message(op, device, goal, sent, end, there))
            free[device] = {faults.waits_for_sends: there, faults.waits_for_link: end}.get(device, free[device])
    return Timeline(spans.values(), schedule.devices, name="a profile, simulated", messages=messages)
