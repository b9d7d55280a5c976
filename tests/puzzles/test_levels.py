"""Every level can be solved, its par is what it says, and the plain ideas do not pass."""

import dataclasses

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS, find_level, lower_bound, prove
from gpipe_edu.puzzles.states import StateSpace
from gpipe_edu.schedule.recompute import with_kinds, with_recompute
from tests.each import each

from .solutions import SOLUTIONS, divided, folded, in_groups, judge, solved

KEYS = [level.key for level in LEVELS]
WITH_PAR = [level for level in LEVELS if level.par is not None]


def test_there_are_the_twelve_levels_in_their_order():
    assert KEYS == [
        "first-dependency", "pipelining", "memory-wall", "1f1b", "recompute-late", "recompute-early", "backward-twice",
        "uneven-stages", "interleaved", "zero-bubble", "unequal-micro-batches", "sandbox",
    ]  # fmt: skip
    assert list(LEVELS[:-1]) == WITH_PAR


@each("key", KEYS)
def test_the_written_solution_solves_it(key):
    score = solved(key).score
    assert score.solved, score.reasons


@each("level", WITH_PAR)
def test_par_is_the_best_there_is(level):
    proof = prove(level)
    assert proof.proved
    assert proof.makespan == level.par
    best = judge(level.key, proof.schedule)
    assert best.solved
    assert best.makespan == level.par
    assert best.over_par == 0


@each("level", WITH_PAR)
def test_it_says_rightly_how_par_is_known(level):
    assert level.proof == ("bound" if lower_bound(level) == level.par else "search")
    assert level.par <= level.goal
    assert level.par_why


@each("level", LEVELS)
def test_it_can_be_built_by_hand_in_a_few_minutes(level):
    assert len(SOLUTIONS[level.key].split()) <= (64 if level.key == "sandbox" else 36)


@each(
    "key, answer, says",
    [
        ("pipelining", ge.naive(3, 3), "it is done at 18, the goal is 10"),
        ("memory-wall", ge.gpipe(2, 4), "device 0 would hold 3 micro-batches, the cap is 2"),
        ("memory-wall", ge.naive(2, 4), "it is done at 16, the goal is 12"),
        ("1f1b", ge.gpipe(3, 4), "would hold 4 micro-batches, the cap is 3"),
        ("1f1b", in_groups(ge.gpipe(3, 2), 2), "device 2 would hold 2 micro-batches, the cap is 1"),
        ("1f1b", ge.naive(3, 4), "it is done at 24, the goal is 12"),
        ("recompute-late", ge.one_f_one_b(2, 2), "would hold 6 units, the cap is 4; recompute would free some of it"),
        ("recompute-late", ge.naive(2, 2), "it is done at 8, the goal is 7"),
        ("recompute-late", with_kinds(ge.one_f_one_b(2, 2), {"B": "C"}), "it is done at 9, the goal is 7"),
        ("recompute-early", ge.one_f_one_b(3, 3), "would hold 6 units, the cap is 5; recompute would free some of it"),
        ("recompute-early", ge.gpipe(3, 3, recompute="early"), "would hold 5 units, the cap is 4"),
        ("recompute-early", ge.gpipe(3, 3, recompute="late"), "would hold 5 units, the cap is 4"),
        ("recompute-early", with_recompute(ge.one_f_one_b(3, 3), "always"), "it is done at 13, the goal is 12"),
        ("backward-twice", ge.one_f_one_b(3, 2), "it is done at 12, the goal is 10"),
        ("backward-twice", ge.gpipe(3, 2), "it is done at 12, the goal is 10"),
        ("uneven-stages", ge.gpipe(3, 4), "would hold 4 micro-batches, the cap is 3"),
        ("uneven-stages", ge.one_f_one_b(3, 4), "it is done at 28, the goal is 27"),
        ("interleaved", folded(ge.gpipe(4, 4), 2), "would hold 6 micro-batches (counted per stage), the cap is 5"),
        ("interleaved", folded(ge.naive(4, 4), 2), "the goal is 18"),
        ("interleaved", folded(ge.one_f_one_b(4, 4), 2), "the cap is"),
        ("zero-bubble", divided(ge.one_f_one_b(3, 4)), "it is done at 16, the goal is 14"),
        ("zero-bubble", divided(ge.gpipe(3, 4)), "the cap is 3"),
    ],
)
def test_plain_ideas_do_not_pass(key, answer, says):
    score = judge(key, answer)
    assert not score.solved
    assert any(says in reason for reason in score.reasons), score.reasons


@each(
    "key, changes, best",
    [
        ("recompute-late", {"kinds": "FB"}, 8),
        ("recompute-late", {"kinds": "FC"}, 9),
        ("recompute-early", {"kinds": "FBC"}, 13),  # no R: late recompute is not enough
        ("recompute-early", {"kinds": "FB"}, None),  # nor is doing without
        ("recompute-early", {"cap": None}, 10),
        ("backward-twice", {"kinds": "FB"}, 12),
        ("zero-bubble", {"kinds": "FB"}, 18),
    ],
)
def test_what_the_texts_claim_of_other_rules_is_so(key, changes, best):
    level = find_level(key)
    proof = prove(dataclasses.replace(level, **changes))
    assert proof.proved
    if best is None:
        assert proof.makespan > level.goal
    else:
        assert proof.makespan == best
        assert str(best) in level.par_why


def test_of_unequal_micro_batches_the_text_says_what_the_order_of_numbers_and_a_long_first_one_take():
    level = find_level("unequal-micro-batches")
    assert (
        "the order of the numbers takes 21, and whatever begins with a long micro-batch takes at least 19"
        in level.par_why
    )
    assert ge.simulate(ge.one_f_one_b(3, 4), level.costs).makespan == 21
    space = StateSpace(level)
    after = {move.micro_batch: space.after(space.start, move) for move in space.moves(space.start)}
    best = {first: prove(level, start=state).makespan for first, state in after.items()}
    assert best == {0: 18, 1: 19, 2: 18, 3: 19}


def test_figures_in_the_texts_are_those_of_the_schedules_they_name():
    assert ge.simulate(divided(ge.one_f_one_b(3, 4))).makespan == 16
    assert "takes 16, and 1F1B takes 18" in find_level("zero-bubble").par_why
    assert ge.formulas.makespan(2, 4, F=2, B=2) == 20
    assert "= 20" in find_level("interleaved").par_why


def test_what_ops_cost_is_said_stage_by_stage_where_stages_differ():
    assert find_level("uneven-stages").prices() == "F takes 1/2/1 on stages 0 to 2, B takes 2/4/2"
    assert find_level("zero-bubble").prices() == "F takes 1, I takes 1, W takes 1"
    assert (
        dataclasses.replace(find_level("1f1b"), costs=ge.Costs(send=2))
        .prices()
        .endswith(", sending to another device 2")
    )
