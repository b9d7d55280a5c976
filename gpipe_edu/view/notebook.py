"""What a notebook shows for a timeline: a PNG, which also shows on pages where no kernel runs, and one stable line.

Not SVG, which GitHub and nbviewer break. The text holds no object address, so a notebook that is run twice stores the
same line twice.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable
from typing import Any

from gpipe_edu.schedule import Schedule
from gpipe_edu.timeline import Timeline, simulate
from gpipe_edu.timeline.stuck_schedule import StuckSchedule, standstill

from .layout import layout
from .measures import time_unit
from .palette import PAGE
from .shapes import Layout
from .svg import paint
from .text import in_text
from .theme import notebook_theme, on_a_page


def timeline_bundle(timeline: Timeline) -> dict[str, object]:
    """The mime bundle of a timeline: image/png in base64 and text/plain; without matplotlib, a chart in text."""
    return bundle(layout(timeline), summary(timeline), [timeline])


def schedule_bundle(schedule: Schedule) -> dict[str, object]:
    """The mime bundle of a schedule with default costs; one that cannot run is drawn up to where it stands still."""
    problems = schedule.problems()
    if not problems:
        return timeline_bundle(simulate(schedule))
    text = f"{schedule!r} cannot run:\n{problems[0].message}"
    if not schedule.stages:
        return {"text/plain": text}
    still = standstill(schedule)
    return bundle(layout(still), text, [still])


def summary(timeline: Timeline | StuckSchedule) -> str:
    """One line such as "Gantt(gpipe, K=4, M=8, makespan=33)"; K counts devices."""
    if isinstance(timeline, StuckSchedule):
        return f"{timeline.name or 'schedule'} cannot run: {timeline.problem.message}"
    micro_batches = 1 + max(span.op.micro_batch for span in timeline.spans)
    makespan = time_unit(timeline.unit, timeline.makespan).show(timeline.makespan)
    pieces = [timeline.name, f"K={timeline.devices}", f"M={micro_batches}", f"makespan={makespan}"]
    if timeline.source != "planned":
        pieces.append(timeline.source)
    return f"Gantt({', '.join(piece for piece in pieces if piece)})"


def bundle(
    picture: Layout, text: str, drawn: Iterable[Timeline | StuckSchedule], dpi: float = 150, theme: str = "auto"
) -> dict[str, object]:
    """`picture` as image/png with `text`; where matplotlib is not installed, `drawn` as charts in text.

    In a browser, and for a page, it is image/svg+xml: a browser draws it before matplotlib could be fetched.
    theme: "light" or "dark"; "auto" is that of the notebook or of the page.
    """
    page = on_a_page()
    ground = theme if theme != "auto" else PAGE if page else notebook_theme()
    if page or sys.platform == "emscripten":
        return {"image/svg+xml": paint(picture, ground), "text/plain": text}
    try:
        from .matplotlib_painter import png
    except ImportError:
        return {"text/plain": "\n\n".join(map(in_text, drawn))}
    return {"image/png": base64.b64encode(png(picture, dpi, ground)).decode("ascii"), "text/plain": text}


def widget_bundle(view: Any, text: str, picture: Layout | None, theme: str = "auto") -> Any:
    """What a widget shows: the `view` that anywidget makes, and, where no kernel runs, `picture` and `text`."""
    if view is None:
        return None
    data, metadata = view if isinstance(view, tuple) else (view, {})
    still = bundle(picture, text, (), 100, theme) if picture else {}
    return {**data, **still, "text/plain": text}, metadata
