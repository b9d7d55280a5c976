"""What an op waits for: each rule by hand, then all of them against the oracle."""

import pytest

import gpipe_edu as ge
from gpipe_edu import Op, Schedule
from tests.oracle import inputs, plain
from tests.recipes import recompute_and_split, small_schedules


def needs(schedule, word):
    """The ops that the op written `word` waits for, written."""
    (op,) = Schedule.parse(word).rows[0]
    return [str(need) for need in schedule.needs(op)]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("F1@0", []),
        ("F1@1", ["F1@0"]),
        ("B1@2", ["F1@2"]),
        ("B1@1", ["F1@1", "B1@2"]),
    ],
)
def test_a_backward_needs_its_forward_and_the_gradient_from_the_next_stage(word, expected):
    assert needs(ge.gpipe(3, 2), word) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [("R1@1", ["F1@1"]), ("B1@1", ["R1@1", "B1@2"]), ("B1@2", ["R1@2"])],
)
def test_an_early_recompute_needs_only_its_own_forward(word, expected):
    assert needs(ge.gpipe(3, 2, "early"), word) == expected


@pytest.mark.parametrize(("word", "expected"), [("C1@1", ["F1@1", "C1@2"]), ("C1@2", ["F1@2"])])
def test_a_late_recompute_waits_for_the_gradient(word, expected):
    assert needs(ge.gpipe(3, 2, "late"), word) == expected


@pytest.mark.parametrize(("word", "expected"), [("I1@1", ["F1@1", "I1@2"]), ("I1@2", ["F1@2"]), ("W1@1", ["I1@1"])])
def test_a_weight_gradient_needs_only_its_input_gradient(word, expected):
    assert needs(ge.zero_bubble(3, 2), word) == expected


def test_an_input_gradient_needs_the_recompute_where_there_is_one():
    assert needs(recompute_and_split(2, 1), "I0@0") == ["R0@0", "I0@1"]


def test_stages_may_finish_in_different_ways():
    mixed = Schedule.parse("F0 B0\nF0 C0\nF0 I0 W0")
    assert mixed.problems() == []
    assert needs(mixed, "B0@0") == ["F0@0", "C0@1"]
    assert needs(mixed, "C0@1") == ["F0@1", "I0@2"]


def test_the_forward_of_a_pair_needs_what_its_backward_waits_for_from_the_stage_behind():
    pairs = [(Op("F", 3, 0), Op("B", 1, 3))]
    schedule = Schedule(ge.dual_pipe_v(2, 4).rows, pairs=pairs)
    assert schedule.pairs < ge.dual_pipe_v(2, 4).pairs
    assert needs(schedule, "F3@0") == []  # B1@3 is of the last stage
    down = next(pair for pair in ge.dual_pipe_v(2, 4).pairs if str(pair[0]) == "F2@3")
    assert str(down[1]) == "B0@0"
    assert needs(ge.dual_pipe_v(2, 4), "F2@3") == ["F2@2", "B0@1"]
    assert needs(ge.dual_pipe_v(2, 4).apart(), "F2@3") == ["F2@2"]
    assert needs(ge.dual_pipe_v(2, 4), "B0@0") == ["F0@0", "B0@1"]


def test_all_needs_of_all_recipes_agree_with_the_oracle():
    for schedule in [*small_schedules(4, 4), recompute_and_split(3, 3)]:
        there = {op for row in plain(schedule) for op in row}
        for op in there:
            found = {tuple(need) for need in schedule.needs(Op(*op))}
            assert found == set(inputs(op, there, schedule.stages)), (schedule.name, op)


def test_needs_that_are_not_there_are_left_out():
    assert needs(Schedule.parse("B0\nB0"), "B0@0") == ["B0@1"]
    assert needs(Schedule.parse("W0"), "W0@0") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [("F0 B0", False), ("F0 R0 B0", True), ("F0 C0", True), ("F0 I0 W0", False), ("F0 R0 I0 W0", True)],
)
def test_a_recompute_or_a_checkpointed_backward_is_rematerialization(text, expected):
    assert Schedule.parse(text).needs.rematerializes(0, 0) is expected
