"""The picture as SVG: sharp at every size, needs nothing installed, and its text can be read by a screen reader.

It is self-contained (no external font, script or address) and has its own background, white or dark, so that it is
readable on any page; inside a page it can follow that page's theme. Equal pictures are equal texts: pattern names are
derived from the content, so two pictures on one page do not share patterns. `matplotlib_painter.py` says why it is a
separate painter.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from gpipe_edu.schedule import KINDS
from gpipe_edu.timeline import Timeline

from .layout import layout
from .lettering import NARROWEST
from .palette import PAINTS, Ground, ground_of, label_colour
from .shapes import Box, Frame, Layout, Outline, Part, Point, Swatch, Words
from .stuck import head

MOST_RECTS: Final = 300
"""From this many ops on, one path per kind takes the place of a rectangle per op: browsers slow down otherwise."""

_FONT: Final = "Helvetica, Arial, 'DejaVu Sans', sans-serif"


def render(
    timeline: Timeline,
    *,
    width: float = 1000,
    memory: bool = False,
    title: str | None = None,
    critical_path: bool = False,
    theme: str = "light",
) -> str:
    """The Gantt chart of `timeline` as the text of an SVG file; theme: "light" or "dark", other options as in
    `gpipe_edu.view.layout.layout`.
    """
    return paint(layout(timeline, width=width, memory=memory, title=title, critical_path=critical_path), theme)


def paint(picture: Layout, theme: str = "light") -> str:
    """The text of an SVG file that shows `picture`. theme: "light", "dark", or "page" for one inside a page, which then
    decides. Raises ValueError for any other.
    """
    ground = ground_of(theme)
    mark = hashlib.sha256(repr(picture).encode()).hexdigest()[:10]
    size = f"{_n(picture.width)} {_n(picture.height)}"
    name = next(words.text for words in picture.words if words.role == "heading")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{_n(picture.width)}" '
        f'height="{_n(picture.height)}" role="img" aria-labelledby="title-{mark} desc-{mark}" '
        f'font-family="{_FONT}" fill="{ground.ink}">',
        f'<title id="title-{mark}">{escape(name)}</title>',
        f'<desc id="desc-{mark}">{escape(picture.summary)}</desc>',
        *_patterns(mark, ground),
        f'<rect class="paper" width="100%" height="100%" fill="{ground.paper}"/>',
        *_idles(picture, mark),
        *(_merge(picture.boxes, mark) if len(picture.boxes) >= MOST_RECTS else _single(picture.boxes, mark, ground)),
        *(_frame(frame, ground) for frame in picture.frames),
        *(_label(box) for box in picture.boxes if box.label),
        *_wires(picture, mark),
        *_rest(picture, ground),
        *(line for each in picture.outlines for line in _outline(each, ground)),
        *(line for each in picture.arrows for line in _arrow(each.points, each.turn, ground)),
        *(line for swatch in picture.swatches for line in _swatch(swatch, mark, ground)),
        *(_text(words, ground) for words in picture.words),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _n(number: float) -> str:
    """A coordinate to a hundredth of a pixel, without needless zeros."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _patterns(mark: str, ground: Ground) -> Iterator[str]:
    yield "<defs>"
    yield (
        f'<pattern id="hatch-{mark}" width="7" height="7" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="7" height="7" fill="{ground.paper}"/>'
        f'<line x1="0.75" y1="0" x2="0.75" y2="7" stroke="{ground.hatch}" stroke-width="1.5"/></pattern>'
    )
    for kind, paint_of in PAINTS.items():
        if paint_of.dotted:
            yield (
                f'<pattern id="dots-{kind}-{mark}" width="6" height="6" patternUnits="userSpaceOnUse">'
                f'<rect width="6" height="6" fill="{paint_of.fill}"/>'
                f'<circle cx="1.5" cy="1.5" r="0.9" fill="{paint_of.edge}"/>'
                f'<circle cx="4.5" cy="4.5" r="0.9" fill="{paint_of.edge}"/></pattern>'
            )
    yield "</defs>"


