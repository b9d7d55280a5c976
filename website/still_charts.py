"""Still charts of a lesson inside its page: sharp, read by a screen reader, light or dark as the page is.

Each is drawn twice from the same numbers, once for a laptop and once for a phone, where a merely shrunk picture could
not be read. The page shows the one that fits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from html import escape
from itertools import pairwise
from textwrap import fill
from typing import Any, Final

from gpipe_edu import Schedule, Timeline, simulate
from gpipe_edu.timeline.stuck_schedule import standstill
from gpipe_edu.view.compare import Comparison
from gpipe_edu.view.layout import layout
from gpipe_edu.view.palette import PAGE
from gpipe_edu.view.svg import paint
from gpipe_edu.view.theme import THEME

SVG = "image/svg+xml"
PHONE_SVG = "image/svg+xml;phone"

PHONE: Final = 358
"""Pixels that a page leaves for a picture on a phone of 390."""
_ON_PHONES: Final = "(max-width: 600px)"
_PER_INCH: Final = 100
_LETTERS: Final = 40
"""What a line of a title has room for."""

_MARK = re.compile(r'aria-labelledby="title-(\w+) ')


@contextmanager
def for_a_page() -> Iterator[None]:
    """Kernels that start meanwhile draw for a page."""
    before = os.environ.get(THEME)
    os.environ[THEME] = PAGE
    try:
        yield
    finally:
        del os.environ[THEME]
        if before is not None:
            os.environ[THEME] = before


def also_for_phones(shell: Any) -> None:
    """In a kernel: whatever shows a still chart or a plot has one for phones beside it. shell: IPython's."""
    for shown in (Comparison, Timeline, Schedule):
        _show_both(shown)

    def plots() -> None:  # matplotlib forgets what shows its figures when it begins to draw in a notebook
        shell.display_formatter.formatters["text/html"].for_type_by_name("matplotlib.figure", "Figure", plot)

    shell.events.register("post_execute", plots)  # before matplotlib's own, which shows them


def _show_both(shown: Any) -> None:
    wide = shown._repr_mimebundle_

    def both(self: Any, *args: Any, **kwargs: Any) -> dict[str, object]:
        found = dict(wide(self, *args, **kwargs))
        return found | {PHONE_SVG: _narrow(self)} if SVG in found else found

    shown._repr_mimebundle_ = both


def _narrow(shown: Any) -> str:
    """The picture of a comparison, a timeline or a schedule for a phone."""
    look: dict[str, Any] = {"width": PHONE}
    if isinstance(shown, Comparison):
        drawn = shown.timelines
        look |= {"memory": bool(shown.layout.strips), "critical_path": bool(shown.layout.routes)}
    elif isinstance(shown, Schedule):
        drawn = (standstill(shown) if shown.problems() else simulate(shown),)
    else:
        drawn = (shown,)
    return paint(layout(*drawn, **look), PAGE)


def put_inline(notebook: Any) -> None:
    """Make each SVG among the outputs a part of the page, with names that no other one has."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output.data for output in outputs if SVG in output.get("data", {})]
    for number, data in enumerate(shown):
        wide, narrow = (_renamed(data.pop(kind, ""), number) for kind in (SVG, PHONE_SVG))
        both = f'<div class="on-laptops">{wide}</div>\n<div class="on-phones">{narrow}</div>\n'
        data["text/html"] = both if narrow else wide


def _renamed(text: str, number: int) -> str:
    found = _MARK.search(text)
    return text.replace(found[1], f"{found[1]}-{number}") if found else text


def plot(figure: Any) -> str:
    """A matplotlib figure as HTML: as it is, and for phones as wide as one, its panels below each other."""
    from IPython.core import pylabtools

    draw: Any = pylabtools.print_figure
    wide = draw(figure, base64=True)
    with _as_on_a_phone(figure):
        narrow = draw(figure, base64=True, dpi=2 * _PER_INCH)  # a phone's screen has fine pixels
    return (
        f'<picture><source media="{_ON_PHONES}" srcset="data:image/png;base64,{narrow.strip()}">'
        f'<img src="data:image/png;base64,{wide.strip()}" alt="{escape(repr(figure))}"></picture>'
    )


@contextmanager
def _as_on_a_phone(figure: Any) -> Iterator[None]:
    """Meanwhile the figure is as wide as a phone, and panels that were side by side are below each other."""
    from matplotlib.gridspec import GridSpec
    from matplotlib.text import Text

    with ExitStack() as undo:
        width, height = figure.get_size_inches()
        undo.callback(figure.set_size_inches, width, height)
        panels = [ax for ax in figure.axes if ax.get_subplotspec() is not None]
        rows = len(panels) if {ax.get_subplotspec().rowspan.start for ax in panels} == {0} else 1
        grid = GridSpec(rows, 1, figure=figure)
        for row, ax in enumerate(panels if rows > 1 else ()):
            undo.callback(ax.set_subplotspec, ax.get_subplotspec())
            undo.callback(ax.label_outer)
            ax.set_subplotspec(grid[row, 0])
            ax.tick_params(axis="y", labelleft=True)
        for ax in figure.axes:
            for words in (*(child for child in ax.get_children() if isinstance(child, Text)), ax.xaxis.label):
                undo.callback(words.set_text, words.get_text())
                words.set_text(fill(words.get_text(), _LETTERS))
            legend = ax.get_legend()
            if legend and legend.get_window_extent().width > 0.8 * PHONE:  # above the axes, in a row
                undo.callback(setattr, ax, "legend_", legend)
                ax.legend(fontsize=11, frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
        figure.set_size_inches((PHONE - 0.2 * _PER_INCH) / _PER_INCH, rows * min(height, 3.4))
        figure.canvas.draw()
        crowded = [ax for ax in figure.axes if _labels_touch(ax)]
        for ax in crowded:
            undo.callback(ax.tick_params, axis="x", labelrotation=0)
            ax.tick_params(axis="x", labelrotation=90)
        if crowded:
            figure.set_figheight(figure.get_figheight() + 0.6)
        yield


def _labels_touch(ax: Any) -> bool:
    boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
    return any(one.x1 > other.x0 for one, other in pairwise(boxes))
