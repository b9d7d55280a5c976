"""The same picture with matplotlib: for PNG files, papers, and figures with other plots beside it.

It paints the layout that the SVG paints, in its pixels, so the axes of a drawn chart count pixels, not time. The two
painters stay separate because neither can replace the other. The SVG needs nothing installed, not even in a browser,
and names each op for a screen reader; here each kind is one collection, because thousands of patches take seconds, and
a picture can be drawn on axes beside other plots. matplotlib's own SVG has no names, and making a PNG of ours would
need another renderer. What both could get wrong is decided once: positions in `layout`, colours in `palette`.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure

from gpipe_edu.timeline import Timeline

from .layout import layout
from .palette import PAINTS, Ground, ground_of, label_colour
from .shapes import Box, Layout, Part, Point, Words
from .stuck import head

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PER_INCH: Final = 100
"""Layout pixels per inch of figure."""

_ALIGN: Final[dict[str, Literal["left", "center", "right"]]] = {"start": "left", "middle": "center", "end": "right"}
_WIDEST: Final = 1000.0


def draw(
    timeline: Timeline,
    ax: Axes | None = None,
    *,
    width: float | None = None,
    memory: bool = False,
    title: str | None = None,
    critical_path: bool = False,
) -> Axes:
    """Draw the Gantt chart on `ax`, or on a new pyplot figure of fitting size; returns the axes.

    width is in pixels of 1/100 inch: if not given, what fits `ax`, or 1000 for a new figure. The other options are
    those of `gpipe_edu.view.layout.layout`. Raises ValueError as it does.
    """
    if width is None:
        width = _WIDEST if ax is None else max(480.0, _inches(ax)[0] * _PER_INCH)
    picture = layout(timeline, width=width, memory=memory, title=title, critical_path=critical_path)
    if ax is not None:
        # On axes too short for the lanes everything shrinks; a wider layout then still fills them from side to side.
        shrunk = picture.height / (_inches(ax)[1] * _PER_INCH)
        if shrunk > 1:
            width *= shrunk
            picture = layout(timeline, width=width, memory=memory, title=title, critical_path=critical_path)
    if ax is None:
        from matplotlib import pyplot  # in a notebook only pyplot figures show themselves, so pyplot is used only here

        ax = _fill(pyplot.figure(figsize=_figsize(picture)), ground_of("light"))
    return paint(picture, ax)


def to_png(
    timeline: Timeline,
    *,
    width: float = _WIDEST,
    memory: bool = False,
    title: str | None = None,
    critical_path: bool = False,
    dpi: float = 150,
    theme: str = "light",
) -> bytes:
    """The chart as a PNG file of width * dpi / 100 pixels; theme: "light" or "dark", other options as in `layout`."""
    picture = layout(timeline, width=width, memory=memory, title=title, critical_path=critical_path)
    return png(picture, dpi, theme)


def png(picture: Layout, dpi: float = 150, theme: str = "light") -> bytes:
    """`picture` as a PNG file. Without pyplot, so that nothing has to be closed and threads and servers may call it."""
    file = io.BytesIO()
    # A notebook's settings must not move what the layout has placed.
    with mpl.rc_context(
        {"savefig.bbox": "standard", "figure.constrained_layout.use": False, "figure.autolayout": False}
    ):
        figure = Figure(figsize=_figsize(picture))
        FigureCanvasAgg(figure)
        paint(picture, _fill(figure, ground_of(theme)), theme)
        figure.savefig(file, format="png", dpi=dpi, metadata={"Software": None})
    return file.getvalue()


def paint(picture: Layout, ax: Axes, theme: str = "light") -> Axes:
    """Paint `picture` on `ax`, as large as fits, keeping its proportions."""
    ground = ground_of(theme)
    inches = _inches(ax)
    points = min(inches[0] / picture.width, inches[1] / picture.height) * 72
    ax.set(xlim=(0, picture.width), ylim=(picture.height, 0), facecolor=ground.paper)
    ax.set_aspect("equal", anchor="NW")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)
    _paint_areas(picture, ax, points, ground)
    _paint_lines(picture, ax, points, ground)
    _paint_stuck(picture, ax, points, ground)
    for words in picture.words:
        _write(ax, words, points, ground)
    for box in picture.boxes:
        if box.label:
            _write_label(ax, box, points)
    return ax


def _figsize(picture: Layout) -> tuple[float, float]:
    return picture.width / _PER_INCH, picture.height / _PER_INCH


def _fill(figure: Figure, ground: Ground) -> Axes:
    figure.set_facecolor(ground.paper)
    return figure.add_axes((0, 0, 1, 1))


def _inches(ax: Axes) -> tuple[float, float]:
    figure = ax.get_figure(root=True)
    box = ax.get_window_extent()
    dpi = figure.dpi if figure is not None else _PER_INCH
    return box.width / dpi, box.height / dpi


def _corners(x: float, y: float, width: float, height: float) -> list[Point]:
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def _paint_areas(picture: Layout, ax: Axes, points: float, ground: Ground) -> None:
    """One collection per kind, so that a large chart takes not noticeably longer than a small one."""
    bubbles = [_corners(idle.x, idle.y, idle.width, idle.height) for idle in picture.idles]
    bubbles += [_corners(s.x, s.y, s.width, s.height) for s in picture.swatches if s.kind == "bubble"]
    hatch = PolyCollection(
        bubbles, facecolor=ground.paper, edgecolor=ground.hatch, linewidth=0, hatch="///", label="bubble"
    )
    ax.add_collection(hatch, autolim=False)
    pieces: dict[str, list[list[Point]]] = defaultdict(list)
    frames: list[list[Point]] = []
    thinnest = min((part.width for box in picture.boxes for part in box.parts), default=0)
    rows: list[tuple[tuple[Part, ...], float, float]] = [(b.parts, b.y, b.height) for b in picture.boxes]
    rows += [(swatch.parts, swatch.y, swatch.height) for swatch in picture.swatches]
    for parts, y, height in rows:
        for part in parts:
            pieces[part.kind].append(_corners(part.x, y, part.width, height))
        if len(parts) > 1:
            frames.append(_corners(parts[0].x, y, sum(part.width for part in parts), height))
    for wire in picture.wires:
        pieces[wire.kind].append(_corners(wire.x, wire.y, wire.width, wire.height))
    thin = thinnest < 5
    line = (0.4 if thin else 1.0) * points
    for kind, shapes in pieces.items():
        look = PAINTS[kind]
        area = PolyCollection(shapes, facecolor=look.fill, edgecolor=look.edge, linewidth=line, label=kind)
        if look.dotted and not thin:  # no dot fits in a thin box, and a thousand dotted ones take seconds
            area.set(hatch="..", linestyle=(0, (3, 2)))
        ax.add_collection(area, autolim=False)
    ax.add_collection(
        PolyCollection(frames, facecolor="none", edgecolor=ground.ink, linewidth=line, label="frame"), autolim=False
    )
    pairs = [_corners(one.x, one.y, one.width, one.height) for one in picture.frames]
    pairs += [_corners(s.x, s.y, s.width, s.height) for s in picture.swatches if s.kind == "pair"]
    ax.add_collection(
        PolyCollection(pairs, facecolor="none", edgecolor=ground.ink, linewidth=2 * points, label="pair"),
        autolim=False,
    )
    bars = [_corners(bar.x, bar.top, bar.width, bar.bottom - bar.top) for bar in picture.bars]
    ax.add_collection(PolyCollection(bars, facecolor=ground.ink, linewidth=0, label="flush"), autolim=False)


def _paint_lines(picture: Layout, ax: Axes, points: float, ground: Ground) -> None:
    stores = [list(strip.points) for strip in picture.strips]
    stores += [_corners(s.x, s.y, s.width, s.height) for s in picture.swatches if s.kind == "memory"]
    ax.add_collection(
        PolyCollection(stores, facecolor=ground.store, edgecolor=ground.ink, linewidth=points), autolim=False
    )
    routes: list[Sequence[Point]] = list(picture.routes)
    for swatch in picture.swatches:
        if swatch.kind == "path":
            y = swatch.y + swatch.height / 2
            routes.append([(swatch.x, y), (swatch.x + swatch.width, y)])
    _strokes(ax, routes, ground.paper, 5.5 * points)
    _strokes(ax, routes, ground.ink, 3 * points)
    y = picture.axis[0][1]
    _strokes(ax, [picture.axis, *([(x, y), (x, y + 5)] for x in picture.ticks)], ground.ink, points)


def _paint_stuck(picture: Layout, ax: Axes, points: float, ground: Ground) -> None:
    """Paint what never runs, what breaks a rule, and the arrows of the rule."""
    samples = [_corners(s.x, s.y, s.width, s.height) for s in picture.swatches if s.kind == "stuck"]
    for wrong, colour, width in ((False, ground.faint, 1.2), (True, ground.alarm, 2.5)):
        for filled in (True, False):
            shapes = [
                _corners(box.x, box.y, box.width, box.height)
                for box in picture.outlines
                if box.wrong is wrong and (bool(box.label) or not wrong) is filled
            ]
            area = PolyCollection(shapes + ([] if wrong or not filled else samples), label="stuck")
            area.set(facecolor=ground.paper if filled else "none", edgecolor=colour, linewidth=width * points)
            area.set(linestyle="solid" if wrong else (0, (3, 3)))
            ax.add_collection(area, autolim=False)
    for box in picture.outlines:
        text = ax.text(box.x + box.width / 2, box.y + box.height / 2, box.label, fontsize=max(1, box.font) * points)
        text.set(ha="center", va="center_baseline", color=ground.ink)
    arrows = [(arrow.points, arrow.turn) for arrow in picture.arrows]
    for swatch in picture.swatches:
        if swatch.kind in ("wait", "turn"):
            y = swatch.y + swatch.height / 2
            arrows.append((((swatch.x, y), (swatch.x + swatch.width, y)), swatch.kind == "turn"))
    _strokes(ax, [line for line, _ in arrows], ground.paper, 5 * points)
    _strokes(ax, [line for line, turn in arrows if not turn], ground.alarm, 2 * points)
    _strokes(ax, [line for line, turn in arrows if turn], ground.alarm, 2 * points, (0, (2, 1.5)))
    heads = PolyCollection(
        [head(line) for line, _ in arrows], facecolor=ground.alarm, edgecolor=ground.paper, linewidth=0.8 * points
    )
    heads.set_zorder(3)  # lines, rims of crossing ones included, are painted after areas
    ax.add_collection(heads, autolim=False)


def _strokes(ax: Axes, lines: Iterable[Sequence[Point]], colour: str, thickness: float, dashes: Any = "solid") -> None:
    strokes = LineCollection(list(lines), colors=colour, linewidths=thickness, joinstyle="round", linestyles=dashes)
    ax.add_collection(strokes, autolim=False)


def _write_label(ax: Axes, box: Box, points: float) -> None:
    part = box.parts[-1]
    text = ax.text(part.x + part.width / 2, box.y + box.height / 2, box.label, fontsize=box.font * points)
    text.set(ha="center", va="center_baseline", color=label_colour(box.op.kind))
    if PAINTS[part.kind].dotted:  # letters among dots are hard to read: clear the ground under them
        text.set_bbox({"facecolor": PAINTS[part.kind].fill, "edgecolor": "none", "pad": points})


def _write(ax: Axes, words: Words, points: float, ground: Ground) -> None:
    ax.text(
        words.x,
        words.y,
        words.text,
        fontsize=words.font * points,
        ha=_ALIGN[words.anchor],
        va="center_baseline",
        color=ground.of(words.role),
        weight="bold" if words.role == "heading" else "normal",
    )
