"""A level says what it is about, and refuses to be what cannot be played."""

import pytest

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS, Level, find_level, sandbox
from tests.each import each


def level(**changes):
    return Level(**{"key": "x", "title": "x", "lesson": "x", "K": 2, "M": 3, **changes})


@each(
    "changes, error, says",
    [
        ({"K": 0}, ValueError, "K is 0"),
        ({"M": 1.5}, TypeError, "M is 1.5"),
        ({"kinds": "FW"}, ValueError, "no micro-batch can be finished"),
        ({"cap": (1,)}, ValueError, "one number for each of the 2 devices"),
        ({"cap": (2, 0.5)}, ValueError, r"cap\[1\] is 0.5; device 1 could not hold a single micro-batch"),
        ({"cap": (2, 2), "boundary": 1, "interior": 2}, ValueError, "could not hold"),
        ({"costs": ge.Costs(F=0, B=1)}, ValueError, "every op takes time"),
        ({"costs": ge.Costs(F=(1, 2, 3), B=1)}, ValueError, "3 values, but there are 2 stages"),
        ({"costs": ge.Costs(micro_batches=[1, 2])}, ValueError, "has 2 numbers, but there are 3 micro-batches; give 3"),
        ({"costs": ge.Costs(micro_batches=[1, 0, 1])}, ValueError, "in a puzzle every op takes time"),
        ({"costs": ge.Costs(micro_batches=[1, 2, 1]), "cap": (2, 1)}, ValueError, "device 1 could not hold"),
        ({"mode": "wild"}, ValueError, "mode is 'wild'"),
    ],
)
def test_what_is_no_puzzle_is_refused(changes, error, says):
    with pytest.raises(error, match=says):
        level(**changes)


def test_the_task_names_sizes_ops_costs_cap_and_goal():
    task = level(costs=ge.Costs(F=1, B=(2, 4), send=0.5), cap=(2, 1), goal=30).task()
    for part in (
        "2 devices",
        "3 micro-batches",
        "F forward, B backward",
        "B takes 2/4",
        "sending to another device 0.5",
    ):
        assert part in task
    assert "Devices 0 to 1 may hold at most 2, 1 micro-batches." in task
    assert task.endswith("Be done by time 30.")
    assert "a stage input is 1, what its layers keep for backward 2 more" in find_level("recompute-early").task()


def test_what_a_device_holds_agrees_with_its_noun():
    assert [level().amount(held) for held in (1, 2)] == ["1 micro-batch", "2 micro-batches"]
    assert level(V=3).amount(1) == "1 micro-batch (counted per stage)"
    assert find_level("recompute-early").amount(1) == "1 unit"


def test_stages_go_round_the_devices():
    assert [level(V=3).home(stage) for stage in range(6)] == [0, 1, 0, 1, 0, 1]


def test_its_ops_are_all_kinds_of_all_micro_batches_on_all_stages():
    ops = list(level(kinds="FIW", V=2).ops())
    assert len(ops) == len(set(ops)) == 3 * 3 * 4


def test_the_task_says_which_micro_batches_take_longer_and_hold_more():
    costs = ge.Costs(F=1, B=2, micro_batches=[1, 2.5, 1])
    assert "F takes 1, B takes 2, each times 1/2.5/1 for micro-batches 0 to 2." in level(costs=costs).task()
    held = "at most 5, 4 units of activations; micro-batches 0 to 2 take 1/2.5/1 of them."
    assert held in level(costs=costs, cap=(5, 4)).task()
    by_stage = level(costs=ge.Costs(F=1, B=2, micro_batches=[[1, 3, 1], [1, 1, 1]]), cap=(5, 4)).task()
    assert "each times 1/3/1 for micro-batches 0 to 2 on stage 0" in by_stage
    assert "at most 5, 4 micro-batches." in by_stage


def test_levels_are_found_by_key_or_number():
    assert [find_level(str(number)) for number in range(1, 13)] == list(LEVELS)
    assert find_level(" Memory_Wall ").key == "memory-wall"
    for wrong in ("", "0", "13", "gpipe"):
        with pytest.raises(ValueError, match="it must be one of 1 first-dependency, 2 pipelining"):
            find_level(wrong)


def test_a_sandbox_has_the_sizes_one_likes():
    mine = sandbox(K=2, M=3, V=2, B=3, send=1, cap=4)
    assert (mine.K, mine.M, mine.stages, mine.cap) == (2, 3, 4, (4, 4))
    assert (mine.costs.B, mine.costs.send, mine.par, mine.goal) == (3, 1, None, None)
    for sizes, says in (
        ({"K": 17}, "at most 16"),
        ({"M": 0}, "at least 1"),
        ({"B": 0}, "takes time"),
        ({"cap": 0}, "hold"),
    ):
        with pytest.raises(ValueError, match=says):
            sandbox(**sizes)
