"""What saves work decides nothing that its player should: checked against recipes and the doctor."""

import pytest

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS, Board, SolvedLevels, find_level, sandbox
from gpipe_edu.puzzles.hints import hint
from gpipe_edu.puzzles.levels import Level
from gpipe_edu.puzzles.session import Session
from tests.each import each

from .solutions import SOLUTIONS, solved

WITH_PAR = [level for level in LEVELS if level.par is not None]


def first_only(schedule):
    """The rows of micro-batch 0."""
    return [[op for op in row if op.micro_batch == 0] for row in schedule.rows]


@each("K", [1, 2, 3, 5])
@each("M", [1, 2, 4, 7])
@each("B", [1, 2])
def test_the_pattern_of_1f1bs_first_micro_batch_stamped_for_all_is_1f1b(K, M, B):
    if (K - 1) * (1 + B) % (1 + B) == 0 and M >= K:
        board = Board(Level("x", "x", "x", K, M, costs=ge.Costs(F=1, B=B)))
        board.load(first_only(ge.one_f_one_b(K, M)))
        verdict = board.stamp()
        assert verdict.accepted
        assert board.position.complete
        assert board.timeline.makespan == ge.simulate(ge.one_f_one_b(K, M), ge.Costs(F=1, B=B)).makespan


def test_no_shorter_interval_fits():
    level = find_level("1f1b")
    board = Board(level)
    board.load(first_only(ge.one_f_one_b(3, 4)))
    assert board.stamp().message == "the pattern of micro-batch 0, again every 2", "F and B fill 2 on every device"
    assert board.position.schedule == ge.one_f_one_b(3, 4)


def test_which_of_unequal_micro_batches_goes_first_is_for_the_player():
    board = Board(find_level("unequal-micro-batches"))
    verdict = board.run_on()
    assert not verdict.accepted
    assert verdict.message == "you decide: device 0 has a choice: F0@0 or F1@0"
    assert hint(board, 2).text == (
        "Device 0, at time 0: a forward; a search finds a way from here that ends at 18; 1F1B in the order of the "
        "numbers has none."
    )


def test_nothing_is_finished_where_all_is_solved():
    board = solved("unequal-micro-batches")
    assert board.score.names == ("1F1B",)
    verdict = board.finish()
    assert (verdict.accepted, board.hints) == (False, 0)
    assert verdict.message == "the level is solved, so nothing is left to place"


def test_a_stamp_says_that_one_pattern_does_not_fit_unequal_micro_batches():
    board = Board(find_level("unequal-micro-batches"))
    assert board.type("F0 B0\nF0 B0\nF0 B0").accepted
    verdict = board.stamp()
    assert not verdict.accepted
    assert verdict.message == "micro-batches are not alike here, so no pattern fits them all; place them one by one"


def test_a_stamp_wants_the_whole_way_of_micro_batch_0():
    board = Board(find_level("pipelining"))
    board.type("F0@0 F0@1")
    verdict = board.stamp()
    assert not verdict.accepted
    assert verdict.message.startswith("first build the whole way of micro-batch 0")
    assert "B0@0" in verdict.message
    assert len(board.rows[0]) == 1


@each("level", WITH_PAR)
def test_an_empty_board_is_finished_as_the_hints_would_and_each_op_is_one(level):
    board = Board(level)
    assert board.finish().accepted
    assert board.score.solved
    assert board.hints == sum(map(len, board.rows))
    board.undo()
    assert not any(board.rows), "one change"


def test_a_sandbox_is_finished_too_and_a_wrong_board_is_not():
    board = Board(sandbox(3, 4))
    assert board.finish().accepted
    assert board.position.complete
    board = Board(find_level("pipelining"))
    board.free = True
    board.type("B0@0")
    assert "first put right" in board.finish().message
    assert "first put right" in board.run_on().message
    assert board.hints == 0


@each("level", LEVELS)
def test_forced_moves_leave_every_choice_to_the_player(level):
    board = Board(level)
    for _ in range(40):
        before = board.position
        verdict = board.run_on()
        if not verdict.accepted:
            break
        assert board.position.sound
        added = sum(map(len, board.rows)) - sum(map(len, before.rows))
        assert verdict.message.startswith(f"{added} op")
        board.undo()
        assert board.rows == before.rows, "one change"
        board.redo()
    sizes = level.costs.micro_batches or (1,) * level.M
    choices = [{(op.kind, op.stage, sizes[op.micro_batch]) for op in ops} for ops in board.ready]
    assert board.position.complete or any(len(kinds) > 1 for kinds in choices) or not any(choices)


def test_forced_moves_stop_before_a_device_waits_in_the_middle_of_its_work():
    board = Board(find_level("1f1b"))
    assert "device 1 would wait from 3 to 4 for B0@1" in board.run_on().message
    assert board.rows[1][-1].kind == "F"
    assert board.run_on().accepted, "who has seen it goes on"


def test_several_moves_are_taken_back_at_once_and_no_more_than_there_are():
    board = Board(find_level("pipelining"))
    for text in ("F0@0", "F1@0", "F2@0"):
        board.type(text)
    assert board.back(2).message == "2 moves taken back"
    assert [str(op) for op in board.rows[0]] == ["F0@0"]
    assert board.back(5).message == "1 move taken back, there are no more"
    assert not board.back(1).accepted
    with pytest.raises(ValueError, match="moves to take back is 0"):
        board.back(0)


def test_hints_leave_a_mark_on_the_score_until_they_are_no_longer_needed():
    session = Session("1")
    session.do("hint", size=1)
    session.do("place", device=0, op="F0@0")
    session.keep()
    again = Session("1")
    assert again.board.hints == 1, "a restart forgets no hint"
    state = again.do("type", text=SOLUTIONS["first-dependency"])["state"]
    assert state["verdict"].startswith("solved with makespan 6, at par, with 1 hint: you built")
    assert state["levels"][0]["hinted"] == 1
    assert SolvedLevels().records["first-dependency"].hints == 1
    again.do("clear")
    state = again.do("type", text=SOLUTIONS["first-dependency"])["state"]
    assert "hint" not in state["verdict"]
    assert SolvedLevels().records["first-dependency"].hints == 0, "solved without is better"


def test_where_there_is_no_way_on_the_hint_says_how_many_moves_to_take_back():
    SolvedLevels().record(solved("first-dependency"))
    session = Session("2")
    session.do("type", text="F0@0 F0@1 F0@2 B0@2 B0@1 B0@0")
    found = session.do("hint", size=1)["hint"]
    assert found["back"] >= 1
    answer = session.do("back", moves=found["back"])
    assert answer["accepted"]
    assert session.do("hint", size=1)["hint"]["back"] == 0