def _look(kind: str, mark: str, thin: bool = False) -> str:
    """The attributes that paint one kind; thin boxes get thin outlines, or these would cover them."""
    colours = PAINTS[kind]
    fill = f"url(#dots-{kind}-{mark})" if colours.dotted else colours.fill
    dashes = ' stroke-dasharray="3 2"' if colours.dotted and not thin else ""
    return f'fill="{fill}" stroke="{colours.edge}" stroke-width="{0.4 if thin else 1}"{dashes}'


def _rect(x: float, y: float, width: float, height: float, attributes: str) -> str:
    return f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" {attributes}/>'


def _idles(picture: Layout, mark: str) -> Iterator[str]:
    if picture.idles:
        area = "".join(_area(idle.x, idle.y, idle.width, idle.height) for idle in picture.idles)
        yield f'<path class="bubble" d="{area}" fill="url(#hatch-{mark})"/>'


def _area(x: float, y: float, width: float, height: float) -> str:
    return f"M{_n(x)} {_n(y)}h{_n(width)}v{_n(height)}h{_n(-width)}z"


def _single(boxes: Iterable[Box], mark: str, ground: Ground) -> Iterator[str]:
    """One group per op, whose title browsers show on hover."""
    for box in boxes:
        kind, micro_batch, stage = box.op
        name = f"{box.op.label}: {KINDS[kind]} of micro-batch {micro_batch}, stage {stage}, device {box.device}"
        yield f'<g class="op {kind}"><title>{name}, {box.start:g} to {box.end:g}</title>'
        yield from _parts(box.parts, box.y, box.height, mark, ground)
        yield "</g>"


def _parts(parts: Sequence[Part], y: float, height: float, mark: str, ground: Ground) -> Iterator[str]:
    for part in parts:
        yield _rect(part.x, y, part.width, height, _look(part.kind, mark, thin=part.width < 5))
    if len(parts) > 1:
        width = sum(part.width for part in parts)
        line = f'class="frame" fill="none" stroke="{ground.ink}" stroke-width="{1.2 if width >= NARROWEST else 0.5}"'
        yield _rect(parts[0].x, y, width, height, line)


def _frame(frame: Frame | Swatch, ground: Ground) -> str:
    """The outline of a pair that runs as one block."""
    look = f'class="pair" fill="none" stroke="{ground.ink}" stroke-width="2"'
    return _rect(frame.x, frame.y, frame.width, frame.height, look)


def _merge(boxes: Sequence[Box], mark: str) -> Iterator[str]:
    areas: dict[tuple[str, str], list[str]] = defaultdict(list)
    for box in boxes:
        for part in box.parts:
            areas[box.op.kind, part.kind].append(_area(part.x, box.y, part.width, box.height))
    for (kind, painted_as), pieces in areas.items():
        yield f'<path class="ops {kind}" d="{"".join(pieces)}" {_look(painted_as, mark, thin=True)}/>'


def _wires(picture: Layout, mark: str) -> Iterator[str]:
    for wire in picture.wires:
        look = f'class="wire" {_look(wire.kind, mark, thin=wire.width < 5)}'
        yield _rect(wire.x, wire.y, wire.width, wire.height, look)


def _label(box: Box) -> str:
    """On a checkpointed backward the letters are on the backward part; among dots they get a clear rim."""
    part = box.parts[-1]
    look = PAINTS[part.kind]
    rim = f' stroke="{look.fill}" stroke-width="4" paint-order="stroke"' if look.dotted else ""
    return (
        f'<text class="label" x="{_n(part.x + part.width / 2)}" y="{_n(box.y + box.height / 2)}" dy="0.36em" '
        f'text-anchor="middle" font-size="{_n(box.font)}" fill="{label_colour(box.op.kind)}"{rim}>{box.label}</text>'
    )


def _text(words: Words, ground: Ground) -> str:
    weight = ' font-weight="bold"' if words.role == "heading" else ""
    return (
        f'<text class="{words.role}" x="{_n(words.x)}" y="{_n(words.y)}" dy="0.36em" text-anchor="{words.anchor}" '
        f'font-size="{words.font}" fill="{ground.of(words.role)}"{weight}>{escape(words.text)}</text>'
    )


