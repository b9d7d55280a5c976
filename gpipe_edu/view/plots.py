"""Curves, bars and points for lessons: three lines of a lesson's own, and the look is the same everywhere.

Whoever wants to add to one gives the axes to draw on. Colours and markers differ, so print and colour blindness lose
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Final

from .palette import GROUNDS, PAINTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS: Final = (PAINTS["B"].fill, "#2B7BB9", "#5B5B5B", PAINTS["W"].fill, "#1B6E2E", "#B58900")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P")
_NAMED: Final = 12
"""Up to so many places on an axis are named one by one."""
_DENSE: Final = 40
"""From so many points on a line has no markers."""


def plot_lines(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    *,
    across: str,
    up: str,
    title: str = "",
    doubling: bool = False,
    limits: Mapping[str, float] | None = None,
    dots: Mapping[str, float] | None = None,
    ax: Axes | None = None,
) -> None:
    """A line for each name, over `x`.

    across, up: what the axes show. doubling: x doubles from step to step. limits: a dashed line for a name, in the
    colour of its curve. dots: an x for a name, where its curve gets a large dot. Raises ValueError for a line that is
    not as long as x, or a limit or dot of a name that has no line.
    """
    _fit(len(x), lines)
    for name in {**(limits or {}), **(dots or {})}:
        if name not in lines:
            raise ValueError(f"{name!r} has a limit or a dot but no line; the lines are {', '.join(lines)}")
    ax = ax or _axes(height=3.6)
    for (name, values), colour, marker in zip(lines.items(), cycle(_COLOURS), cycle(_MARKERS), strict=False):
        ax.plot(x, values, color=colour, marker=marker if len(x) < _DENSE else "", label=name, linewidth=2)
        if limits and name in limits:
            ax.axhline(limits[name], color=colour, linestyle="--")
        if dots and name in dots:
            ax.plot(dots[name], values[list(x).index(dots[name])], "o", color=colour, markersize=9)
    if doubling:
        ax.set_xscale("log", base=2)
        ax.minorticks_off()
    if len(x) <= _NAMED:
        ax.set_xticks(list(x), [f"{value:g}" for value in x])
    _finish(ax, across, up, title, legend="inside" if len(lines) > 1 else "")


def plot_bars(
    labels: Sequence[object],
    bars: Mapping[str, Sequence[float]],
    *,
    up: str,
    across: str = "",
    stacked: bool = False,
    limit: float | None = None,
    ax: Axes | None = None,
) -> None:
    """For each label a group of bars, one for each name, side by side or `stacked`.

    limit: a dashed line over all, such as a device's memory. Raises ValueError for bars that are not as many as labels.
    """
    _fit(len(labels), bars)
    ax = ax or _axes(height=3.0)
    width = 0.8 if stacked else 0.8 / len(bars)
    bottom = [0.0] * len(labels)
    for number, ((name, values), colour) in enumerate(zip(bars.items(), _fills(len(bars)), strict=False)):
        shift = 0.0 if stacked else (number - (len(bars) - 1) / 2) * width
        at = [place + shift for place in range(len(labels))]
        ax.bar(at, values, width, bottom=bottom, color=colour, edgecolor="black", linewidth=0.6, label=name)
        if stacked:
            bottom = [low + value for low, value in zip(bottom, values, strict=True)]
    if limit is not None:
        ax.axhline(limit, color="black", linestyle="--")
    ax.set_xticks(range(len(labels)), [str(label) for label in labels])
    _finish(ax, across, up, "", legend="above" if len(bars) > 1 else "")


def plot_points(
    points: Mapping[str, tuple[float, float]],
    *,
    across: str,
    up: str,
    title: str = "",
    named: Sequence[str] = (),
    ax: Axes | None = None,
) -> None:
    """A dot for each name, at its (x, y), with the names of those in `named` beside them.

    Raises ValueError for a name that is no point.
    """
    for name in named:
        if name not in points:
            raise ValueError(f"there is no point {name!r}; the points are {', '.join(points)}")
    ax = ax or _axes(height=3.6)
    across_all, up_all = zip(*points.values(), strict=True)
    ax.scatter(across_all, up_all, color=PAINTS["F"].fill, edgecolor="black", s=60)
    for name in named:
        ax.annotate(name, points[name], xytext=(6, 6), textcoords="offset points", fontsize=11)
    _finish(ax, across, up, title, legend="")


def _fills(count: int) -> list[str]:
    return [PAINTS["F"].fill, PAINTS["B"].fill, GROUNDS["light"].hatch, PAINTS["W"].fill, *_COLOURS][:count]


def _fit(count: int, series: Mapping[str, Sequence[float]]) -> None:
    for name, values in series.items():
        if len(values) != count:
            raise ValueError(f"{name!r} has {len(values)} values, and there are {count} places for them")


def _axes(height: float) -> Axes:
    from matplotlib import pyplot  # only pyplot shows a figure by itself in a notebook, so only here

    return pyplot.figure(figsize=(8.5, height), layout="constrained").add_subplot()


def _finish(ax: Axes, across: str, up: str, title: str, *, legend: str) -> None:
    ax.set_xlabel(across, fontsize=12)
    ax.set_ylabel(up, fontsize=12)
    ax.set_title(title, fontsize=12, loc="left")
    ax.tick_params(labelsize=11 if len(ax.get_xticks()) <= _NAMED else 8)
    if ax.get_yscale() == "linear":
        ax.set_ylim(bottom=0)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if legend == "above":  # where bars stand, there is no room inside
        ax.legend(fontsize=11, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=4)
    elif legend:
        ax.legend(fontsize=11, frameon=False)
