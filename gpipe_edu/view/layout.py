"""Where everything is in a picture: a pure function from timelines to pixels.

Every drawer paints this and adds nothing, so the SVG and the matplotlib figure cannot drift apart, and what a picture
shows can be tested without looking at one. Several timelines share one time axis, so that their lengths can be
compared. What cannot be drawn is refused here, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from gpipe_edu.schedule import KINDS, Op
from gpipe_edu.schedule.schedule import meant
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.timeline.memory import memory_over_time, shares
from gpipe_edu.timeline.stuck_schedule import StuckSchedule

from . import stuck
from .lettering import label_font, number_font, text_width, wrap
from .measures import (
    TimeUnit,
    amount,
    chunked,
    figures,
    gaps,
    heading,
    recompute_time,
    stages_of,
    ticks,
    time_unit,
    updates,
)
from .shapes import (
    EDGE,
    FIGURES,
    HEADING,
    LANE,
    LINK,
    LINK_NOTE,
    NOTE,
    STRIP,
    WIRE,
    Bar,
    Box,
    Frame,
    Idle,
    Layout,
    LayoutBuilder,
    Part,
    Point,
    Strip,
    Swatch,
    Wire,
    Words,
)

LEAST_WIDTH: Final = 320
"""Pixels; below this the margins would leave no room for the chart."""

NARROW: Final = 480
"""Pixels. A narrower picture, as on a phone, gives its time the room that names of lanes and memory would take."""
_TICK_ROOM: Final = 64
_ROOMY: Final = 7
"""Up to so many lanes each have room for two lines of text; with more, a picture would outgrow a laptop's screen."""
_HELD: Final = "activations held, in micro-batches"
_HELD_IN_PARTS: Final = "held, in micro-batches (all its stages)"
"""On a device with several stages, a micro-batch in one of them counts as a fraction."""


def layout(
    *drawn: Timeline | StuckSchedule,
    width: float = 1000,
    memory: bool = False,
    title: str | None = None,
    critical_path: bool = False,
) -> Layout:
    """The picture of one or several timelines, `width` pixels wide and as high as it needs to be.

    A schedule that cannot run is drawn as far as it goes, an impossible diagram with arrows for the rules it breaks.
    memory: under every lane, the micro-batches whose activations are held. title: instead of the timeline's name (with
    several timelines: instead of every name). critical_path: draw the chain of ops that sets the makespan.

    Raises ValueError for no timeline, a width below 320, or timelines in different units.
    """
    refuse(drawn, width)
    timelines = [each for each in drawn if isinstance(each, Timeline)]
    longest = max(each.makespan if isinstance(each, Timeline) else each.end for each in drawn)
    shown = time_unit(timelines[0].unit if timelines else "", longest)
    levels = {each: memory_over_time(each, interior=shares(each)) for each in timelines if memory}
    thin = sum(each.devices for each in drawn) > _ROOMY
    names = _lane_names(drawn, thin, width)
    if width >= NARROW:
        names += [(_holds(level), NOTE) for rows in levels.values() for level in rows]
    edge = _edge(width)
    left = edge + max(text_width(line, font) for line, font in names) + 8
    right = width - edge - text_width(_peaks_title(width), NOTE) - (20 if width >= NARROW else 16)
    sheet = LayoutBuilder(width, left, right, 0, (right - left) / longest if longest else 0, thin)
    # One scale for all strips of a picture, so that equal heights mean equal amounts.
    tallest = max((held for rows in levels.values() for row in rows for _, held in row), default=0)
    for number, each in enumerate(drawn):
        if number:
            sheet.y += 14
        if isinstance(each, StuckSchedule):
            sheet.origin = 0
            _standstill(sheet, each, title)
            continue
        sheet.origin = each.start
        _headings(sheet, each, shown, title)
        top = len(sheet.boxes)
        _lanes(sheet, each, levels.get(each), tallest)
        if each.source == "drawn":
            stuck.conflicts(sheet, each, sheet.boxes[top:])
        if critical_path:
            sheet.routes.append(_route(sheet, each))
    _axis(sheet, longest, shown)
    _legend(sheet, drawn, memory, critical_path)
    return sheet.freeze("; ".join(_summary(each, shown) for each in drawn))


