"""Recompute put into a schedule: where, for which micro-batches, and when it is refused."""

import itertools

import pytest

import gpipe_edu as ge
from gpipe_edu import Op
from gpipe_edu.schedule.recompute import with_kinds, with_recompute


def test_gpipe_with_everything_recomputed_is_gpipe_with_early_recompute():
    assert with_recompute(ge.gpipe(3, 4), "always") == ge.gpipe(3, 4, recompute="early")


def test_all_but_the_last_micro_batch_recompute_on_every_stage():
    schedule = with_recompute(ge.zero_bubble(3, 4), "except_last").check()
    recomputed = {op[1:] for row in schedule.rows for op in row if op.kind == "R"}
    assert recomputed == {(m, k) for m in range(3) for k in range(3)}
    for row in schedule.rows:
        for op, after in itertools.pairwise(row):
            if op.kind == "R":
                assert after == ge.Op("I", op.micro_batch, op.stage)


def test_never_leaves_the_schedule_as_it_is():
    schedule = ge.gpipe(2, 2, "late")
    assert with_recompute(schedule, "never") is schedule


def test_a_schedule_that_recomputes_already_and_an_unknown_mode_are_refused():
    with pytest.raises(ValueError, match=r"by R or C ops"):
        with_recompute(ge.gpipe(2, 2, "late"), "always")
    with pytest.raises(ValueError, match=r"checkpoint is 'sometimes'.*always, except_last, never"):
        with_recompute(ge.gpipe(2, 2), "sometimes")


def test_blocks_stay_blocks_and_what_they_recompute_comes_before_them():
    for schedule in (ge.dual_pipe_v(2, 4), ge.dual_pipe_v(3, 8), ge.combined_one_f_one_b(3, 6, 2)):
        again = with_recompute(schedule, "always").check()
        assert again.pairs == schedule.pairs
        assert with_kinds(again, {"R": ""}) == schedule
        late = with_kinds(schedule, {"B": "C"}).check()
        assert {(one, Op("B", *two[1:])) for one, two in late.pairs} == schedule.pairs
        assert not with_kinds(schedule, {"B": "IW"}).check().pairs
