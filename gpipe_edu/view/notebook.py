"""What a notebook shows for a timeline: a PNG, which also shows on pages where no kernel runs, and one stable line.

Not SVG, which GitHub and nbviewer break. The text holds no object address, so a notebook that is run twice stores the
same line twice.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from gpipe_edu.schedule import Schedule
from gpipe_edu.timeline import Timeline, simulate

from .layout import layout
from .measures import time_unit
from .shapes import Layout
from .text import render_text


def timeline_bundle(timeline: Timeline) -> dict[str, object]:
    """The mime bundle of a timeline: image/png in base64 and text/plain; without matplotlib, a chart in text."""
    return bundle(layout(timeline), summary(timeline), [timeline])


def schedule_bundle(schedule: Schedule) -> dict[str, object]:
    """The mime bundle of a schedule with default costs; of one that cannot run, the first problem as text."""
    problems = schedule.problems()
    if problems:
        return {"text/plain": f"{schedule!r} cannot run: {problems[0].message}"}
    return timeline_bundle(simulate(schedule))


def summary(timeline: Timeline) -> str:
    """One line such as "Gantt(gpipe, K=4, M=8, makespan=33)"; K counts devices."""
    micro_batches = 1 + max(span.op.micro_batch for span in timeline.spans)
    makespan = time_unit(timeline.unit, timeline.makespan).show(timeline.makespan)
    pieces = [timeline.name, f"K={timeline.devices}", f"M={micro_batches}", f"makespan={makespan}"]
    if timeline.source != "planned":
        pieces.append(timeline.source)
    return f"Gantt({', '.join(piece for piece in pieces if piece)})"


def bundle(picture: Layout, text: str, timelines: Iterable[Timeline], dpi: float = 150) -> dict[str, object]:
    """`picture` as image/png with `text`; where matplotlib is not installed, the timelines as charts in text."""
    try:
        from .figures import png
    except ImportError:
        return {"text/plain": "\n\n".join(render_text(timeline) for timeline in timelines)}
    return {"image/png": base64.b64encode(png(picture, dpi)).decode("ascii"), "text/plain": text}


def widget_bundle(view: Any, text: str, picture: Layout | None) -> Any:
    """What a widget shows: the `view` that anywidget makes, and for where no kernel runs `picture` and `text`."""
    if view is None:
        return None
    data, metadata = view if isinstance(view, tuple) else (view, {})
    still = bundle(picture, text, (), dpi=100) if picture else {}
    return {**data, **still, "text/plain": text}, metadata