def refuse(timelines: Sequence[Timeline | StuckSchedule], width: float = LEAST_WIDTH) -> None:
    """Raise ValueError for what cannot be drawn: no timeline, too little width, or no common time axis."""
    if not timelines:
        raise ValueError("there is no timeline to draw; give at least one")
    if width < LEAST_WIDTH:
        raise ValueError(f"width is {width}; a chart needs at least {LEAST_WIDTH} pixels")
    units = sorted({each.unit if isinstance(each, Timeline) else "" for each in timelines})
    if len(units) > 1:
        names = " and ".join(TimeUnit(1, unit).words for unit in units)
        raise ValueError(
            f"the timelines are in {names}, which do not share a time axis; plan with calibrate(a measured timeline) "
            f'or Costs(..., unit="s"), or draw them one by one'
        )


def _edge(width: float) -> float:
    """What stays free on the left and on the right of the lanes."""
    return EDGE if width >= NARROW else 4


def _device_name(device: int, width: float) -> str:
    """A narrow picture says "device" once, above all lanes."""
    return f"device {device}" if width >= NARROW else str(device)


def _lane_names(timelines: Sequence[Timeline | StuckSchedule], thin: bool, width: float) -> list[tuple[str, float]]:
    names: list[tuple[str, float]] = []
    for timeline in timelines:
        for device, stages in enumerate(stages_of(timeline)):
            note = _stage_note(device, stages)
            names += [(_device_name(device, width), LANE), (f"{device}: {note}" if thin and note else note, NOTE)]
            if width < NARROW and isinstance(timeline, Timeline):
                names += [(link_note(target, width), LINK_NOTE) for target in timeline.links[device]]
    return names


def _stage_note(device: int, stages: Sequence[int]) -> str:
    """The stages of a device, unless they follow from its number."""
    if list(stages) in ([], [device]):
        return ""
    listed = ", ".join(map(str, stages)) if len(stages) <= 4 else f"{stages[0]}, {stages[1]}, … {stages[-1]}"
    return f"{'stages' if len(stages) > 1 else 'stage'} {listed}"


def _headings(sheet: LayoutBuilder, timeline: Timeline, shown: TimeUnit, title: str | None) -> None:
    room = sheet.width - 2 * EDGE
    for line in wrap(heading(timeline, shown, title), HEADING * 1.1, room):
        sheet.write("heading", line, HEADING)
    for line in wrap(figures(timeline, shown), FIGURES, room):
        sheet.write("figures", line, FIGURES)


def _standstill(sheet: LayoutBuilder, still: StuckSchedule, title: str | None) -> None:
    name = still.name or "schedule" if title is None else title
    for line in wrap([name, "cannot run"], HEADING * 1.1, sheet.width - 2 * EDGE):
        sheet.write("heading", line, HEADING)
    stuck.sentence(sheet, still.problem.message)
    height = _lane_height(sheet)
    if sheet.width < NARROW:
        sheet.y += 6
        sheet.words.append(Words("note", _edge(sheet.width), sheet.y + 3, "device", NOTE))
    sheet.y += 14
    top, stages = sheet.y, stages_of(still)
    for device in range(still.devices):
        _lane_words(sheet, device, stages[device], height)
        sheet.boxes += _boxes(sheet, [span for span in still.ran if span.device == device], height, {})
        sheet.y += height + stuck.GAP
    stuck.outlines(sheet, still, top, height)


def _lane_height(sheet: LayoutBuilder) -> float:
    return 22 if sheet.thin else 30


def _lanes(
    sheet: LayoutBuilder, timeline: Timeline, levels: Sequence[Sequence[tuple[float, float]]] | None, tallest: float
) -> None:
    height, space = _lane_height(sheet), 3 if sheet.thin else 5
    end = sheet.x(timeline.end)
    if updates(timeline):
        sheet.words.append(Words("note", end + 7, sheet.y + 9, "update", NOTE, "end"))
    edge = _edge(sheet.width)
    sheet.words.append(Words("note", sheet.width - edge, sheet.y + 9, _peaks_title(sheet.width), NOTE, "end"))
    if sheet.width < NARROW:
        sheet.words.append(Words("note", edge, sheet.y + 9, "device", NOTE))
    sheet.y += 20
    top, stages, peaks = sheet.y, stages_of(timeline), timeline.peak_in_flight
    recomputes = recompute_time(timeline)
    for device in range(timeline.devices):
        _lane_words(sheet, device, stages[device], height)
        sheet.words.append(Words("lane", sheet.width - edge, sheet.y + height / 2, str(peaks[device]), LANE, "end"))
        _row(sheet, timeline, device, height, recomputes)
        sheet.y += height
        _links(sheet, timeline, device)
        if levels is not None:
            sheet.strips.append(_strip(sheet, timeline, device, levels[device], tallest))
            sheet.y += STRIP + 4
        sheet.y += space
    sheet.y -= space
    if updates(timeline):
        sheet.bars.append(Bar(end + 1, top - 3, sheet.y + 3, 6))


