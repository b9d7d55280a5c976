"""When each device is ready, without a timeline: for a search that compares hundreds of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.schedule.needs import Needs
from gpipe_edu.schedule.op import KINDS, SENDS_GRADIENT

from .costs import Costs

Arrivals = list[float | None]
"""By micro-batch, when another stage's output for it arrives; None: not known yet."""


class _Way(NamedTuple):
    """Of all ops of one kind and stage: what they wait for from another stage, how long they take, also where a pair
    has none of them, and where their own output goes."""

    waits: Arrivals | None
    seconds: float
    alone: float
    goal: int | None
    arrivals: Arrivals


def _ways(schedule: Schedule, costs: Costs, alone: Sequence[float]) -> dict[str, dict[int, _Way]]:
    """By kind and stage. Micro-batches are alike, so the rules are asked of one op of each kind and stage."""
    table = costs.table(schedule.stages)
    one_each = {(kind, stage): m for row in schedule.rows for kind, m, stage in row}
    asked = set(one_each.values())
    needs = Needs(op for row in schedule.rows for op in row if op[1] in asked)
    waits: dict[tuple[str, int], Arrivals] = {}
    goals: dict[tuple[bool, int], tuple[int, Arrivals]] = {}  # of activations, and of gradients
    for (kind, stage), m in one_each.items():
        for need in needs(Op(kind, m, stage)):
            if need.stage != stage:
                made = need.kind in SENDS_GRADIENT, need.stage
                waits[kind, stage] = goals.setdefault(made, (stage, [None] * schedule.micro_batches))[1]
    ways: dict[str, dict[int, _Way]] = {kind: {} for kind in KINDS}
    nowhere: tuple[None, Arrivals] = None, []
    for kind, stage in one_each:
        sends = kind == "F" or kind in SENDS_GRADIENT
        goal, arrivals = goals.get((kind != "F", stage), nowhere) if sends else nowhere
        seconds = table[kind][stage]
        longer = seconds + alone[stage] if alone and sends else seconds
        ways[kind][stage] = _Way(waits.get((kind, stage)), seconds, longer, goal, arrivals)
    return ways


class Ends(NamedTuple):
    """Of each device: when its last op ends, and how long it runs ops."""

    last: tuple[float, ...]
    busy: tuple[float, ...]


def simulate_ends(schedule: Schedule, costs: Costs, alone: Sequence[float] = ()) -> Ends:
    """What `simulate` says of when devices are ready, in two fifths of the time, for comparing many schedules.

    The schedule must be one that can run, such as a recipe's, its micro-batches alike, and nothing of a pair may
    overlap: that is not checked. Then an op waits for its turn and for what comes from another stage, so times are all
    that has to be kept.
    """
    home, ways, second_of = schedule.device_of_stage, _ways(schedule, costs, alone), dict(schedule.pairs)
    send, link = costs.send, costs.link
    free, busy = [0.0] * schedule.devices, [0.0] * schedule.devices
    idle_from = [[0.0] * schedule.devices for _ in free]  # per link: when its last message has left it
    left = [iter(row) for row in schedule.rows]
    heads = [next(row, None) for row in left]
    awake = list(range(schedule.devices))
    while awake:
        device = awake.pop()
        now, links = free[device], idle_from[device]
        op, second = heads[device], None
        while op is not None:
            kind, m, stage = op
            waits, seconds, longer, goal, arrivals = ways[kind][stage]
            if op is not second:  # else its forward has waited for all that it needs, and taken its time
                if waits is not None:
                    there = waits[m]
                    if there is None:
                        break
                    if there > now:
                        now = there
                second = second_of.get(op)
                if second is None:
                    seconds = longer
                else:
                    also = ways[second[0]][second[2]]
                    if also.waits is not None:
                        there = also.waits[second[1]]
                        if there is None:
                            break
                        if there > now:
                            now = there
                    seconds += also.seconds
                now += seconds
                busy[device] += seconds
            if goal is not None:
                target, there = home[goal], now
                if target != device:
                    if link:
                        there = links[target] = max(now, links[target]) + link
                    there += send
                    awake.append(target)
                arrivals[m] = there
            op = next(left[device], None)
        free[device], heads[device] = now, op
    return Ends(tuple(free), tuple(busy))