def _line(points: Iterable[Point], attributes: str) -> str:
    return f'<polyline points="{" ".join(f"{_n(x)},{_n(y)}" for x, y in points)}" {attributes}/>'


def _rest(picture: Layout, ground: Ground) -> Iterator[str]:
    for strip in picture.strips:
        yield _line(strip.points, f'class="memory" fill="{ground.store}" stroke="{ground.ink}" stroke-width="1.5"')
    for route in picture.routes:
        yield from _path(route, ground)
    for bar in picture.bars:
        yield _rect(bar.x, bar.top, bar.width, bar.bottom - bar.top, f'class="flush" fill="{ground.ink}"')
    yield _line(picture.axis, f'class="axis" fill="none" stroke="{ground.ink}"')
    y = picture.axis[0][1]
    for x in picture.ticks:
        yield _line(((x, y), (x, y + 5)), f'class="mark" fill="none" stroke="{ground.ink}"')


def _path(points: Sequence[Point], ground: Ground) -> Iterator[str]:
    """Black on a white rim, which shows on light boxes and dark ones."""
    yield _line(points, f'class="rim" fill="none" stroke="{ground.paper}" stroke-width="5.5" stroke-linejoin="round"')
    yield _line(points, f'class="path" fill="none" stroke="{ground.ink}" stroke-width="3" stroke-linejoin="round"')


def _outline(box: Outline, ground: Ground) -> Iterator[str]:
    colour, width = (ground.alarm, 2.5) if box.wrong else (ground.faint, 1.2)
    fill = "none" if not box.label and box.wrong else ground.paper
    dashes = "" if box.wrong else ' stroke-dasharray="3 3"'
    look = f'class="stuck" fill="{fill}" stroke="{colour}" stroke-width="{width}"{dashes}'
    yield _rect(box.x, box.y, box.width, box.height, look)
    if box.label:
        place = f'x="{_n(box.x + box.width / 2)}" y="{_n(box.y + box.height / 2)}" dy="0.36em"'
        yield f'<text {place} text-anchor="middle" font-size="{_n(box.font)}">{box.label}</text>'


def _arrow(points: Sequence[Point], turn: bool, ground: Ground) -> Iterator[str]:
    yield _line(points, f'fill="none" stroke="{ground.paper}" stroke-width="5"')
    dashes = ' stroke-dasharray="4 3"' if turn else ""
    yield _line(
        points, f'class="{"turn" if turn else "wait"}" fill="none" stroke="{ground.alarm}" stroke-width="2"{dashes}'
    )
    corners = " ".join(f"{_n(x)},{_n(y)}" for x, y in head(points))
    yield f'<polygon points="{corners}" fill="{ground.alarm}" stroke="{ground.paper}" stroke-width="0.8"/>'


def _swatch(swatch: Swatch, mark: str, ground: Ground) -> Iterator[str]:
    x, y, width, height = swatch.x, swatch.y, swatch.width, swatch.height
    if swatch.kind == "bubble":
        yield _rect(x, y, width, height, f'fill="url(#hatch-{mark})" stroke="{ground.hatch}"')
    elif swatch.kind == "pair":
        yield _frame(swatch, ground)
    elif swatch.kind == "memory":
        yield _rect(x, y, width, height, f'fill="{ground.store}" stroke="{ground.ink}"')
    elif swatch.kind == "stuck":
        yield _rect(
            x,
            y,
            width,
            height,
            f'fill="{ground.paper}" stroke="{ground.faint}" stroke-width="1.2" stroke-dasharray="3 3"',
        )
    elif swatch.kind in ("wait", "turn"):
        yield from _arrow(((x, y + height / 2), (x + width, y + height / 2)), swatch.kind == "turn", ground)
    elif swatch.kind == "wire":
        return  # drawn among the wires
    elif swatch.kind == "path":
        yield from _path(((x, y + height / 2), (x + width, y + height / 2)), ground)
    else:
        yield from _parts(swatch.parts, y, height, mark, ground)