def _lane_words(sheet: LayoutBuilder, device: int, stages: Sequence[int], height: float) -> None:
    middle, x = sheet.y + height / 2, sheet.left - 8
    note = _stage_note(device, stages)
    if note and sheet.thin:
        sheet.words.append(Words("lane", x, middle, f"{device}: {note}", NOTE, "end"))
        return
    sheet.words.append(Words("lane", x, middle - (8 if note else 0), _device_name(device, sheet.width), LANE, "end"))
    if note:
        sheet.words.append(Words("note", x, middle + 8, note, NOTE, "end"))


def _row(
    sheet: LayoutBuilder, timeline: Timeline, device: int, height: float, recomputes: Mapping[Span, float]
) -> None:
    boxes = _boxes(sheet, timeline.row(device), height, recomputes)
    sheet.boxes += boxes
    for one, two in pairwise(boxes):
        if (one.op, two.op) in timeline.pairs:
            sheet.frames.append(Frame(one.x, one.y, two.x + two.width - one.x, height))
    for start, end in gaps(timeline, device):
        sheet.idles.append(Idle(device, start, end, sheet.x(start), sheet.y, (end - start) * sheet.scale, height))


def _links(sheet: LayoutBuilder, timeline: Timeline, device: int) -> None:
    """Add a row for each link on which the device sends, with its messages."""
    for target, messages in timeline.links[device].items():
        y = sheet.y + (LINK - WIRE) / 2
        name = link_note(target, sheet.width)
        sheet.words.append(Words("note", sheet.left - 8, sheet.y + LINK / 2, name, LINK_NOTE, "end"))
        for message in messages:
            width = (message.end - message.start) * sheet.scale
            sheet.wires.append(Wire(message.op, sheet.x(message.start), y, width, WIRE))
        sheet.y += LINK


def link_note(target: int, width: float) -> str:
    """The label of the row of a link, in a picture `width` pixels wide."""
    return f"link to {target}" if width >= NARROW else f"to {target}"


def _boxes(sheet: LayoutBuilder, spans: Iterable[Span], height: float, recomputes: Mapping[Span, float]) -> list[Box]:
    """The boxes of one lane."""
    boxes = []
    for span in spans:
        x, width = sheet.x(span.start), (span.end - span.start) * sheet.scale
        parts = _parts(span.op.kind, x, width, recomputes.get(span, 0) * sheet.scale)
        font = label_font(span.op.label, parts[-1].width)
        label = span.op.label if font else ""
        boxes.append(Box(span.op, span.device, span.start, span.end, x, sheet.y, width, height, parts, label, font))
    if sheet.width < NARROW and not all(box.label for box in boxes):
        boxes = _numbered(boxes)
    # One size per lane and kind: letters that shrink and grow along a lane look like a message.
    fonts: dict[str, float] = {}
    for box in boxes:
        if box.label:
            fonts[box.op.kind] = min(box.font, fonts.get(box.op.kind, box.font))
    return [box._replace(font=fonts[box.op.kind]) if box.label else box for box in boxes]


def _numbered(boxes: Sequence[Box]) -> list[Box]:
    """The boxes of a lane with the numbers of their micro-batches, as far as these fit."""
    numbered = []
    for box in boxes:
        number = str(box.op.micro_batch)
        font = number_font(number, box.parts[-1].width)
        numbered.append(box._replace(label=number if font else "", font=font))
    return numbered


def _parts(kind: str, x: float, width: float, recompute: float) -> tuple[Part, ...]:
    if kind != "C":
        return (Part(kind, x, width),)
    return Part("R", x, recompute), Part("B", x + recompute, width - recompute)


def _strip(
    sheet: LayoutBuilder, timeline: Timeline, device: int, level: Sequence[tuple[float, float]], tallest: float
) -> Strip:
    base, unit = sheet.y + STRIP, (STRIP - 3) / tallest if tallest else 0
    steps = [(timeline.start, 0.0), *level, (timeline.end, 0.0)]
    points = [(sheet.left, base)]
    for (_, before), (time, held) in pairwise(steps):
        x = sheet.x(time)
        points += [(x, base - before * unit), (x, base - held * unit)]
    if sheet.width >= NARROW:
        sheet.words.append(Words("note", sheet.left - 8, sheet.y + STRIP / 2, _holds(level), NOTE, "end"))
    return Strip(device, base, tuple(points))


