"""The picture of a schedule that cannot run: what has run, what never will, and why, as arrows.

A deadlock is a cycle, so it is drawn as one: an arrow from each op to the one it waits for, and a dashed one from there
to the op that comes before it. The sentence above is wrapped between its parts, never inside a word. In a terminal:

    device 0  F0 || [B0?] [F1?] B1?
    device 1  F0 || [F1?] B1? [B0?]
    B0@0 --needs--> B0@1 ..stands behind..> F1@1 --needs--> F1@0 ..stands behind..> B0@0
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Final

from gpipe_edu.schedule import Op
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.timeline.diagram import contradiction_arrows
from gpipe_edu.timeline.stuck_schedule import StuckSchedule

from .lettering import label_font, text_width
from .shapes import FIGURES, Arrow, Box, LayoutBuilder, Outline, Point

GAP: Final = 26
"""Pixels between two lanes, where arrows along a lane have their bend."""

_BEND: Final = 10
MOST_ARROWS: Final = 12

RULES: Final = {
    "split-stage": "belongs there",
    "duplicate": "the same op",
    "mixed": "not beside that one",
    "missing": "lacks that one",
}
"""The label of an arrow, by the code of the broken rule; otherwise: that an op needs another."""

Place = tuple[float, float, float, float]
"""x, y, width and height of an op."""


def sentence(sheet: LayoutBuilder, message: str) -> None:
    """Write `message`, a line for each of its parts."""
    room = int((sheet.width - 24) / text_width("n", FIGURES))
    for part in message.split("\n"):
        for line in wrap(part.strip(), max(20, room)):
            sheet.write("alarm", line, FIGURES)


def outlines(sheet: LayoutBuilder, still: StuckSchedule, top: float, height: float) -> None:
    """Add the ops that never run, and what breaks the rule, with the lanes from `top` on; and the arrows."""
    place = {span: at(sheet, span, top, height) for span in (*still.ran, *still.stuck, *still.absent)}
    several = [len({span.op.stage for span in still.row(device)}) > 1 for device in range(still.devices)]
    for span in (*still.stuck, *still.absent):
        name = str(span.op) if several[span.device] else span.op.label
        sheet.outlines.append(outline(span.op, span.device, place[span], f"{name}?", span in still.wrong))
    for span in still.ran:
        if span in still.wrong:
            sheet.outlines.append(outline(span.op, span.device, place[span], "", True))
    for start, end, turn in still.arrows:
        sheet.arrows.append(arrow(place[start], place[end], turn=turn))


def conflicts(sheet: LayoutBuilder, drawing: Timeline, boxes: Sequence[Box]) -> None:
    """Add arrows to an impossible drawing, each from an op to one that it needs and that ends too late."""
    place = {(box.device, box.op): (box.x, box.y, box.width, box.height) for box in boxes}
    found = contradiction_arrows(drawing)[:MOST_ARROWS]
    for span in dict.fromkeys(arrow.start for arrow in found):
        sheet.outlines.append(outline(span.op, span.device, place[span.device, span.op], "", True))
    for start, end, turn in found:
        sheet.arrows.append(arrow(place[start.device, start.op], place[end.device, end.op], turn=turn))


def at(sheet: LayoutBuilder, span: Span, top: float, height: float) -> Place:
    """The position of an op."""
    return sheet.x(span.start), top + span.device * (height + GAP), (span.end - span.start) * sheet.scale, height


def outline(op: Op, device: int, place: Place, label: str, wrong: bool) -> Outline:
    """The outline of an op, its label as large as fits."""
    font = label_font(label, place[2]) if label else 0
    return Outline(op, device, *place, label if font else "", font, wrong)


def arrow(start: Place, end: Place, *, turn: bool = False) -> Arrow:
    """From one op to another: straight between two lanes, with a bend along one; below it for a turn, else above."""
    (x, y, width, height), (to_x, to_y, to_width, to_height) = start, end
    # An arrow that passes a lane in between keeps off the middle of its ops, where their names are.
    share = 0.8 if abs(to_y - y) > height + GAP else 0.5
    middle, to_middle = x + share * width, to_x + share * to_width
    # Where lanes are close, an arrow begins and ends inside their boxes, or it could not be seen.
    inset = 0 if abs(to_y - y) - height >= 2 * _BEND else height / 4
    points: Sequence[Point]
    if y == to_y:
        edge, bend = (y + height, y + height + _BEND) if turn else (y, y - _BEND)
        points = [(middle, edge), (middle, bend), (to_middle, bend), (to_middle, edge)]
    elif to_y > y:
        points = [(middle, y + height - inset), (to_middle, to_y + inset)]
    else:
        points = [(middle, y + inset), (to_middle, to_y + to_height - inset)]
    return Arrow(tuple(points), turn)


def head(points: Sequence[Point]) -> tuple[Point, Point, Point]:
    """The triangle at the end of an arrow."""
    (x, y), (to_x, to_y) = points[-2:]
    length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5 or 1.0
    along, across = (to_x - x) / length, (to_y - y) / length
    back_x, back_y = to_x - 9 * along, to_y - 9 * across
    return (to_x, to_y), (back_x - 4.5 * across, back_y + 4.5 * along), (back_x + 4.5 * across, back_y - 4.5 * along)


_BLANK: Final = "\N{NO-BREAK SPACE}"
"""A space at which lines don't wrap: they wrap only between two arrows."""


def render_stuck(still: StuckSchedule, width: int = 100) -> str:
    """The lines, at most `width` columns each where no op or word is longer."""
    lines = [f"{still.name or 'schedule'} · cannot run"]
    for part in still.problem.message.split("\n"):
        lines += wrap(part.strip(), width)
    return "\n".join([*lines, stuck_lanes(still, width)])


def stuck_lanes(still: StuckSchedule, width: int = 100) -> str:
    """The lines without the sentence."""
    lines: list[str] = []
    for device in range(still.devices):
        name = f"device {device}  "
        lines += wrap(name + " ".join(_ops(still, device)), width, subsequent_indent=" " * len(name))
    needs = RULES.get(still.problem.code, "needs")
    lines += chains([(start.op, end.op, turn) for start, end, turn in still.arrows], needs, width)
    lines += wrap("|| here the device stops; ? never runs; [ ] breaks the rule", width)
    return "\n".join(lines)


def _ops(still: StuckSchedule, device: int) -> Iterator[str]:
    """The ops of a device in order, with a bar before the first that never runs."""
    stopped, row, ran = False, still.row(device), set(still.ran)
    several = len({span.op.stage for span in row}) > 1
    for span in row:
        runs = span in ran
        if not runs and not stopped:
            stopped = True
            yield "||"
        name = (str(span.op) if several else span.op.label) + ("" if runs else "?")
        yield f"[{name}]" if span in still.wrong else name


def chains(links: Iterable[tuple[Op, Op, bool]], needs: str = "needs", width: int = 100) -> list[str]:
    """Arrows that lead on from one another as lines; each is (op, other op, whether it only stands behind that one)."""
    needs, behind = (arrow.replace(" ", _BLANK) for arrow in (f"--{needs}-->", "..stands behind..>"))
    found: list[str] = []
    last: Op | None = None
    for start, end, turn in links:
        if start != last:
            found.append(str(start))
        found[-1] += f" {behind if turn else needs}{_BLANK}{end}"
        last = end
    broken = [line for chain in found for line in wrap(chain, width, break_long_words=False, break_on_hyphens=False)]
    return [line.replace(_BLANK, " ") for line in broken]
