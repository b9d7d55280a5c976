"""Whoever follows the hints gets there, from the empty board and after detours."""

import pytest
from hypothesis import given

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS, Board, find_level, hint
from tests.amount import examples
from tests.strategies import RANDOM

from .solutions import solved


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.key)
def test_following_every_hint_solves_the_level(level):
    board = Board(level)
    for _ in range(len(list(level.ops()))):
        if board.score.solved:
            break
        found = hint(board)
        assert board.place(found.device, found.op).accepted, found
    assert board.score.solved
    assert hint(board).text == "Solved: there is nothing left to do."


@pytest.mark.parametrize("level", LEVELS[:-1], ids=lambda level: level.key)
@examples(3)
@given(rng=RANDOM)
def test_after_a_detour_hints_lead_on_or_back_and_then_to_the_goal(level, rng):
    board = Board(level)
    for _ in range(8):
        choices = [(device, op) for device, ops in enumerate(board.ready) for op in ops]
        if choices:
            board.place(*rng.choice(choices))
    moves = 0
    while not board.score.solved:
        found = hint(board)
        if found.op is None:
            assert "Take back" in found.text or "Start again" in found.text
            back = int(found.text.split("Take back ")[1].split()[0])
            for _ in range(back):
                assert board.undo().accepted
            assert hint(board).op is not None
        else:
            assert board.place(found.device, found.op).accepted
        moves += 1
        assert moves < 100


def test_hints_come_in_three_sizes():
    board = Board(find_level("1f1b"))
    small, middle, large = (hint(board, size) for size in (1, 2, 3))
    assert small.text == "Look at device 0: it can start something at time 0."
    assert (small.device, small.op) == (0, None)
    assert "Device 0, at time 0: a forward" in middle.text
    assert "F0" not in middle.text
    assert middle.op is None
    assert large.text.startswith("Place F0@0 on device 0")
    assert large.op == ge.Op("F", 0, 0)
    assert "1F1B" in large.text
    with pytest.raises(ValueError, match="hint size is 4; it must be one of 1, 2, 3"):
        hint(board, 4)


def test_a_hint_for_a_broken_board_names_what_to_put_right():
    board = Board(find_level("pipelining"))
    board.set_mode("free")
    board.type("1: F0")
    assert hint(board).text.startswith("First put this right: F0@1 on device 1 waits for F0@0")


def test_a_finished_board_above_the_goal_is_led_back():
    board = Board(find_level("pipelining"))
    for op in (op for m in range(3) for op in [*((f"F{m}@{k}") for k in range(3)), *(f"B{m}@{k}" for k in (2, 1, 0))]):
        assert board.type(op).accepted
    found = hint(board)
    assert found.op is None
    assert found.text.startswith("From here I find no way to the goal. Take back ")


def test_a_board_that_cannot_be_undone_far_enough_is_to_be_begun_again():
    board = solved("pipelining")
    fresh = Board(board.level)
    fresh.load(ge.naive(3, 3).rows)
    fresh._past.clear()
    assert "Start again" in hint(fresh).text


def test_a_dead_end_is_seen_at_once():
    """Device 1 is full of first visits, and what could finish one has no room: the third one came too early."""
    board = Board(find_level("interleaved"))
    assert board.type("F0@0 F1@0 F2@0 F0@1 F1@1 F2@1").accepted
    assert all(op.stage != 3 for op in board.ready[1])
    assert "Take back 4 moves" in hint(board).text
    for _ in range(4):
        board.undo()
    assert hint(board).op is not None
