"""What was solved stays solved, in one file, and nothing in that file is taken on trust."""

import json
import os
import stat

import pytest

from gpipe_edu.base import store
from gpipe_edu.puzzles import LEVELS, Board, SolvedLevels, find_level, share

from .solutions import SOLUTIONS, in_groups, solved


def test_the_next_level_is_the_first_that_is_not_solved_also_after_a_restart():
    for level in LEVELS:
        progress = SolvedLevels()  # as after a restart
        assert progress.next_level() == level.key
        assert progress.record(solved(level.key)).solved
    progress = SolvedLevels()
    assert set(progress.records) == {level.key for level in LEVELS}
    assert progress.next_level() == "sandbox"
    assert progress.notice == ""


def test_a_level_counts_whatever_has_been_solved_before_it():
    SolvedLevels().record(solved("1f1b"))
    progress = SolvedLevels()
    assert set(progress.records) == {"1f1b"}
    assert progress.next_level() == "first-dependency"


def test_a_file_from_when_levels_could_be_locked_is_read(progress_file):
    entry = {"makespan": 6, "share": share(LEVELS[0], solved("first-dependency").rows), "hints": 2}
    old = {"puzzle": {"first-dependency": entry}, "puzzle_open": {"all": True}}
    progress_file.write_text(json.dumps(old))
    progress = SolvedLevels()
    assert progress.notice == ""
    assert progress.records["first-dependency"].hints == 2
    progress.record(solved("zero-bubble"))
    assert set(SolvedLevels().records) == {"first-dependency", "zero-bubble"}


def test_only_what_is_solved_counts():
    progress = SolvedLevels()
    board = Board(find_level("first-dependency"))
    board.type("F0@0 F0@1")
    assert not progress.record(board).solved
    assert not progress.path.exists()


def test_the_best_solution_is_kept():
    import gpipe_edu as ge

    for key in ("first-dependency", "pipelining"):
        SolvedLevels().record(solved(key))
    board = Board(find_level("memory-wall"))
    for schedule, best in (
        (in_groups(ge.gpipe(2, 2), 2), 12),
        (ge.one_f_one_b(2, 4), 10),
        (in_groups(ge.gpipe(2, 2), 2), 10),
    ):
        board.load(schedule.rows)
        SolvedLevels().record(board)
        record = SolvedLevels().records["memory-wall"]
        assert (record.makespan, record.over_par) == (best, best - 10)


def test_two_open_notebooks_do_not_undo_each_other():
    one, other = SolvedLevels(), SolvedLevels()
    one.record(solved("first-dependency"))
    other.record(solved("first-dependency"))
    other.record(solved("pipelining"))
    one.record(solved("memory-wall"))
    assert set(SolvedLevels().records) == {"first-dependency", "pipelining", "memory-wall"}


def test_the_file_can_be_found_read_and_deleted(progress_file):
    progress = SolvedLevels()
    progress.record(solved("first-dependency"))
    assert progress.path == progress_file
    assert str(progress_file) in progress.where
    data = json.loads(progress_file.read_text())
    assert data["puzzle"]["first-dependency"]["share"] == share(LEVELS[0], solved("first-dependency").rows)
    progress_file.unlink()
    assert SolvedLevels().records == {}


def test_what_else_the_file_holds_stays(progress_file):
    with store.change("predictions") as kept:
        kept["03/one"] = "B"
    SolvedLevels().record(solved("first-dependency"))
    assert store.read("predictions") == {"03/one": "B"}


def test_a_file_of_ones_own(tmp_path, progress_file):
    SolvedLevels(tmp_path / "class.json").record(solved("first-dependency"))
    assert set(SolvedLevels(tmp_path / "class.json").records) == {"first-dependency"}
    assert not progress_file.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"puzzle": {', b"[]", b'{"puzzle": 3}', b"\xff\xfe"],
)
def test_a_broken_file_is_set_aside_and_named(progress_file, content):
    for number in (1, 2):
        progress_file.write_bytes(content)
        progress = SolvedLevels()
        aside = progress_file.with_name(f"progress.broken-{number}.json")
        assert aside.name in progress.notice
        assert aside.read_bytes() == content
        assert progress.records == {}
        progress.record(solved("first-dependency"))
        assert set(SolvedLevels().records) == {"first-dependency"}


def test_entries_that_solve_nothing_do_not_count_and_are_not_lost(progress_file):
    other = share(find_level("pipelining"), solved("pipelining").rows)
    unsolved = share(find_level("pipelining"), Board(find_level("pipelining")).rows)
    half = Board(find_level("first-dependency"))
    half.type("F0@0 F0@1")
    mine = share(half.level, half.rows)
    entries = ({"makespan": 6, "share": other}, {"makespan": 6, "share": mine}, {"makespan": 1}, {"share": "gpipe1:x"})
    for entry in (*entries, {"share": 5}, 7, None):
        progress_file.write_text(json.dumps({"puzzle": {"first-dependency": entry}}))
        progress = SolvedLevels()
        assert progress.records == {}, entry
        assert "the entry of 'first-dependency' does not count" in progress.notice
    progress_file.write_text(json.dumps({"puzzle": {"pipelining": {"share": unsolved}, "later": {"x": 1}}}))
    progress = SolvedLevels()
    progress.record(solved("first-dependency"))
    assert set(json.loads(progress_file.read_text())["puzzle"]) == {"pipelining", "later", "first-dependency"}
    assert set(progress.records) == {"first-dependency"}


def test_a_figure_that_was_edited_is_worked_out_again(progress_file):
    progress = SolvedLevels()
    progress.record(solved("first-dependency"))
    data = json.loads(progress_file.read_text())
    data["puzzle"]["first-dependency"]["makespan"] = 0
    progress_file.write_text(json.dumps(data))
    assert SolvedLevels().records["first-dependency"].makespan == 6


def test_a_failing_disk_leaves_the_old_file_and_says_so(progress_file, monkeypatch):
    SolvedLevels().record(solved("first-dependency"))
    before = progress_file.read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        progress = SolvedLevels()
        assert progress.record(solved("pipelining")).solved
        assert progress.notice == f"progress could not be saved in {progress_file}: No space left on device"
    assert progress_file.read_bytes() == before
    assert not list(progress_file.parent.glob("*.tmp"))


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    progress = SolvedLevels(tmp_path / "file" / "puzzle.json")
    progress.record(solved("first-dependency"))
    assert "progress could not be saved" in progress.notice


def test_the_file_is_for_its_owner(progress_file):
    SolvedLevels().record(solved("first-dependency"))
    assert stat.S_IMODE(progress_file.stat().st_mode) & 0o077 == 0
    assert len(SOLUTIONS) == len(LEVELS)
