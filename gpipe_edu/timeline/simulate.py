"""When every op runs if ops take the given times: a schedule becomes a planned timeline.

    device 0   F0 F1 F2 F3                   B3 B2 B1 B0
    device 1      F0 F1 F2 F3          B3 B2 B1 B0
    device 2         F0 F1 F2 F3 B3 B2 B1 B0

A device runs its ops in the given order and starts each as soon as it is free and the op's inputs are there. A link
carries its messages in the order in which they were sent, which is that of the ops on the sending device. So there are
no choices to make and no ties to break: the same schedule and costs always give the same timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from gpipe_edu.base.validate import per_stage
from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.schedule.op import SENDS_GRADIENT
from gpipe_edu.schedule.schedule import check_schedule

from .costs import Costs
from .timeline import Message, Span, Timeline

DEFAULT = Costs()


def simulate(schedule: Schedule, costs: Costs = DEFAULT, alone: Sequence[float] = ()) -> Timeline:
    """The planned timeline of `schedule`, in the unit of `costs`, in time linear in the number of ops.

    alone: per stage, how much longer than in a pair a forward or an op that sends a gradient takes where it is in none,
    as nothing then hides its messages.

    Raises ScheduleError if the schedule cannot run, ValueError if a number per stage or micro-batch does not fit them,
    TypeError for arguments of other types.
    """
    if not isinstance(costs, Costs):
        raise TypeError(f"costs is {costs!r}; it must be a Costs, such as Costs(F=1, B=2)")
    duration = costs.durations(check_schedule(schedule))
    if alone:
        duration = _longer_alone(schedule, duration, per_stage("alone", alone, schedule.stages))
    spans, messages = run(schedule, duration, costs.send, costs.link, overlap=costs.overlap, sizes=costs.sizes)
    return Timeline(
        spans,
        schedule.devices,
        name=schedule.name,
        unit=costs.unit,
        send=costs.send,
        messages=messages,
        pairs=schedule.pairs,
    )


def _longer_alone(schedule: Schedule, duration: Callable[[Op], float], alone: Sequence[float]) -> Callable[[Op], float]:
    paired = {op for pair in schedule.pairs for op in pair}
    sends = {"F", *SENDS_GRADIENT}
    return lambda op: duration(op) + alone[op.stage] if op.kind in sends and op not in paired else duration(op)


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
    sizes: Sequence[float] = (),
) -> tuple[list[Span], list[Message]]:
    """When every op runs and every message is on its link; for a schedule that gets stuck, up to where it does.

    late: what comes on top of `send` between a source and a target, where that was measured. overlap: how much of the
    shorter op of a pair hides behind the longer one. Of the time of both, each has its share, the forward first. sizes:
    how many times `link` the messages of each micro-batch take.
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
            idle_from[device, goal] = left = on_link + (link * sizes[op[1]] if sizes else link)
            arrived[op] = left + send
            messages.append(Message(op, device, goal, on_link, left, left + send))
    return spans, messages


def _goals(schedule: Schedule) -> dict[Op, int]:
    """For every op whose output is needed on another device, that device; the rules allow only one."""
    home = schedule.device_of_stage
    steps = schedule.apart().steps
    return {need: device for device, _, needs in steps for need in needs if home[need[2]] != device}
