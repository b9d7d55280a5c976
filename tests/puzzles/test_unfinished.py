"""A board that is not finished is there again in the next kernel, and a file that was written in does no harm."""

import json

import pytest

from gpipe_edu.base import store
from gpipe_edu.puzzles import LEVELS, Board, SolvedLevels, find_level
from gpipe_edu.puzzles.levels import sandbox
from gpipe_edu.puzzles.saved import keep, last, load_unfinished
from gpipe_edu.puzzles.session import Session, resume_board
from gpipe_edu.schedule import Op

from .solutions import solved


@pytest.fixture
def file():
    return store.path()


def built(level, text, free=False):
    board = Board(level)
    board.set_mode("free" if free else "guided")
    assert board.type(text).accepted
    return board


def entries(file):
    return json.loads(file.read_text())["puzzle_boards"]


def test_a_board_comes_back_with_its_mode_and_without_a_past(file):
    board = built(find_level("pipelining"), "F0@0 F0@1 F1@0")
    keep(board, file)
    back = load_unfinished(find_level("pipelining"), file)
    assert (back.rows, back.free) == (board.rows, False)
    assert back.undo().code == "history", "one step back would else be an empty board"
    assert back.type("F1@1").accepted
    keep(built(find_level("1f1b"), "B0@0 F3@2", free=True), file)
    assert load_unfinished(find_level("1f1b"), file).free
    assert load_unfinished(find_level("pipelining"), file).rows == board.rows, "levels do not disturb each other"


def test_a_sandbox_comes_back_with_its_sizes(file):
    level = sandbox(K=3, M=5, V=2, B=3, send=0.5, cap=4)
    keep(built(level, "F0@0 F0@1", free=True), file)
    assert load_unfinished(find_level("sandbox"), file).level == level


def test_where_one_left_off_one_begins(file):
    progress = SolvedLevels()
    for level in LEVELS[:3]:
        progress.record(solved(level.key))
    assert resume_board(progress).level.key == "1f1b"
    keep(built(find_level("1f1b"), "F0@0"), file)
    keep(built(find_level("pipelining"), "F0@0"), file)
    assert last(file) == "pipelining"
    assert resume_board(SolvedLevels()).rows[0] == (Op("F", 0, 0),)
    keep(built(find_level("1f1b"), "F0@0"), file)
    assert resume_board(SolvedLevels()).level.key == "1f1b", "the same board again, but played later"


def test_what_is_solved_or_empty_is_not_kept(file):
    empty = Board(find_level("pipelining"))
    assert keep(empty, file) == ""
    assert not file.exists(), "looking at a puzzle writes nothing"
    keep(built(find_level("pipelining"), "F0@0"), file)
    keep(empty, file)
    assert entries(file) == {}
    keep(built(find_level("pipelining"), "F0@0"), file)
    keep(solved("pipelining"), file)
    assert entries(file) == {}


def test_nothing_is_written_where_nothing_has_changed(file):
    board = built(find_level("pipelining"), "F0@0")
    keep(board, file)
    before = file.stat().st_mtime_ns, file.stat().st_ino
    keep(board, file)
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == before


def test_a_board_is_back_whatever_has_been_solved_before_it(file):
    keep(built(find_level("1f1b"), "F0@0"), file)
    assert resume_board(SolvedLevels()).level.key == "1f1b"


@pytest.mark.parametrize(
    "entry", [None, 3, {}, {"share": 5, "free": True}, {"share": "gpipe1:cut", "free": 1}, {"free": False}]
)
def test_what_somebody_wrote_in_the_file_is_an_empty_board(file, entry):
    with store.change("puzzle_boards", file) as kept:
        kept["pipelining"] = entry
        kept["no such level"] = entry
    assert not any(load_unfinished(find_level("pipelining"), file).rows)
    assert resume_board(SolvedLevels()).level.key == "first-dependency"


def test_a_board_of_another_level_does_not_count(file):
    keep(built(find_level("1f1b"), "F0@0"), file)
    with store.change("puzzle_boards", file) as kept:
        kept["pipelining"] = kept["1f1b"]
    assert not any(load_unfinished(find_level("pipelining"), file).rows)


def test_a_board_that_is_wrong_is_edited_freely_or_no_move_would_be_allowed(file):
    keep(built(find_level("pipelining"), "B0@0", free=True), file)
    with store.change("puzzle_boards", file) as kept:
        kept["pipelining"]["free"] = False
    assert load_unfinished(find_level("pipelining"), file).free


def test_ops_of_no_level_leave_the_board_before(file):
    board = built(find_level("pipelining"), "F0@0", free=True)
    keep(board, file)
    assert board.type("W0@0").accepted
    assert keep(board, file) == ""
    assert load_unfinished(find_level("pipelining"), file).rows[0] == (Op("F", 0, 0),)


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    session = Session(progress=SolvedLevels(blocked / "progress.json"))
    session.do("place", device=0, op="F0@0")
    session.keep()
    assert "the board could not be kept in" in session.state()["notice"]
