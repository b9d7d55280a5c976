"""The chart in a terminal."""

import re

import pytest
from rich.text import Text

import gpipe_edu as ge
from gpipe_edu.view.text import render_text
from tests.each import each

COSTS = ge.Costs(F=[1, 2, 1.5, 0.7], B=[2, 4, 3, 1.4], send=0.5)
TIMELINES = {
    "gpipe": ge.simulate(ge.gpipe(4, 8)),
    "uneven": ge.simulate(ge.gpipe(4, 8, recompute="late"), COSTS),
    "zero bubble": ge.simulate(ge.zero_bubble(4, 8), COSTS),
    "interleaved": ge.simulate(ge.interleaved(4, 8, 2)),
    "large": ge.simulate(ge.gpipe(16, 64, recompute="early")),
    "no time": ge.simulate(ge.gpipe(2, 2), ge.Costs(F=0, B=0)),
}


@each("name", TIMELINES)
@each("width", [24, 31, 59, 60, 61, 80, 100, 132, 250])
def test_no_line_is_wider_than_the_terminal(name, width):
    timeline = TIMELINES[name]
    for text in (render_text(timeline, width), render_text(timeline, width, color=True).plain):
        assert max(map(len, text.split("\n"))) <= width


def test_labels_where_they_fit():
    assert render_text(ge.simulate(ge.gpipe(2, 2)), 80) == (
        "gpipe  planned, time in cost units  2 devices, 2 micro-batches\n"
        "device 0  F0- F1- ............B1----- B0-----\n"
        "device 1  ....F0- F1- B1----- B0----- ........\n"
        "F forward  B backward  . idle\n"
        "makespan 9  bubble 33.3% (idle / total)  useful work 66.7%  peak in flight 2"
    )


def lanes(timeline, width):
    found = (re.fullmatch(r" ?(?:device )?\d+  (.+)", line) for line in render_text(timeline, width).split("\n"))
    return [line[1] for line in found if line]


def test_then_labels_without_gaps_then_letters_then_blocks():
    timeline = TIMELINES["gpipe"]
    assert lanes(timeline, 80)[0] == "F0F1F2F3F4F5F6F7" + "." * 18 + "B7--B6--B5--B4--B3--B2--B1--B0--"
    assert lanes(timeline, 50)[0] == "FFFFFFFF.........B-B-B-B-B-B-B-B-"
    assert lanes(TIMELINES["large"], 100)[15].count("F") >= 10


@pytest.mark.parametrize("name", ["uneven", "large", "interleaved"])
def test_blocks_are_in_proportion(name):
    timeline = TIMELINES[name]
    for device, lane in enumerate(lanes(timeline, 59)):
        assert lane.count(".") / len(lane) == pytest.approx(timeline.idle(device) / timeline.makespan, abs=0.12)


def test_it_ends_with_a_legend_and_the_figures():
    lines = render_text(TIMELINES["uneven"], 120).split("\n")
    assert lines[-2] == "F forward  C checkpointed backward  . idle"
    assert lines[-1].startswith("makespan 79.8  bubble ")
    assert lines[-1].endswith("peak in flight 8")


def test_in_colour_it_is_the_same_text():
    timeline = ge.simulate(ge.gpipe(2, 2, recompute="early"))
    text = render_text(timeline, 90, color=True)
    assert isinstance(text, Text)
    assert [line.rstrip() for line in text.plain.split("\n")] == render_text(timeline, 90).split("\n")
    assert {str(span.style) for span in text.spans} == {
        "#000000 on #7FC4F0",
        "#FFFFFF on #8F3300",
        "#000000 on #FFF3B0",
    }


def test_a_width_without_room_is_refused():
    with pytest.raises(ValueError, match="width is 10; a chart in text needs at least 24 columns"):
        render_text(TIMELINES["gpipe"], 10)