def _holds(level: Sequence[tuple[float, float]]) -> str:
    """The label of a memory strip."""
    return f"holds ≤ {amount(max((held for _, held in level), default=0))}"


def _peaks_title(width: float) -> str:
    """The heading of the numbers right of the lanes; a narrow picture has room for one word."""
    return "peak" if width < NARROW else "peak in flight"


def _route(sheet: LayoutBuilder, timeline: Timeline) -> tuple[Point, ...]:
    """The critical path runs near the lower edge of its boxes, under their labels."""
    box_of: dict[Op, Box] = {box.op: box for box in sheet.boxes[-len(timeline.spans) :]}
    up = 2 if sheet.thin else 5
    boxes = [box_of[span.op] for span in timeline.critical_path()]
    return tuple(point for b in boxes for point in ((b.x, b.y + b.height - up), (b.x + b.width, b.y + b.height - up)))


def _axis(sheet: LayoutBuilder, longest: float, shown: TimeUnit) -> None:
    sheet.y += 8
    sheet.axis = ((sheet.left, sheet.y), (sheet.right, sheet.y))
    for time in ticks(longest * shown.scale, max(2, int((sheet.right - sheet.left) / _TICK_ROOM))):
        x = sheet.left + time / shown.scale * sheet.scale
        sheet.ticks.append(x)
        sheet.words.append(Words("tick", x, sheet.y + 15, f"{time:.6g}", NOTE, "middle"))
    sheet.words.append(Words("tick", sheet.width - _edge(sheet.width), sheet.y + 15, shown.unit or "time", NOTE, "end"))
    sheet.y += 34


def _legend(sheet: LayoutBuilder, drawn: Sequence[Timeline | StuckSchedule], memory: bool, critical_path: bool) -> None:
    timelines = [each for each in drawn if isinstance(each, Timeline)]
    stills = [each for each in drawn if isinstance(each, StuckSchedule)]
    present = {span.op.kind for each in timelines for span in each.spans} | {s.op.kind for e in stills for s in e.ran}
    words = [stuck.RULES.get(still.problem.code, "needs") for still in stills] or ["needs"]
    others = [
        ("bubble", "bubble: the device is idle", bool(sheet.idles)),
        ("pair", "two run as one", bool(sheet.frames)),
        ("wire", "message on its link", bool(sheet.wires)),
        ("memory", _HELD_IN_PARTS if any(map(chunked, timelines)) else _HELD, memory),
        ("path", "critical path", critical_path),
        ("stuck", "never runs", any(still.stuck for still in stills)),
        ("wait", words[0], any(not arrow.turn for arrow in sheet.arrows)),
        ("turn", "stands behind", any(arrow.turn for arrow in sheet.arrows)),
    ]
    names = [(kind, f"{kind} {name}") for kind, name in KINDS.items() if kind in present]
    names += [(kind, name) for kind, name, there in others if there]
    x, width, height = float(EDGE), 24.0, 15.0
    for kind, name in names:
        length = width + 6 + text_width(name, NOTE) + 12
        if x > EDGE and x + length > sheet.width:
            x, sheet.y = EDGE, sheet.y + 22
        parts = _parts(kind, x, width, width / 3) if kind in KINDS else ()
        if kind == "wire":
            sheet.wires.append(Wire(sheet.wires[0].op, x, sheet.y + (height - WIRE) / 2, width, WIRE))
        sheet.swatches.append(Swatch(kind, x, sheet.y, width, height, parts))
        sheet.words.append(Words("note", x + width + 6, sheet.y + height / 2, name, NOTE))
        x += length
    sheet.y += height + 6


def _summary(timeline: Timeline | StuckSchedule, shown: TimeUnit) -> str:
    if isinstance(timeline, StuckSchedule):
        return f"{timeline.name or 'schedule'} cannot run: {' '.join(timeline.problem.message.split())}"
    peaks = ", ".join(map(str, timeline.peak_in_flight))
    return ", ".join([*heading(timeline, shown), *figures(timeline, shown), f"peak in flight per device {peaks}"])


def not_drawable(function: str, given: object) -> TypeError:
    """The error for `given`, which `function` (gantt or compare) was to draw: what it draws, and what may be meant."""
    advice = ". Give them one by one, without brackets" if isinstance(given, (list, tuple)) else meant(given)
    return TypeError(
        f"{function} draws schedules and timelines, such as ge.{function}(ge.gpipe(4, 8)); got {given!r}{advice}"
    )
