"""The picture of what cannot run: every op of the schedule, every arrow of the rule, in SVG, PNG and text."""

import pytest

import gpipe_edu as ge
from gpipe_edu.schedule import Schedule
from gpipe_edu.timeline import read_diagram
from gpipe_edu.timeline.stuck_schedule import standstill
from gpipe_edu.view.layout import layout
from gpipe_edu.view.stuck import render_stuck
from gpipe_edu.view.svg import paint

DEADLOCK = Schedule.parse("F0 B0 F1 B1\nF0 F1 B1 B0", name="mine")


def drawn():
    return layout(standstill(DEADLOCK))


def test_every_op_is_there_and_what_never_runs_is_marked():
    picture = drawn()
    assert [str(box.op) for box in picture.boxes] == ["F0@0", "F0@1"]
    assert {box.label for box in picture.outlines} == {"B0?", "F1?", "B1?"}
    assert sorted(str(box.op) for box in picture.outlines if box.wrong) == ["B0@0", "B0@1", "F1@0", "F1@1"]
    assert picture.idles == picture.bars == (), "nobody idles before an update that never comes"


def test_arrows_begin_and_end_at_the_ops_they_join():
    picture = drawn()
    place = {box.op: box for box in picture.outlines}
    for arrow, (start, end, turn) in zip(picture.arrows, standstill(DEADLOCK).arrows, strict=True):
        assert arrow.turn is turn
        for (x, y), op in ((arrow.points[0], start.op), (arrow.points[-1], end.op)):
            box = place[op]
            assert box.x <= x <= box.x + box.width
            assert box.y <= y <= box.y + box.height


def test_the_sentence_is_broken_where_its_parts_end():
    lines = [words.text for words in drawn().words if words.role == "alarm"]
    assert lines == [
        "deadlock: B0@0 on device 0 waits for B0@1, which device 1 runs after F1@1;",
        "F1@1 on device 1 waits for F1@0, which device 0 runs after B0@0",
    ]
    narrow = [words.text for words in layout(standstill(DEADLOCK), width=400).words if words.role == "alarm"]
    assert " ".join(narrow) == " ".join(lines), "no word is torn apart"
    assert len(narrow) > 2


def test_the_svg_paints_all_of_it():
    text = paint(drawn())
    assert text.count('class="stuck"') == 6
    assert text.count('class="wait"') == 2 + 1, "and one in the legend"
    assert text.count('class="turn"') == 2 + 1
    assert text.count("<polygon") == 6


def test_the_png_is_painted():
    figures = pytest.importorskip("gpipe_edu.view.matplotlib_painter")
    assert figures.png(drawn())[:4] == b"\x89PNG"


def test_it_stands_beside_one_that_runs_on_one_axis():
    picture = ge.compare(standstill(DEADLOCK), ge.gpipe(2, 2)).layout
    boxes = [box for box in picture.boxes if str(box.op) == "F0@0"]
    assert boxes[0].width == boxes[1].width


def test_the_text_shows_lanes_and_circle():
    assert render_stuck(standstill(DEADLOCK)).split("\n")[3:] == [
        "device 0  F0 || [B0?] [F1?] B1?",
        "device 1  F0 || [F1?] B1? [B0?]",
        "B0@0 --needs--> B0@1 ..stands behind..> F1@1 --needs--> F1@0 ..stands behind..> B0@0",
        "|| here the device stops; ? never runs; [ ] breaks the rule",
    ]
    for line in render_stuck(standstill(DEADLOCK), 40).split("\n"):
        assert len(line) <= 40


def test_a_diagram_that_cannot_be_has_an_arrow_for_each_thing_that_comes_too_late():
    picture = layout(read_diagram("F0 F1 . . B1 B0\n. F0 F1 . B1 B0"))
    starts = sorted(str(box.op) for box in picture.outlines)
    assert starts == ["B0@0", "B1@0"], "both start before the gradient is there"
    assert len(picture.arrows) == 2
    assert layout(read_diagram("F0 . . B0\n. F0 B0 .")).arrows == ()
    deadlocked = layout(read_diagram("F0 B0 F1 B1\nF0 F1 B1 B0"))
    assert len(deadlocked.arrows) == 4
