"""When every op runs if ops take the given times: a schedule becomes a planned timeline.

    device 0   F0 F1 F2 F3                   B3 B2 B1 B0
    device 1      F0 F1 F2 F3          B3 B2 B1 B0
    device 2         F0 F1 F2 F3 B3 B2 B1 B0

A device runs its ops in the given order and starts each as soon as it is free and the op's inputs are there. A link
carries its messages in the order in which they were sent, which is that of the ops on the sending device. So there are
no choices to make and no ties to break: the same schedule and costs always give the same timeline.

Where one thread hands calls to devices, the order of its loop costs time, too: a call that waits holds up all that
follow. K = 2, M = 2, calls as (micro-batch, stage). By the clock, (0, 0) (1, 0) (0, 1) (1, 1), they take three ticks:

    tick 0  (0, 0)
    tick 1  (1, 0) (0, 1)
    tick 2  (1, 1)

Micro-batch by micro-batch, (0, 0) (0, 1) (1, 0) (1, 1), they take three, too; with more devices this order is slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.schedule.needs import Needs
from gpipe_edu.schedule.op import KINDS, SENDS_GRADIENT
from gpipe_edu.schedule.schedule import check_schedule

from .costs import Costs
from .timeline import Message, Span, Timeline

DEFAULT = Costs()


def simulate(schedule: Schedule, costs: Costs = DEFAULT) -> Timeline:
    """The planned timeline of `schedule`, in the unit of `costs`, in time linear in the number of ops.

    Raises ScheduleError if the schedule cannot run, ValueError if a cost per stage does not fit the stages,
    TypeError for arguments of other types.
    """
    if not isinstance(costs, Costs):
        raise TypeError(f"costs is {costs!r}; it must be a Costs, such as Costs(F=1, B=2)")
    table = costs.table(check_schedule(schedule).stages)
    spans, messages = run(schedule, lambda op: table[op[0]][op[2]], costs.send, costs.link, overlap=costs.overlap)
    return Timeline(
        spans,
        schedule.devices,
        name=schedule.name,
        unit=costs.unit,
        send=costs.send,
        messages=messages,
        pairs=schedule.pairs,
    )


Arrivals = list[float | None]
"""By micro-batch, when another stage's output for it arrives; None: not known yet."""


class _Way(NamedTuple):
    """Of all ops of one kind and stage: what they wait for from another stage, and where their own goes."""

    waits: Arrivals | None
    seconds: float
    goal: int | None
    arrivals: Arrivals


def _ways(schedule: Schedule, costs: Costs) -> dict[str, dict[int, _Way]]:
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
        ways[kind][stage] = _Way(waits.get((kind, stage)), table[kind][stage], goal, arrivals)
    return ways


class Ends(NamedTuple):
    """Of each device: when its last op ends, and how long it runs ops."""

    last: tuple[float, ...]
    busy: tuple[float, ...]


def simulate_ends(schedule: Schedule, costs: Costs) -> Ends:
    """What `simulate` says of when devices are ready, in two fifths of the time, for comparing many schedules.

    The schedule must be one that can run, such as a recipe's: that is not checked. Then an op waits for its turn and
    for what comes from another stage, so times are all that has to be kept. Pairs run apart.
    """
    home, ways = schedule.device_of_stage, _ways(schedule, costs)
    send, link = costs.send, costs.link
    free, busy = [0.0] * schedule.devices, [0.0] * schedule.devices
    idle_from = [[0.0] * schedule.devices for _ in free]  # per link: when its last message has left it
    left = [iter(row) for row in schedule.rows]
    heads = [next(row, None) for row in left]
    awake = list(range(schedule.devices))
    while awake:
        device = awake.pop()
        now, links = free[device], idle_from[device]
        op = heads[device]
        while op is not None:
            kind, m, stage = op
            waits, seconds, goal, arrivals = ways[kind][stage]
            if waits is not None:
                there = waits[m]
                if there is None:
                    break
                if there > now:
                    now = there
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


