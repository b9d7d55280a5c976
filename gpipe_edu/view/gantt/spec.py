"""What the page gets to draw: one timeline as plain numbers, with every figure and every dependency worked out here.

The page has no rules of pipeline parallelism and no formulas of its own, so what it shows cannot contradict Python.
Ops are columns, not objects, in the order of the lanes: a step of 30,000 ops is then about a megabyte.

A schedule that cannot run has the same columns, and where each device stops. Bubbles, messages and memory are left out
there: how long a device waits, and how long it holds what it holds, cannot be told, since neither ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpipe_edu.schedule import KINDS, Op
from gpipe_edu.schedule.needs import Needs
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.timeline.diagram import contradiction_arrows
from gpipe_edu.timeline.memory import memory_over_time, shares
from gpipe_edu.timeline.stuck_schedule import StuckSchedule
from gpipe_edu.view.measures import (
    TimeUnit,
    figures,
    fullest,
    gaps,
    heading,
    recompute_time,
    sizes,
    stages_of,
    time_unit,
    updates,
    useful_fraction,
)
from gpipe_edu.view.stuck import MOST_ARROWS, RULES

FORMAT: Final = 1
"""Incremented when a page of an older version could no longer read what is sent."""

_DIGITS: Final = 9
"""Times are rounded to a nanosecond, or to the ninth digit of a cost unit."""


def specs(
    timelines: Sequence[Timeline], *, critical_path: bool = False, cap: float | None = None
) -> list[dict[str, Any]]:
    """One spec per timeline, all in the unit that fits the longest."""
    shown = time_unit(timelines[0].unit, max(timeline.makespan for timeline in timelines))
    return [spec(timeline, shown, critical_path=critical_path, cap=cap) for timeline in timelines]


def spec(
    timeline: Timeline, shown: TimeUnit, *, critical_path: bool = False, cap: float | None = None
) -> dict[str, Any]:
    """`timeline` as numbers, strings and lists; times count from its start. cap: micro-batches a device has room for.

    ops are columns, lane after lane; first[d] is the first op of device d. needs holds for every op the two ops it
    waited for, -1 for none. An idle time has the op that ends it (next) and what that op waited for last (cause).
    pairs, if there are any, are the forwards that run as one block with the op after them.
    """
    spans = [span for device in range(timeline.devices) for span in timeline.row(device)]
    index = {span.op: number for number, span in enumerate(spans)}
    needs = [[index[need] for need in timeline.needs(span.op)] for span in spans]
    start = timeline.start
    times = [(rounded(span.start - start), rounded(span.end - start)) for span in spans]
    first = [0]
    for device in range(timeline.devices):
        first.append(first[-1] + len(timeline.row(device)))
    recomputes = recompute_time(timeline)
    levels = memory_over_time(timeline, interior=shares(timeline))
    peaks = [rounded(max((held for _, held in level), default=0)) for level in levels]
    return {
        "format": FORMAT,
        "name": timeline.name or "pipeline",
        "heading": heading(timeline, shown),
        "K": timeline.devices,
        "M": 1 + max(span.op.micro_batch for span in spans),
        "end": rounded(timeline.makespan),
        "unit": page_unit(timeline),
        "source": timeline.source,
        "shown": list(shown),
        "send": timeline.send,
        "stages": stages_of(timeline),
        "first": first,
        "kind": "".join(span.op.kind for span in spans),
        "stage": [span.op.stage for span in spans],
        "micro_batch": [span.op.micro_batch for span in spans],
        "start": [begin for begin, _ in times],
        "stop": [end for _, end in times],
        "recompute": [rounded(recomputes.get(span, 0)) for span in spans] if recomputes else [],
        "needs": [[row[0] if row else -1 for row in needs], [row[1] if row[1:] else -1 for row in needs]],
        "idle": _idle(timeline, spans, needs, first),
        "messages": _messages(timeline, index),
        "flush": [rounded(timeline.makespan)] if updates(timeline) else [],
        "memory": [_columns((rounded(time - start), rounded(held)) for time, held in level) for level in levels],
        "cap": cap,
        "peaks": list(timeline.peak_in_flight),
        "figures": [*figures(timeline, shown), f"peak memory {fullest(timeline, max(peaks))}"],
        "stats": {
            "makespan": timeline.makespan,
            "bubble_fraction": timeline.bubble_fraction,
            "useful_fraction": useful_fraction(timeline),
            "peak_memory": peaks,
        },
        "broken": _broken(timeline, index),
        "critical": [index[span.op] for span in timeline.critical_path()] if critical_path else [],
    } | ({"pairs": sorted(index[forward] for forward, _ in timeline.pairs)} if timeline.pairs else {})


def page_unit(timeline: Timeline) -> str:
    """The unit of its times: "s", or "step" for cost units."""
    return timeline.unit or "step"


def to_json(data: object) -> str:
    """The text that is sent: without whitespace, and without infinity or NaN, which browsers reject."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def kind_names() -> dict[str, str]:
    """The letter and the name of every kind of op, for the legend and the sentences of the page."""
    return dict(KINDS)


