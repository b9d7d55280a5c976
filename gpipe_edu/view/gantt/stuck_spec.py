"""What the page gets to draw of a schedule that cannot run: as in `spec.py`, with where each device stops.

Bubbles, messages and memory are left out: how long a device waits there, and for how long it holds what it holds, has
no end that could be told.
"""

from __future__ import annotations

from typing import Any

from gpipe_edu.schedule.needs import Needs
from gpipe_edu.timeline import Timeline
from gpipe_edu.timeline.stuck_schedule import StuckSchedule
from gpipe_edu.view.measures import TimeUnit, recompute_time, sizes, stages_of
from gpipe_edu.view.stuck import RULES

from .spec import FORMAT, page_unit, rounded


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
