"""Timelines one above the other on one time axis, so that one can see which step is shorter.

A chart stretched to the full width hides its makespan, and a bubble alone misleads: a schedule that recomputes can idle
less and still take longer.
"""

from __future__ import annotations

from typing import NamedTuple

from gpipe_edu.schedule import Schedule
from gpipe_edu.timeline import Timeline, simulate
from gpipe_edu.timeline.stuck_schedule import StuckSchedule

from .layout import layout, not_drawable
from .notebook import bundle, summary
from .palette import GROUNDS
from .shapes import Layout
from .svg import paint


class Comparison(NamedTuple):
    """Several timelines as one picture; shows itself in a notebook."""

    timelines: tuple[Timeline | StuckSchedule, ...]
    layout: Layout
    theme: str = "auto"

    def to_svg(self) -> str:
        """The picture as the text of a self-contained SVG file."""
        return paint(self.layout, "dark" if self.theme == "dark" else "light")

    def to_png(self, dpi: float = 150) -> bytes:
        """The picture as a PNG file of width * dpi / 100 pixels. Needs matplotlib."""
        from .matplotlib_painter import png  # matplotlib is optional, so it is loaded only for a PNG

        return png(self.layout, dpi, "dark" if self.theme == "dark" else "light")

    def __repr__(self) -> str:
        return "\n".join(map(summary, self.timelines))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        return bundle(self.layout, repr(self), self.timelines, theme=self.theme)


def compare(
    *timelines: Timeline | Schedule | StuckSchedule,
    width: float = 1000,
    memory: bool = False,
    critical_path: bool = False,
    theme: str = "auto",
) -> Comparison:
    """Draw timelines stacked on one time axis, figures beside each; options as in `layout`.

    theme: "light" or "dark"; "auto" follows JupyterLab in a notebook, and is light in files.

    A Schedule stands for its plan with default costs. Raises ValueError for nothing to draw or for timelines in
    different units, TypeError for anything other than timelines and schedules.
    """
    for given in timelines:
        if not isinstance(given, (Timeline, Schedule, StuckSchedule)):
            raise not_drawable("compare", given)
    drawn = tuple(simulate(given) if isinstance(given, Schedule) else given for given in timelines)
    if theme not in ("auto", *GROUNDS):
        raise ValueError(f'theme is {theme!r}; it must be "auto", "light" or "dark"')
    return Comparison(drawn, layout(*drawn, width=width, memory=memory, critical_path=critical_path), theme)
