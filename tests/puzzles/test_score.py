"""Nothing but a schedule that solves a level is taken for one."""

import pytest
from hypothesis import given

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS, Board, find_level
from gpipe_edu.puzzles.position import Position
from gpipe_edu.puzzles.score import score
from tests.amount import examples
from tests.oracle import expected_code, plain, times
from tests.strategies import RANDOM, slipped

from .brute import duration_of, peak_of
from .solutions import SOLUTIONS, in_groups, judge, solved

pytestmark = pytest.mark.slow


def rows_of(key):
    return [list(row) for row in ge.Schedule.parse(SOLUTIONS[key]).rows]


def test_an_empty_board_and_a_board_without_its_last_op_are_not_solved():
    for level in LEVELS:
        assert not Board(level).score.solved
        board = solved(level.key)
        board.set_mode("free")
        for device in range(level.K):
            board.remove(device)
            assert not board.score.solved
            assert board.score.reasons
            board.undo()


def test_a_whole_micro_batch_left_out_is_missed():
    """The doctor alone would take it for a legal schedule of fewer micro-batches."""
    fewer = ge.one_f_one_b(3, 3)
    assert fewer.problems() == []
    result = judge("1f1b", fewer)
    assert not result.solved
    assert "still to be placed: F3@0 on device 0" in result.reasons[0]
    assert "3 more" in result.reasons[0]


def test_more_micro_batches_or_other_kinds_than_the_level_has_are_refused():
    assert (
        judge("pipelining", ge.gpipe(3, 4)).reasons[0] == "F3@0 on device 0: the micro-batches of this level are 0 to 2"
    )
    assert "this level is played with F forward, B backward" in judge("uneven-stages", ge.zero_bubble(3, 4)).reasons[0]


def test_a_board_of_another_size_is_no_board():
    with pytest.raises(ValueError, match="there are 4 rows of ops; this level has 3 devices"):
        judge("pipelining", ge.gpipe(4, 3))


def test_the_cap_cannot_be_broken_by_the_order_of_the_rows():
    rows = rows_of("1f1b")
    rows[2] = [rows[2][index] for index in (0, 2, 1, 3, 4, 5, 6, 7)]
    result = score(Position(find_level("1f1b"), rows))
    assert result.reasons == ("with F1@2, device 2 would hold 2 micro-batches, the cap is 1",)


def test_stages_cannot_change_places():
    rows = rows_of("pipelining")
    swapped = [rows[1], rows[0], rows[2]]
    assert (
        "all ops of a stage run where its weights are" in score(Position(find_level("pipelining"), swapped)).reasons[0]
    )


def legal(level, rows):
    """By the independent judges: may this be called solved?"""
    plain_rows = [[tuple(op) for op in row] for row in rows]
    ops = [op for row in plain_rows for op in row]
    if expected_code(plain_rows) is not None or {op[1] for op in ops} != set(range(level.M)):
        return False
    if {op[2] for op in ops} != set(range(level.stages)) or not {op[0] for op in ops} <= set(level.kinds):
        return False
    if any(op[2] % level.K != device for device, row in enumerate(plain_rows) for op in row):
        return False
    for device, row in enumerate(plain_rows):
        if level.cap and peak_of(level, row) > level.cap[device]:
            return False
    end = max(end for _, end in times(plain_rows, duration_of(level), level.costs.send).values())
    return level.goal is None or end <= level.goal


@pytest.mark.sweep
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.key)
def test_random_slips_are_judged_as_two_independent_judges_do(level):
    verdicts = set()

    @examples(300)
    @given(RANDOM)
    def agree(rng):
        rows = rows_of(level.key)
        for _ in range(rng.choice((1, 1, 2))):
            rows = slipped(rng, rows)
        rows = [[ge.Op(*op) for op in row] for row in rows]
        result = score(Position(level, rows))
        assert result.solved == legal(level, rows), result
        assert result.solved or result.reasons
        verdicts.add(result.solved)

    agree()
    assert False in verdicts


def test_figures_are_those_of_simulate():
    result = solved("zero-bubble").score
    timeline = ge.simulate(ge.Schedule.parse(SOLUTIONS["zero-bubble"]))
    assert result.makespan == timeline.makespan == 14
    assert result.bubble_fraction == timeline.bubble_fraction
    assert result.peaks == timeline.peak_in_flight
    assert result.over_par == 0
    assert str(result) == "solved with makespan 14, at par: you built ZB-H1 (zero bubble)"


def test_a_solution_above_par_is_solved_and_says_by_how_much():
    result = judge("memory-wall", in_groups(ge.gpipe(2, 2), 2))
    assert (result.solved, result.over_par) == (True, 2)
    assert str(result) == "solved with makespan 12, 2 over par: you built GPipe, 2 micro-batches at a time"


def test_not_solved_says_all_that_is_in_the_way():
    assert str(judge("pipelining", ge.naive(3, 3))) == "not solved: it is done at 18, the goal is 10"
    assert plain(ge.naive(3, 3))  # a legal schedule all the same
