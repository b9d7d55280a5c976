"""The picture in a terminal: for a machine without a screen, a log, or a reader who listens.

    device 0  F0 F1 B1-- B0--
    device 1  ...F0 F1 ...       idle time is dotted, and a column always means the same time on every line

Where the labels do not fit, only letters are shown, and where even those do not, a column shows what took most of its
time. A dash continues the op on its left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, overload

from gpipe_edu.schedule import KINDS
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.timeline.stuck_schedule import StuckSchedule

from .lettering import fill
from .measures import NOISE, figures, heading, time_unit
from .palette import PAINTS, label_colour
from .stuck import render_stuck

if TYPE_CHECKING:
    from rich.text import Text

LEAST_WIDTH: Final = 24
"""Columns; below this there is no room for lanes beside their names."""


class Stretch(NamedTuple):
    """Some columns of a lane: their text and the kind of op they show, "" for idle ones."""

    text: str
    kind: str


@overload
def render_text(timeline: Timeline, width: int = 100, color: Literal[False] = False) -> str: ...
@overload
def render_text(timeline: Timeline, width: int = 100, *, color: Literal[True]) -> Text: ...
def render_text(timeline: Timeline, width: int = 100, color: bool = False) -> str | Text:
    """The chart in at most `width` columns: a line per device, then a legend and the figures.

    Returns a string, or with `color` a `rich.text.Text` for a rich console. Raises ValueError for a width below 24.
    """
    if width < LEAST_WIDTH:
        raise ValueError(f"width is {width}; a chart in text needs at least {LEAST_WIDTH} columns")
    shown = time_unit(timeline.unit, timeline.makespan)
    names = [f"{device}" if width < 60 else f"device {device}" for device in range(timeline.devices)]
    room = width - len(names[-1]) - 2
    lanes = list(_lanes(timeline, room))
    above = _fold(heading(timeline, shown), width)
    below = _fold(_legend(timeline), width) + _fold([*figures(timeline, shown), _peaks(timeline)], width)
    lines: list[list[Stretch]] = [[Stretch(line, "")] for line in above]
    for name, lane in zip(names, lanes, strict=True):
        lines.append([Stretch(f"{name:>{len(names[-1])}}  ", ""), *lane])
    lines += [[Stretch(line, "")] for line in below]
    if color:
        return _colour(lines)
    return "\n".join("".join(stretch.text for stretch in line).rstrip() for line in lines)


def in_text(drawn: Timeline | StuckSchedule, width: int = 100) -> str:
    """A timeline as a chart, or a schedule that cannot run with the reason."""
    return render_stuck(drawn, width) if isinstance(drawn, StuckSchedule) else render_text(drawn, width)


def _lanes(timeline: Timeline, room: int) -> Iterator[list[Stretch]]:
    shortest = min((span.end - span.start for span in timeline.spans if span.end > span.start), default=0)
    most = room / timeline.makespan if timeline.makespan else 0
    letters = max(len(span.op.label) for span in timeline.spans)
    # A whole number of columns for the shortest op keeps equal ops equally wide.
    columns = int(shortest * most * (1 + NOISE))
    scale = min(columns, max(4, letters + 1)) / shortest if columns else most
    for device in range(timeline.devices):
        if columns:
            yield _ops(timeline, device, scale, letters, columns)
        else:
            yield _blocks(timeline, device, room)


def _ops(timeline: Timeline, device: int, scale: float, letters: int, columns: int) -> list[Stretch]:
    """Every op separately, where the shortest has `columns`, at least one; a blank ends it where labels leave room."""
    stretches, here, end = [], 0, " " if columns > letters else ""
    for span in timeline.row(device):
        first, last = (_column(time - timeline.start, scale) for time in (span.start, span.end))
        if last == first:
            continue
        name = span.op.label if columns >= letters else span.op.kind
        stretches.append(Stretch("." * (first - here), ""))
        stretches.append(Stretch(name.ljust(last - first - len(end), "-") + end, span.op.kind))
        here = last
    stretches.append(Stretch("." * (_column(timeline.makespan, scale) - here), ""))
    return [stretch for stretch in stretches if stretch.text]


def _column(time: float, scale: float) -> int:
    """The nearest column. Halves go up: rounding them to even would make equal ops differ by a column."""
    return int(time * scale + 0.5 + NOISE)


def _blocks(timeline: Timeline, device: int, room: int) -> list[Stretch]:
    """A column each: the kind that takes most of its time, idle time included."""
    shares: list[dict[Span, float]] = [{} for _ in range(room)]
    for span in timeline.row(device):
        for column, share in _columns(span, timeline, room):
            shares[column][span] = share
    tops = [_top(share) for share in shares]
    return [_block(top, before) for before, top in pairwise([None, *tops])]


def _top(shares: dict[Span, float]) -> Span | None:
    """The longest op of the kind that takes most of a column, or None if most of it is idle."""
    kinds: dict[str, float] = {"": 1 - sum(shares.values())}
    for span, share in shares.items():
        kinds[span.op.kind] = kinds.get(span.op.kind, 0) + share
    most = max(reversed(kinds), key=lambda kind: kinds[kind])
    spans = [span for span in shares if span.op.kind == most]
    return max(spans, key=lambda span: shares[span], default=None)


def _block(span: Span | None, before: Span | None) -> Stretch:
    if span is None:
        return Stretch(".", "")
    return Stretch("-" if span == before else span.op.kind, span.op.kind)


def _columns(span: Span, timeline: Timeline, room: int) -> Iterator[tuple[int, float]]:
    """The columns that a span touches, and the share of each that it takes."""
    if not timeline.makespan:
        return
    start, end = ((time - timeline.start) / timeline.makespan * room for time in (span.start, span.end))
    for column in range(int(start), min(room, int(end) + 1)):
        yield column, min(end, column + 1) - max(start, column)


def _legend(timeline: Timeline) -> list[str]:
    present = {span.op.kind for span in timeline.spans}
    return [*(f"{kind} {name}" for kind, name in KINDS.items() if kind in present), ". idle"]


def _peaks(timeline: Timeline) -> str:
    peaks = timeline.peak_in_flight
    if len(set(peaks)) == 1:
        return f"peak in flight {peaks[0]}"
    listed = " ".join(map(str, peaks)) if len(peaks) <= 8 else f"{min(peaks)} to {max(peaks)}"
    return f"peak in flight {listed}"


def _fold(pieces: Iterable[str], width: int) -> list[str]:
    short = [piece if len(piece) <= width else piece[: width - 1] + "…" for piece in pieces]
    return fill(short, width, "  ")


def _colour(lines: Iterable[Iterable[Stretch]]) -> Text:
    from rich.text import Text  # only a coloured chart needs rich

    text = Text(no_wrap=True)
    for number, line in enumerate(lines):
        if number:
            text.append("\n")
        for stretch in line:
            text.append(stretch.text, style=_style(stretch.kind))
    return text


def _style(kind: str) -> str:
    if not kind:
        return ""
    return f"{label_colour(kind)} on {PAINTS['B' if kind == 'C' else kind].fill}"