def rounded(time: float) -> float:
    """A time as it is sent."""
    whole = int(time)
    return whole if whole == time else round(time, _DIGITS)


def _idle(
    timeline: Timeline, spans: Sequence[Span], needs: Sequence[Sequence[int]], first: Sequence[int]
) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"device": [], "start": [], "stop": [], "next": [], "cause": []}
    for device in range(timeline.devices):
        here, last = first[device], first[device + 1]
        for start, end in gaps(timeline, device):
            while here < last and spans[here].start < end:
                here += 1
            waited = needs[here] if here < last else ()
            cause = max(waited, key=lambda number: timeline.arrival(spans[number], device), default=-1)
            row = (device, rounded(start - timeline.start), rounded(end - timeline.start))
            for column, value in zip(columns.values(), (*row, here if here < last else -1, cause), strict=True):
                column.append(value)
    return columns


def _broken(timeline: Timeline, index: Mapping[Op, int]) -> list[list[int]]:
    """In a drawing: pairs of an op that starts too early and the one that it needs; the first ones, as in a picture."""
    arrows = contradiction_arrows(timeline)[:MOST_ARROWS] if timeline.source == "drawn" else []
    return [[index[arrow.start.op], index[arrow.end.op]] for arrow in arrows]


def _messages(timeline: Timeline, index: Mapping[Op, int]) -> dict[str, list[Any]]:
    """The messages on links, as columns: sender op, destination, start and end on the link, arrival."""
    rows, zero = timeline.messages, timeline.start
    return {
        "op": [index[message.op] for message in rows],
        "target": [message.target for message in rows],
        "start": [rounded(message.start - zero) for message in rows],
        "stop": [rounded(message.end - zero) for message in rows],
        "there": [rounded(message.there - zero) for message in rows],
    }


def _columns(rows: Iterable[tuple[float, float]]) -> list[list[float]]:
    pairs = list(rows)
    return [[time for time, _ in pairs], [held for _, held in pairs]]


def stuck_spec(still: StuckSchedule, shown: TimeUnit) -> dict[str, Any]:
    """`still` as numbers, strings and lists; stops[d] is the first op of device d that never runs.

    broken holds the arrows: an op, the one that it waits for, and whether it only stands behind that one. wrong are the
    ops that break the rule, rule is how the legend names an arrow.
    """
    rows = [still.row(device) for device in range(still.devices)]
    spans = [span for row in rows for span in row]
    number = {span: index for index, span in enumerate(spans)}
    index = {span.op: number[span] for span in reversed(spans)}
    ran = set(still.ran)
    needs = Needs(span.op for span in spans)
    needed = [[index[need] for need in needs(span.op)] for span in spans]
    first = [0]
    for row in rows:
        first.append(first[-1] + len(row))
    as_drawn = Timeline(spans, still.devices)
    recomputes = recompute_time(as_drawn)
    return {
        "format": FORMAT,
        "name": still.name or "schedule",
        "heading": [still.name or "schedule", "cannot run", ", ".join(sizes(as_drawn))],
        "K": still.devices,
        "M": 1 + max(span.op.micro_batch for span in spans),
        "end": rounded(still.end),
        "unit": page_unit(as_drawn),
        "source": "planned",
        "shown": list(shown),
        "send": 0,
        "stages": stages_of(still),
        "first": first,
        "kind": "".join(span.op.kind for span in spans),
        "stage": [span.op.stage for span in spans],
        "micro_batch": [span.op.micro_batch for span in spans],
        "start": [rounded(span.start) for span in spans],
        "stop": [rounded(span.end) for span in spans],
        "recompute": [rounded(recomputes.get(span, 0)) for span in spans] if recomputes else [],
        "needs": [[row[0] if row else -1 for row in needed], [row[1] if row[1:] else -1 for row in needed]],
        "idle": {"device": [], "start": [], "stop": [], "next": [], "cause": []},
        "messages": {"op": [], "target": [], "start": [], "stop": [], "there": []},
        "flush": [],
        "memory": [],
        "cap": None,
        "peaks": [],
        "figures": [f"ops that run {len(still.ran)} of {len(still.ran) + len(still.stuck)}"] if still.stuck else [],
        "broken": [[number[arrow.start], number[arrow.end], arrow.turn] for arrow in still.arrows],
        "critical": [],
        "stops": [first[device] + sum(span in ran for span in row) for device, row in enumerate(rows)],
        "wrong": [number[span] for span in still.wrong],
        "rule": RULES.get(still.problem.code, "needs"),
    }
