"""Curves, bars, points and images for lessons, in few lines and with the same look everywhere.

To add to a plot, pass the axes to draw on; `panels` makes several side by side. Both colours and markers differ, so
plots survive grey print and colour blindness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from .palette import GROUNDS, PAINTS, Ground
from .paper import dress, ground_under, new_figure, theme_under

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

_COLOURS: Final = {
    "light": (PAINTS["B"].fill, "#2B7BB9", "#5B5B5B", PAINTS["W"].fill, "#1B6E2E", "#B58900"),
    "dark": ("#F0885A", "#5CA8E6", "#C4C4C4", "#E3A1C8", "#6CC07C", "#DDBB4D"),
}
"""Colours of lines, in the same order in both themes."""
_FILLS: Final = tuple(
    dict.fromkeys([PAINTS["F"].fill, PAINTS["B"].fill, GROUNDS["light"].hatch, PAINTS["W"].fill, *_COLOURS["light"]])
)
"""Colours of bars, each once."""
_MARKERS: Final = ("o", "s", "^", "D", "v", "P")
_FEW_POWERS: Final = 300
"""Up to this ratio of highest and lowest, the powers of ten alone would be too few marks."""
_NAMED: Final = 12
"""Up to this many places on an axis are labelled individually."""
_DENSE: Final = 40
"""From this many points on, a line has only about ten markers."""
_SIDES: Final[tuple[dict[str, Any], ...]] = (
    {"xytext": (6, 6)},
    {"xytext": (-6, 6), "ha": "right"},
    {"xytext": (6, -6), "va": "top"},
    {"xytext": (-6, -6), "ha": "right", "va": "top"},
)
"""Where a name may be placed beside its dot, in points from its middle."""


def plot_lines(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    *,
    across: str,
    up: str,
    title: str = "",
    doubling: bool = False,
    tenfold: bool = False,
    within: tuple[float, float] | None = None,
    limits: Mapping[str, float] | None = None,
    dots: Mapping[str, float] | None = None,
    against: Mapping[str, Sequence[float]] | None = None,
    under: Sequence[str] = (),
    ax: Axes | None = None,
) -> None:
    """A line for each name, over `x`.

    across, up: what the axes show. doubling: x doubles from step to step. tenfold: the vertical axis shows powers of
    ten. within: its lowest and highest value, where a curve that runs away would flatten the others. limits: a dashed
    line for a name, in the colour of its curve. dots: an x for a name, where its curve gets a large dot. against: other
    values for a name, shown as markers without a line, such as what was measured beside what was planned. under: names
    whose curves are wide and pale, because others lie on top of them. Raises ValueError for a line that is not as long
    as x, or a limit, dot or marker for a name that has no line.
    """
    against = against or {}
    _fit(len(x), lines)
    _fit(len(x), against)
    for name in {**(limits or {}), **(dots or {}), **against, **dict.fromkeys(under)}:
        if name not in lines:
            raise ValueError(f"{name!r} is to be marked but has no line; the lines are {', '.join(lines)}")
    ax = ax or _axes(height=3.6)
    colours, markers = cycle(_COLOURS[theme_under(ax)]), cycle(_MARKERS)
    for name, values in lines.items():
        if name in under:
            ax.plot(x, values, color=PAINTS["F"].fill, linewidth=7, label=name)
            continue
        colour, marker = next(colours), next(markers)
        # Where a line has other markers beside it, only the legend shows its own.
        every: int | list[int] = [] if name in against else len(x) // 10 if len(x) >= _DENSE else 1
        ax.plot(x, values, color=colour, linewidth=2, marker=marker, markevery=every, label=name)
        if name in against:
            # A marker at the very edge is shown whole, unless all beyond the edge is to be left out.
            ax.plot(x, against[name], color=colour, marker=marker, markersize=9, linestyle="", clip_on=bool(within))
        if limits and name in limits:
            ax.axhline(limits[name], color=colour, linestyle="--")
        if dots and name in dots:
            ax.plot(dots[name], values[list(x).index(dots[name])], "o", color=colour, markersize=9)
    if doubling:
        ax.set_xscale("log", base=2)
    if tenfold:
        _powers_of_ten(ax)
    ax.minorticks_off()
    if len(x) <= _NAMED:
        ax.set_xticks(list(x), [f"{value:g}" for value in x])
    elif not doubling and all(value == int(value) for value in x):
        ax.locator_params(axis="x", integer=True)  # there are no half training steps
    _finish(ax, across, up, title, legend="inside" if len(lines) > 1 else "")
    if within is not None:
        ax.set_ylim(within)


def plot_bars(
    labels: Sequence[object],
    bars: Mapping[str, Sequence[float]],
    *,
    up: str,
    across: str = "",
    title: str = "",
    stacked: bool = False,
    limit: float | None = None,
    numbers: str = "",
    ax: Axes | None = None,
) -> None:
    """For each label a group of bars, one for each name, side by side or `stacked`.

    limit: a dashed line over all, such as a device's memory. numbers: how to write each bar's value at it, such as
    "{:.1f}". Raises ValueError if there are not as many bars as labels, or more names than colours.
    """
    _fit(len(labels), bars)
    if len(bars) > len(_FILLS):
        raise ValueError(f"{len(bars)} bars for each label were given, and there are {len(_FILLS)} colours for them")
    ax = ax or _axes(height=3.0)
    width, ground = 0.8 if stacked else 0.8 / len(bars), ground_under(ax)
    ink = ground.ink
    bottom = [0.0] * len(labels)
    for number, ((name, values), colour) in enumerate(zip(bars.items(), _FILLS, strict=False)):
        shift = 0.0 if stacked else (number - (len(bars) - 1) / 2) * width
        at = [place + shift for place in range(len(labels))]
        drawn = ax.bar(at, values, width, bottom=bottom, color=colour, edgecolor=ink, linewidth=0.6, label=name)
        if numbers:
            ax.bar_label(drawn, fmt=numbers, fontsize=11, **_label_look(stacked, colour, ground))
        if stacked:
            bottom = [low + value for low, value in zip(bottom, values, strict=True)]
    if limit is not None:
        ax.axhline(limit, color=ink, linestyle="--")
    ax.set_xticks(range(len(labels)), [str(label) for label in labels])
    _finish(ax, across, up, title, legend="above" if len(bars) > 1 else "")


def plot_points(
    points: Mapping[str, tuple[float, float]],
    *,
    across: str,
    up: str,
    title: str = "",
    named: Sequence[str] = (),
    doubling: bool = False,
    ax: Axes | None = None,
) -> None:
    """A dot for each name, at its (x, y), with the names of those in `named` beside them.

    doubling: x doubles from step to step. Raises ValueError for a name that has no point.
    """
    for name in named:
        if name not in points:
            raise ValueError(f"there is no point {name!r}; the points are {', '.join(points)}")
    ax = ax or _axes(height=3.6)
    across_all, up_all = zip(*points.values(), strict=True)
    ax.scatter(across_all, up_all, color=PAINTS["F"].fill, edgecolor=ground_under(ax).ink, s=60)
    if doubling:
        ax.set_xscale("log", base=2)
        ax.minorticks_off()
        ax.set_xticks(places := sorted(set(across_all)), [f"{place:g}" for place in places])
    _finish(ax, across, up, title, legend="")
    _name_beside(ax, points, named)


def plot_pieces(
    rows: Mapping[object, Sequence[float]], *, across: str, up: str, title: str = "", ax: Axes | None = None
) -> None:
    """For each name a row of boxes, end to end, as long as its sizes say; a size of 0 has no box."""
    ax = ax or _axes(height=0.9 + 0.22 * len(rows))
    for row, sizes in enumerate(rows.values()):
        starts = [sum(sizes[:place]) for place in range(len(sizes))]
        boxes = [(start, size) for start, size in zip(starts, sizes, strict=True) if size]
        ax.broken_barh(boxes, (row - 0.4, 0.8), facecolor=PAINTS["F"].fill, edgecolor=ground_under(ax).ink)
    ax.set_yticks(range(len(rows)), [str(name) for name in rows])
    _finish(ax, across, up, title, legend="")
    ax.set_ylim(len(rows) - 0.5, -0.5)


def plot_images(
    rows: Mapping[str, Sequence[Any]], *, names: Sequence[object] = (), title: str = "", across: str = ""
) -> None:
    """For each name a row of images: two-dimensional arrays of numbers, 0 white and 1 black.

    names: one for each column, above it. Raises ValueError for rows that are not equally long, or not as long as names.
    """
    count = len(next(iter(rows.values())))
    _fit(count, rows)
    if names:
        _fit(count, {"names": names})
    figure = new_figure(10, 0.3 + 1.1 * len(rows))
    grid = figure.subplots(len(rows), count, squeeze=False)
    for axes, (name, images) in zip(grid, rows.items(), strict=True):
        axes[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=12)
        for ax, image in zip(axes, images, strict=True):
            ax.imshow(image, cmap="gray_r", vmin=0, vmax=1, aspect="auto")
            ax.set(xticks=[], yticks=[])
    for ax, above in zip(grid[0], names, strict=False):
        ax.set_title(str(above), fontsize=12)
    for ax in grid.flat:
        dress(ax)
    ink = ground_under(grid[0][0]).ink
    figure.suptitle(title, fontsize=12, color=ink)
    figure.supxlabel(across, fontsize=12, color=ink)


def plot_traffic(sent: Sequence[tuple[str, int, int, int]], *, title: str = "", ax: Axes | None = None) -> None:
    """Stages from left to right, and an arrow for all that one sends another: (name, from, to, size).

    What has no name goes from layer to layer, in the colour of the text; what has one is a skip, in an arc over the
    stages that it passes. Raises ValueError if nothing is sent.
    """
    if not sent:
        raise ValueError("nothing is sent, so there is nothing to draw; a single stage sends nothing")
    stages = range(max(target for _, _, target, _ in sent) + 1)
    farthest = max((target - source for name, source, target, _ in sent if name), default=1)
    ax = ax or _axes(height=1.5 + 0.3 * farthest)
    most, skips, ink = max(size for *_, size in sent), _COLOURS[theme_under(ax)][0], ground_under(ax).ink
    for name, source, target, size in sent:
        colour = skips if name else ink
        high = 0.42 * (target - source) if name else 0.0
        look = {"arrowstyle": "->", "color": colour, "linewidth": 1 + 3 * size / most, "shrinkA": 24, "shrinkB": 24}
        # An arc of this kind is half as high as the point that bends it.
        look["connectionstyle"] = f"arc3,rad={-0.42 if name else 0}"
        ax.annotate("", (target, 0), (source, 0), arrowprops=look)
        words = f"{name}: {size:,}" if name else f"{size:,}"
        ax.text((source + target) / 2, high / 2 + 0.07, words, ha="center", va="bottom", color=colour, fontsize=11)
    for k in stages:
        box = {"boxstyle": "round", "facecolor": PAINTS["F"].fill}
        ax.text(k, 0, f"stage {k}", ha="center", va="center", fontsize=11, bbox=box)
    ax.set(xlim=(-0.4, len(stages) - 0.6), ylim=(-0.2, 0.21 * farthest + 0.3), frame_on=False, xticks=[], yticks=[])
    ax.set_aspect("equal")  # so that an arc is as high as its label's place assumes
    ax.set_title(title, fontsize=12, loc="left")
    dress(ax)


def panels(count: int) -> list[Axes]:
    """`count` axes side by side, on one scale, for plots to be compared."""
    figure = new_figure(8.5 if count == 1 else 11, 3.8)
    return list(figure.subplots(1, count, sharex=True, sharey=True, squeeze=False)[0])


def _label_look(stacked: bool, fill: str, ground: Ground) -> dict[str, Any]:
    """Where a bar's number goes: above the bar, or inside it if another one may be stacked on top."""
    if not stacked:
        from matplotlib.patheffects import withStroke  # a limit may run through the number

        return {"padding": 2, "color": ground.ink, "path_effects": [withStroke(linewidth=3, foreground=ground.paper)]}
    return {"label_type": "center", "color": "white" if fill == PAINTS["B"].fill else "black"}