def replay(
    schedule: Schedule,
    duration: Callable[[Op], float],
    send: float = 0,
    link: float = 0,
    source: str = "planned",
    unit: str = "",
) -> Timeline:
    """Like `simulate`, with a duration for every single op: for durations that were measured one by one. So pairs run
    apart.

    Raises ScheduleError if the schedule cannot run.
    """
    spans, messages = run(check_schedule(schedule).apart(), duration, send, link)
    return Timeline(spans, schedule.devices, name=schedule.name, source=source, unit=unit, send=send, messages=messages)


def run(
    schedule: Schedule,
    duration: Callable[[Op], float],
    send: float = 0,
    link: float = 0,
    late: Mapping[tuple[int, int], float] = MappingProxyType({}),
    overlap: float = 0,
) -> tuple[list[Span], list[Message]]:
    """When every op runs and every message is on its link; for a schedule that gets stuck, up to where it does.

    late: what comes on top of `send` between a source and a target, where that was measured. overlap: how much of the
    shorter op of a pair hides behind the longer one. Of the time of both, each has its share, the forward first.
    """
    device_of_stage = schedule.device_of_stage
    free = [0.0] * schedule.devices
    ended: dict[Op, float] = {}
    goals = _goals(schedule) if link else {}
    arrived: dict[Op, float] = {}
    idle_from: dict[tuple[int, int], float] = {}  # per link, source and target: when its last message has left it
    paired, backward_of = bool(schedule.pairs), dict(schedule.pairs)
    block_ends: dict[Op, float] = {}  # of the backward of each pair
    spans: list[Span] = []
    messages: list[Message] = []
    for device, op, needs in schedule.steps:
        start = free[device]
        second = paired and op in block_ends  # its forward has waited for all that it needs
        for need in () if second else needs:
            there = ended[need]
            if device_of_stage[need[2]] != device:
                there = arrived[need] if link else there + send
                if late:
                    there += late.get((device_of_stage[need[2]], device), 0)
            if there > start:
                start = there
        end = leaves = block_ends[op] if second else start + duration(op)
        if paired and op in backward_of:
            forward, backward = end - start, duration(backward_of[op])
            both = forward + backward - overlap * min(forward, backward)
            leaves = block_ends[backward_of[op]] = start + both
            end = start + both * forward / (forward + backward) if both else start
        free[device], ended[op] = end, leaves
        spans.append(Span(device, op, start, end))
        goal = goals.get(op)
        if goal is not None:
            on_link = max(leaves, idle_from.get((device, goal), leaves))
            idle_from[device, goal] = left = on_link + link
            arrived[op] = left + send
            messages.append(Message(op, device, goal, on_link, left, left + send))
    return spans, messages


def _goals(schedule: Schedule) -> dict[Op, int]:
    """For every op whose output is needed on another device, that device; the rules allow only one."""
    home = schedule.device_of_stage
    steps = schedule.apart().steps
    return {need: device for device, _, needs in steps for need in needs if home[need[2]] != device}


def merge_replays(runs: Iterable[Timeline]) -> Timeline:
    """One replayed timeline from several of the same schedule: every op takes its shortest time in any of them.

    Other programs can only add time, and hardly ever to the same op in every run, while on a busy machine an
    undisturbed run is rare. Raises ValueError for no runs, for timelines that are not replayed, and for runs of
    different schedules.
    """
    timelines = list(runs)
    if not timelines:
        raise ValueError("merge_replays needs at least one run; several are better")
    rows = _rows(timelines[0])
    seconds: dict[Op, float] = {}
    for timeline in timelines:
        if timeline.source != "replayed":
            raise ValueError(
                f"{timeline!r} is {timeline.source}; only replayed ops, timed one by one, can come from several runs"
            )
        if _rows(timeline) != rows:
            raise ValueError(f"{timeline!r} runs other ops, or in another order, than {timelines[0]!r}")
        for span in timeline.spans:
            seconds[span.op] = min(span.end - span.start, seconds.get(span.op, float("inf")))
    schedule = Schedule(rows, name=timelines[0].name)
    return replay(schedule, seconds.__getitem__, source="replayed", unit=timelines[0].unit)


def _rows(timeline: Timeline) -> list[list[Op]]:
    return [[span.op for span in timeline.row(device)] for device in range(timeline.devices)]


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
