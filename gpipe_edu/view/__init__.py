"""Pictures of schedules and timelines. Nothing is loaded here, so schedules don't wait for a plotting library.

`layout.py` is the single layout of still pictures, a pure function from timelines to pixels, made of the parts in
`shapes.py`; `measures.py` has their words, numbers and units, `lettering.py` the widths of text. `svg.py` and
`matplotlib_painter.py` paint it, `text.py` draws for terminals, `stuck.py` adds what can't run. `plots.py` and
`curves.py` have the plots of lessons, `sliders.py` puts sliders over pictures. `palette.py` has all colours. A picture
cannot ask the page that will show it, so `theme.py` reads which theme JupyterLab was set to; where JupyterLab follows
the system's theme instead, pictures stay light.

`gantt/` is the explorer: it turns timelines into a *spec*, plain numbers with every figure and dependency worked out,
and `js/` draws it. `puzzles/page/` draws the puzzle with the same scripts. Pages know no rule and no formula.
"""

from typing import Any

__all__ = [
    "memory_curve",
    "panels",
    "plot_bars",
    "plot_images",
    "plot_lines",
    "plot_pieces",
    "plot_points",
    "plot_traffic",
    "slide",
]


def __getattr__(name: str) -> Any:
    """These load matplotlib, so they load when they are first used."""
    if name == "memory_curve":
        from .curves import memory_curve

        return memory_curve
    if name == "slide":
        from .sliders import slide  # it loads anywidget

        return slide
    if name in ("panels", "plot_bars", "plot_images", "plot_lines", "plot_pieces", "plot_points", "plot_traffic"):
        from . import plots

        return getattr(plots, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