def _fit(count: int, series: Mapping[str, Sequence[Any]]) -> None:
    for name, values in series.items():
        if len(values) != count:
            raise ValueError(f"{name!r} has {len(values)} values, and there are {count} places for them")


def _name_beside(ax: Axes, points: Mapping[str, tuple[float, float]], named: Sequence[str]) -> None:
    """Put each name on the side of its dot where it is inside the axes and hides least of the other dots and names."""
    from matplotlib.transforms import Bbox

    ax.margins(x=0.15)
    ink = ground_under(ax).ink
    if figure := ax.get_figure(root=True):
        figure.draw_without_rendering()  # before that, the dots' positions in the picture are unknown
    places = ax.transData.transform(list(points.values()))
    taken = [Bbox.from_bounds(x - 5, y - 5, 10, 10) for x, y in places]

    def write(name: str, side: dict[str, Any]) -> Annotation:
        return ax.annotate(name, points[name], textcoords="offset points", fontsize=11, color=ink, **side)

    def count_hidden(name: str, side: dict[str, Any]) -> int:
        tried = write(name, side)
        box = tried.get_window_extent()
        tried.remove()
        inside = ax.bbox.x0 <= box.x0 and box.x1 <= ax.bbox.x1
        return int(box.count_overlaps(taken)) + (not inside)

    for name in named:
        best = min(_SIDES, key=partial(count_hidden, name))
        taken.append(write(name, best).get_window_extent())


def _axes(height: float) -> Axes:
    return new_figure(8.5, height).add_subplot()


def _powers_of_ten(ax: Axes) -> None:
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    ax.set_yscale("log")
    low, high = ax.get_ylim()
    if high < _FEW_POWERS * low:
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _finish(ax: Axes, across: str, up: str, title: str, *, legend: str) -> None:
    ax.set_xlabel(across, fontsize=12)
    ax.set_ylabel(up, fontsize=12)
    ax.set_title(title, fontsize=12, loc="left")
    ax.tick_params(labelsize=11)
    ax.tick_params(axis="x", labelsize=11 if len(ax.get_xticks()) <= _NAMED else 9)
    if ax.get_yscale() == "linear" and ax.dataLim.y0 >= 0:
        ax.set_ylim(bottom=0, auto=None)  # plots in other panels on this scale must still fit
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if legend == "above":  # among bars there is no room
        ax.legend(fontsize=11, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=4)
    elif legend:
        ax.legend(fontsize=11, frameon=False)
    dress(ax)
