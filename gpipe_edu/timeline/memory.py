"""Activation memory over time: what each device holds while a timeline runs, from sizes on paper.

A micro-batch brings a boundary input (what came from the stage in front) and an interior (what the layers of the stage
store for backward). Without re-materialization both stay until the micro-batch is finished. With it, the interior is
dropped at the end of the forward and comes back with the recompute.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpipe_edu.base.validate import numbers, per_stage
from gpipe_edu.base.words import plural
from gpipe_edu.schedule.op import FINISHES

from .timeline import Timeline

Size = float | Sequence[float]
"""One number for all stages, or one per stage."""


def memory_over_time(
    timeline: Timeline, boundary: Size = 0, interior: Size = 1, micro_batches: Sequence[float] | None = None
) -> list[list[tuple[float, float]]]:
    """Per device: (time, activations held from then on), one entry for every change.

    boundary, interior: size of one micro-batch's stage input and of what the stage's layers store for backward, in
    any unit. With the defaults the result counts micro-batches whose interior is there. micro_batches: how many times
    these sizes each micro-batch has; None: all are alike.

    Raises ValueError for a negative size or a list that does not fit the stages or micro-batches, TypeError for other
    types.
    """
    if not isinstance(timeline, Timeline):
        raise TypeError(f"timeline is {timeline!r}; it must be a Timeline, such as simulate(schedule)")
    stages = 1 + max(span.op.stage for span in timeline.spans)
    inputs, insides = per_stage("boundary", boundary, stages), per_stage("interior", interior, stages)
    count = 1 + max(span.op.micro_batch for span in timeline.spans)
    times = (1.0,) * count if micro_batches is None else numbers("micro_batches", micro_batches)
    if len(times) != count:
        raise ValueError(f"micro_batches has {plural(len(times), 'number')}; it must have one for each of the {count}")
    levels = []
    for device in range(timeline.devices):
        changes: list[tuple[float, float]] = []
        for span in timeline.row(device):
            kind, micro_batch, stage = span.op
            entry, inside = inputs[stage] * times[micro_batch], insides[stage] * times[micro_batch]
            thrown_away = timeline.needs.rematerializes(micro_batch, stage)
            if kind == "F":
                changes.append((span.start, entry + inside))
                if thrown_away:
                    changes.append((span.end, -inside))
            elif kind in "RC":
                changes.append((span.start, inside))
            if kind in FINISHES:
                changes.append((span.end, -entry - inside))
        levels.append(_accumulate(changes))
    return levels


def shares(timeline: Timeline) -> tuple[float, ...]:
    """Per stage: its part of its device, if the stages of a device are alike: 1 over their number.

    With these as `interior`, what a device holds is counted in micro-batches that went through all its stages, so that
    a device with V small stages can be compared with one that holds the same layers as a single stage.
    """
    held: list[set[int]] = [{span.op.stage for span in timeline.row(device)} for device in range(timeline.devices)]
    part = {stage: 1 / len(stages) for stages in held for stage in stages}
    return tuple(part.get(stage, 1.0) for stage in range(1 + max(part)))


def peak_memory(
    timeline: Timeline, boundary: Size = 0, interior: Size = 1, micro_batches: Sequence[float] | None = None
) -> tuple[float, ...]:
    """Per device: the most it holds at one time; arguments as in `memory_over_time`."""
    levels = memory_over_time(timeline, boundary, interior, micro_batches)
    return tuple(max((held for _, held in level), default=0) for level in levels)


def _accumulate(changes: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Changes at one time as one step: what ends frees its memory before what starts takes some."""
    steps: dict[float, float] = {}
    held = 0.0
    for time, change in sorted(changes):
        held += change
        steps[time] = held
    return list(steps.items())
