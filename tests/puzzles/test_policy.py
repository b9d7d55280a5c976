"""Policies are the recipes, said move by move."""

import pytest

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS, Level
from gpipe_edu.puzzles.policy import POLICIES, follow
from gpipe_edu.puzzles.states import StateSpace


def built(policy, level):
    model = StateSpace(level)
    moves = follow(POLICIES[policy], model, model.start)
    return ge.Schedule([[move.op for move in moves if move.action.device == device] for device in range(level.K)])


@pytest.mark.parametrize(
    ("policy", "kinds", "recipe"),
    [("gpipe", "FB", ge.gpipe), ("1f1b", "FB", ge.one_f_one_b), ("zero_bubble", "FIW", ge.zero_bubble)],
)
def test_from_an_empty_board_a_policy_builds_the_schedule_it_is_named_after(policy, kinds, recipe):
    for K in range(1, 6):
        for M in range(1, 8):
            level = Level("x", "x", "x", K, M, kinds=kinds, costs=ge.Costs(F=1, B=2))
            assert built(policy, level) == recipe(K, M), (K, M)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.key)
def test_a_policy_has_a_reason_for_every_kind_it_uses(level):
    policy = POLICIES[level.policy]
    assert set(policy.kinds) <= set(policy.why)
    assert any(set(way) <= set(policy.kinds) & set(level.kinds) for way in level.ways)


def test_a_policy_that_has_no_move_says_so():
    level = Level("x", "x", "x", 2, 2, kinds="FC")
    model = StateSpace(level)
    assert follow(POLICIES["zero_bubble"], model, model.start) is None
