"""The geometry that the still picture and the page have to share, worked out by layout.py.

    python -m tests.view.golden      writes tests/view/golden.json anew, after a change of the layout that is meant

Python's tests hold the file against layout.py, node's tests hold it against layout.js.
"""

import json
from pathlib import Path

import gpipe_edu as ge
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.timeline.stuck_schedule import standstill
from gpipe_edu.view.gantt.spec import specs, stuck_spec
from gpipe_edu.view.layout import layout
from gpipe_edu.view.lettering import label_font, text_width
from gpipe_edu.view.measures import TimeUnit, ticks

FILE = Path(__file__).with_name("golden.json")


def _measured() -> Timeline:
    """Times in seconds that no plan would have."""
    plan = ge.simulate(ge.one_f_one_b(3, 5), ge.Costs(F=[1, 1.3, 0.7], B=[2.1, 2.2, 1.9], send=0.2))
    spans = [Span(d, op, 7 + a * 1.7e-3, 7 + b * 1.7e-3) for d, op, a, b in plan.spans]
    return Timeline(spans, 3, name="a run", source="measured", unit="s")


CASES = {
    "gpipe": (ge.simulate(ge.gpipe(4, 8)), 1000, True),
    "late": (ge.simulate(ge.gpipe(4, 4, recompute="late")), 1000, True),
    "early, without memory": (ge.simulate(ge.gpipe(4, 4, recompute="early")), 700, False),
    "zero bubble": (ge.simulate(ge.zero_bubble(4, 8)), 1280, True),
    "interleaved": (ge.simulate(ge.interleaved(2, 4, 5)), 1280, True),
    "thin lanes": (ge.simulate(ge.interleaved(9, 2, 2)), 1000, True),
    "uneven, narrow": (ge.simulate(ge.one_f_one_b(3, 4), ge.Costs(F=[1, 3, 0.5], B=[2, 2, 5], send=0.25)), 480, True),
    "a phone": (ge.simulate(ge.gpipe(3, 3)), 370, True),
    "a phone, eight micro-batches": (ge.simulate(ge.gpipe(4, 8)), 350, True),
    "a phone, links": (ge.simulate(ge.one_f_one_b(3, 4), ge.Costs(link=1.5, send=0.5)), 370, False),
    "a large number held": (ge.simulate(ge.gpipe(2, 100)), 1000, True),
    "links": (ge.simulate(ge.one_f_one_b(3, 4), ge.Costs(link=1.5, send=0.5)), 1000, True),
    "measured": (_measured(), 960, True),
    "pairs": (ge.simulate(ge.dual_pipe_v(2, 4), ge.Costs(overlap=1)), 1000, True),
}
STUCK = standstill(ge.Schedule.parse("F0 B0 F1 B1\nF0 F1 B1 B0", name="mine"))
FONTS = [
    (label, width) for label in ("F0", "F12", "W3", "C107", "I9", "B88") for width in (12, 13, 14.5, 18, 22, 30, 60)
]
TICKS = [(longest, most) for longest in (0, 0.037, 1, 9.99, 33, 60, 51, 772, 12345) for most in (2, 5, 12, 30)]
TIMES = [0, 1, 33, 1 / 3, 12.5, 0.1 + 0.2, 1234.5678, 1234567.8, 0.00123456, 0.0000123456, 99999999, 2e-9]
CLOCKS = [(1, ""), (1, "s"), (1e3, "ms"), (1e6, "µs")]


def current() -> dict[str, object]:
    """What layout.py makes of all cases."""
    return {
        "cases": {name: _case(*given) for name, given in CASES.items()},
        "stuck": _stuck(),
        "fonts": [[label, width, label_font(label, width)] for label, width in FONTS],
        "widths": [[text, font, text_width(text, font)] for text, font in (("", 14), ("device 12", 14), ("µs", 13))],
        "ticks": [[longest, most, ticks(longest, most)] for longest, most in TICKS],
        "times": [[time, [*clock], TimeUnit(*clock).show(time)] for time in TIMES for clock in CLOCKS],
    }


def _case(timeline: Timeline, width: float, memory: bool) -> dict[str, object]:
    picture = layout(timeline, width=width, memory=memory)
    (spec,) = specs([timeline])
    boxes = {(box.op, box.device): box for box in picture.boxes}
    rows = [span for device in range(timeline.devices) for span in timeline.row(device)]
    first = min(box.y for box in picture.boxes)
    lower = 20 - first  # a page's lanes start 20 pixels below the top of their panel
    drawn = [boxes[span.op, span.device] for span in rows]
    lanes = {box.device: [box.y + lower, box.height] for box in picture.boxes}
    case = {
        "spec": spec,
        "width": width,
        "memory": memory,
        "axis": [picture.axis[0][0], picture.axis[1][0]],
        "ticks": list(picture.ticks),
        "lanes": [lanes[device] for device in range(timeline.devices)],
        "boxes": [[box.x, box.y + lower, box.width, box.height] for box in drawn],
        "parts": [[[part.kind, part.x, part.width] for part in box.parts] for box in drawn],
        "labels": [[box.label, box.font] for box in drawn],
        "wires": [
            [wire.x, wire.y + lower, wire.width, wire.height] for wire in picture.wires[: len(timeline.messages)]
        ],
        "frames": [[frame.x, frame.y + lower, frame.width, frame.height] for frame in picture.frames],
        "idles": [[idle.x, idle.y + lower, idle.width, idle.height] for idle in picture.idles],
        "strips": [[[x, y + lower] for x, y in strip.points] for strip in picture.strips],
        "flush": [[bar.x, bar.top + lower, bar.bottom + lower, bar.width] for bar in picture.bars],
    }
    return {name: _rounded(value) for name, value in case.items()}


def _stuck() -> dict[str, object]:
    """A schedule that cannot run; what has run is a box, what never will an outline."""
    picture = layout(STUCK)
    drawn = {(each.op, each.device): each for each in (*picture.outlines, *picture.boxes)}
    rows = [drawn[span.op, span.device] for device in range(STUCK.devices) for span in STUCK.row(device)]
    case = {
        "spec": stuck_spec(STUCK, TimeUnit(1, "")),
        "width": picture.width,
        "boxes": [[each.x, each.y - rows[0].y, each.width, each.height] for each in rows],
        "labels": [each.label for each in rows],
    }
    return {name: _rounded(value) for name, value in case.items()}


def _rounded(data: object) -> object:
    if isinstance(data, float):
        return round(data, 9)
    if isinstance(data, (list, tuple)):
        return [_rounded(each) for each in data]
    return {key: _rounded(value) for key, value in data.items()} if isinstance(data, dict) else data


if __name__ == "__main__":
    FILE.write_text(json.dumps(current(), ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
