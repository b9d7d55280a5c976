"""How timelines differ, in words and numbers: a picture shows that they do, a sentence says by how much.

A bubble alone misleads, so every comparison names makespan, bubble, useful work and memory together. For a plan and
the run it stands for, it also says which kind of op, and which single op, was off the most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from gpipe_edu.schedule import KINDS
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.timeline.memory import peak_memory, shares
from gpipe_edu.view.measures import NOISE, TimeUnit, fullest, time_unit, useful_fraction

_SAME: Final = 5e-4
"""Shares below this would be printed as 0.0%."""


def differences(timelines: Sequence[Timeline]) -> list[str]:
    """Sentences that compare every later timeline with the first; none for a single one."""
    shown = time_unit(timelines[0].unit, max(timeline.makespan for timeline in timelines))
    names = _names(timelines)
    return [
        sentence
        for timeline, name in zip(timelines[1:], names[1:], strict=True)
        for sentence in _against(timelines[0], timeline, names[0], name, shown)
    ]


def _names(timelines: Sequence[Timeline]) -> list[str]:
    """Names that tell the timelines apart: with the source where names are equal, with a number where both are."""
    names = [timeline.name or "pipeline" for timeline in timelines]
    if len(set(names)) < len(names):
        names = [f"{name}, {timeline.source}" for name, timeline in zip(names, timelines, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    return [f"“{name}”" for name in names]


def _against(base: Timeline, other: Timeline, base_name: str, name: str, shown: TimeUnit) -> list[str]:
    lines = [f"{name} {_lengths(base, other, base_name, shown)}"]
    lines.append(
        f"Bubble {other.bubble_fraction:.1%} against {base.bubble_fraction:.1%}, useful work "
        f"{useful_fraction(other):.1%} against {useful_fraction(base):.1%}, peak memory {_fullest_device(other)} "
        f"against {_fullest_device(base)}."
    )
    longer = other.makespan - base.makespan > NOISE * base.makespan
    if _costs_of_a_larger_model(base, other):
        lines.append(
            f"A stage costs the same in both, and {name} has {_stages(other)} of them, {base_name} {_stages(base)}: "
            f"that is a larger model. For the same one, F and B are {_stages(base)}/{_stages(other)} of that size."
        )
    elif _micro_batches(other) > _micro_batches(base) and _same_op_times(base, other):
        lines.append(
            f"A micro-batch takes as long in both, and {name} has {_micro_batches(other)} of them, {base_name} "
            f"{_micro_batches(base)}: that is a larger mini-batch."
        )
    elif longer and base.bubble_fraction - other.bubble_fraction > NOISE:
        lines.append(f"A smaller bubble, and yet slower: {name} fills time with recompute or with slower ops.")
    if other.source != base.source:
        lines += _ops(base, other, shown)
    return lines


def _stages(timeline: Timeline) -> int:
    return len({span.op.stage for span in timeline.spans})


def _costs_of_a_larger_model(base: Timeline, other: Timeline) -> bool:
    """Whether more stages were given the costs of fewer, the usual slip in comparing interleaved schedules."""
    return _stages(other) > _stages(base) and _same_op_times(base, other)


def _micro_batches(timeline: Timeline) -> int:
    return len({span.op.micro_batch for span in timeline.spans})


def _same_op_times(base: Timeline, other: Timeline) -> bool:
    """Whether ops of a kind take equally long in both, as in plans; runs never agree so well."""
    if "measured" in (base.source, other.source):
        return False
    a, b = ({span.op.kind: _length(span) for span in timeline.spans} for timeline in (base, other))
    return all(abs(a[kind] - b[kind]) <= NOISE * base.makespan for kind in a.keys() & b.keys())


def _fullest_device(timeline: Timeline) -> str:
    return fullest(timeline, max(peak_memory(timeline, interior=shares(timeline))))


def _lengths(base: Timeline, other: Timeline, base_name: str, shown: TimeUnit) -> str:
    gap = other.makespan - base.makespan
    if abs(gap) <= NOISE * base.makespan:
        return f"takes {shown.show(other.makespan)}, exactly as long as {base_name}."
    share = f" ({abs(gap) / base.makespan:.1%})" if base.makespan else ""
    word = "longer" if gap > 0 else "shorter"
    return (
        f"takes {shown.show(other.makespan)}, {shown.show(abs(gap))}{share} {word} than {base_name} "
        f"with {shown.show(base.makespan)}."
    )


def _ops(base: Timeline, other: Timeline, shown: TimeUnit) -> list[str]:
    """How the times of the same ops differ, by kind, and the one op that differs most."""
    before = {span.op: span for span in base.spans}
    pairs = [(before[span.op], span) for span in other.spans if span.op in before]
    if not pairs:
        return ["They have no op in common, so op times cannot be held against each other."]
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one, two in pairs:
        totals[one.op.kind][0] += _length(one)
        totals[one.op.kind][1] += _length(two)
    changes = [
        f"{KINDS[kind]} {totals[kind][1] / totals[kind][0] - 1:+.1%}"
        for kind in KINDS
        if kind in totals and totals[kind][0]
    ]
    if all(abs(now - was) < _SAME * was for was, now in totals.values()):
        changes = ["as much in all, so what differs is when each op could start"]
    one, two = max(pairs, key=lambda pair: abs(_length(pair[1]) - _length(pair[0])))
    lines = [f"Time spent in ops, {other.source} against {base.source}: {', '.join(changes)}."] if changes else []
    if abs(_length(two) - _length(one)) > NOISE * base.makespan:
        lines.append(
            f"Furthest off: {two.op.label} of stage {two.op.stage} on device {two.device} took "
            f"{shown.show(_length(two))}, {base.source} {shown.show(_length(one))}."
        )
    return lines


def _length(span: Span) -> float:
    return span.end - span.start
