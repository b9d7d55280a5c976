"""From a name and a checkpoint mode to the schedule that runs."""

import itertools

import pytest

import gpipe_edu as ge
from gpipe_edu.pytorch.cut_net import choose_schedule

RECIPES = {"naive": ge.naive, "gpipe": ge.gpipe, "1f1b": ge.one_f_one_b, "zero_bubble": ge.zero_bubble}


@pytest.mark.parametrize("name", RECIPES)
def test_modes_say_what_is_recomputed(name):
    for K in range(1, 5):
        for M in range(1, 6):
            for mode, count in (("always", M), ("except_last", M - 1), ("never", 0), (None, M - 1)):
                schedule = choose_schedule(name, K, M, mode).check()
                again = {op[1:] for row in schedule.rows for op in row if op.kind == "R"}
                assert again == {(m, k) for m in range(count) for k in range(K)}
                without = tuple(tuple(op for op in row if op.kind != "R") for row in schedule.rows)
                assert without == tuple(tuple(row) for row in RECIPES[name](K, M).rows)


def test_a_recompute_stands_right_before_its_backward():
    for row in choose_schedule("zero_bubble", 3, 4, "always").rows:
        for op, after in itertools.pairwise(row):
            if op.kind == "R":
                assert after == ge.Op("I", *op[1:])


def test_a_schedule_runs_as_it_is():
    for schedule in (ge.gpipe(2, 3), ge.gpipe(2, 3, recompute="late"), ge.interleaved(2, 3, 2)):
        assert choose_schedule(schedule, schedule.stages, 3, None) == schedule


@pytest.mark.parametrize(("name", "mode"), [("GPipe", None), ("", None), (3, None), ("gpipe", "none"), ("gpipe", 1)])
def test_unknown_names(name, mode):
    with pytest.raises(ValueError, match="must be one of"):
        choose_schedule(name, 2, 2, mode)
