"""The still picture's geometry is the one written in golden.json, against which node's tests hold the page's."""

import json

import pytest

import gpipe_edu as ge
from gpipe_edu.view.layout import layout
from tests.each import each
from tests.view.golden import CASES, FILE, current

STORED = json.loads(FILE.read_text(encoding="utf-8"))
CURRENT = current()


def near(found, wanted):
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(near(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(near, found, wanted))
    return found == (pytest.approx(wanted, abs=1e-6) if isinstance(wanted, (int, float)) else wanted)


@each("name", CASES)
def test_the_still_picture_is_as_stored(name):
    found = json.loads(json.dumps(CURRENT["cases"][name]))
    for part, wanted in STORED["cases"][name].items():
        assert near(found[part], wanted), f"{part} differs; if that is meant: python -m tests.view.golden"


@pytest.mark.parametrize("name", ["stuck", "fonts", "widths", "ticks", "times"])
def test_what_cannot_run_and_lettering_are_as_stored(name):
    assert near(json.loads(json.dumps(CURRENT[name])), STORED[name])


def test_many_lanes_are_lower_in_one_chart_or_in_several():
    four = ge.gpipe(4, 8)
    heights = [layout(*map(ge.simulate, drawn)).boxes[0].height for drawn in ([four], [four, four], [ge.gpipe(8, 8)])]
    assert heights == [30, 22, 22]


def test_strips_of_several_timelines_share_one_scale():
    picture = layout(ge.simulate(ge.gpipe(2, 8)), ge.simulate(ge.one_f_one_b(2, 8)), memory=True)
    heights = [strip.base - min(y for _, y in strip.points) for strip in picture.strips]
    peaks = [8, 8, 2, 1]
    assert heights == pytest.approx([heights[0] * peak / 8 for peak in peaks])
