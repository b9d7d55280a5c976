"""Diagrams: what a drawing claims is read exactly, right ones pass, and every kind of wrong one is named."""

import itertools

import pytest

import gpipe_edu as ge
from gpipe_edu.timeline.diagram import contradictions, read_diagram
from tests.each import each

RIGHT = """
    F0 F1 .  .  B1 B0   # device 0

    .  F0 F1 B1 B0 .
"""


def draw(timeline):
    """The other way round: a timeline in whole slots as a diagram."""
    lines = []
    for device in range(timeline.devices):
        words = ["."] * int(timeline.end)
        for span in timeline.row(device):
            words[int(span.start) : int(span.end)] = [str(span.op), *"-" * int(span.end - span.start - 1)]
        lines.append(" ".join(words))
    return "\n".join(lines)


def test_a_drawing_becomes_the_times_it_claims():
    drawn = read_diagram(RIGHT, name="mine")
    assert (drawn.name, drawn.devices, drawn.makespan, drawn.source) == ("mine", 2, 6, "drawn")
    assert drawn.row(1)[-1] == ge.Span(1, ge.Op("B", 0, 1), 4, 5)
    assert contradictions(drawn) == []


@each("K", [1, 2, 3])
@each("M", [1, 2, 4])
@each("recipe", [ge.naive, ge.gpipe, ge.one_f_one_b, ge.zero_bubble])
def test_every_plan_can_be_drawn_read_back_and_has_no_contradiction(recipe, K, M):
    plan = ge.simulate(recipe(K, M))
    again = read_diagram(draw(plan))
    assert again.spans == plan.spans
    assert contradictions(again) == []


def test_any_box_of_a_plan_drawn_earlier_is_found_and_the_last_one_drawn_later_is_not():
    plan = ge.simulate(ge.one_f_one_b(3, 4))  # a plan starts every op as early as can be, so no box may move left
    for at, span in enumerate(plan.spans):
        if span.start > 0:
            spans = list(plan.spans)
            spans[at] = span._replace(start=span.start - 0.5, end=span.end - 0.5)
            found = contradictions(ge.Timeline(spans, 3))
            assert found[0].startswith(f"{span.op} starts at {span.start - 0.5:g}, ")
    last = plan.spans[-1]
    later = [*plan.spans[:-1], last._replace(start=last.start + 1, end=last.end + 1)]
    assert contradictions(ge.Timeline(later, 3)) == []


def test_what_is_wrong_is_said_in_a_sentence():
    early = read_diagram("F0 . . B0 \n F0 . B0 .")
    assert contradictions(early) == [
        "F0@1 starts at 0, but F0@0 ends at 1: a forward needs the output of the stage in front"
    ]
    upside_down = read_diagram("F0 . B0 . \n . F0 . B0")
    assert contradictions(upside_down) == [
        "B0@0 starts at 2, but B0@1 ends at 4: a backward needs the gradient from the next stage"
    ]
    missing = read_diagram("F0 . . B0 \n . F0 . .")
    assert "B0@1 is missing" in contradictions(missing)[0]


def test_two_ops_at_once_on_a_device_are_found():
    spans = [ge.Span(0, ge.Op("F", 0, 0), 0, 2), ge.Span(0, ge.Op("F", 1, 0), 1, 2)]
    spans += [ge.Span(0, ge.Op("B", m, 0), 2 + m, 3 + m) for m in range(2)]
    assert contradictions(ge.Timeline(spans, 1)) == [
        "F1@0 starts at 1, but F0@0 ends at 2: a device runs one op at a time"
    ]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("", ValueError, "no ops"),
        (". .", ValueError, "no ops"),
        ("F0 - . -", ValueError, "device 0, slot 3"),
        ("F0 B0 \n - F0", ValueError, "device 1, slot 0"),
        ("F0 \n F0 b0", ge.ScheduleError, "line 2"),
        ("| F0 | B0 |", ge.ScheduleError, 'cannot read "|".*"." is an idle slot'),
        (["F0"], TypeError, "a line per device"),
    ],
)
def test_a_slip_of_the_pen_gets_a_clear_error(text, error, words):
    with pytest.raises(error, match=words.replace("|", "[|]")):
        read_diagram(text)


def test_a_device_without_ops_is_kept_and_named():
    assert contradictions(read_diagram("F0 B0 \n . .")) == [
        "device 1 has no ops; give it a stage, or leave its row out"
    ]


def test_all_orders_of_a_tiny_board_are_judged_as_the_doctor_judges_them():
    ops = ["F0", "F1", "B0", "B1"]
    for rows in itertools.product(itertools.permutations(ops), repeat=2):
        text = "\n".join(" ".join(row) for row in rows)
        broken = bool(ge.Schedule.parse(text).problems())
        # Four slots each, side by side: even where the order can run, the times cannot.
        found = contradictions(read_diagram(text))
        assert found
        assert broken == (" starts at " not in found[0])
