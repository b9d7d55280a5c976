"""What was solved stays solved, in one file, and nothing in that file is taken on trust."""

import json
import os
import stat

import pytest

from gpipe_edu.puzzle import LEVELS, Board, Progress, find_level, share
from gpipe_edu.puzzle.progress import default_path

from .solutions import SOLUTIONS, in_groups, solved


def test_levels_unlock_one_after_another_and_stay_so_after_a_restart():
    for index, level in enumerate(LEVELS):
        progress = Progress()  # as after a restart
        assert [progress.unlocked(known.key) for known in LEVELS] == [number <= index for number in range(len(LEVELS))]
        assert progress.next_level() == level.key
        assert progress.refusal(level.key) == ""
        assert progress.record(solved(level.key)).solved
    progress = Progress()
    assert set(progress.records) == {level.key for level in LEVELS}
    assert progress.next_level() == "sandbox"
    assert progress.notice == ""


def test_a_locked_level_is_refused_with_what_to_solve_first_and_not_noted():
    progress = Progress()
    assert progress.refusal("1f1b") == (
        "level 4, One forward, one backward, is locked: first solve level 3, The memory wall"
    )
    assert progress.record(solved("1f1b")).solved
    assert progress.records == {}
    assert not progress.path.exists()


def test_only_what_is_solved_counts():
    progress = Progress()
    board = Board(find_level("first-dependency"))
    board.type("F0@0 F0@1")
    assert not progress.record(board).solved
    assert not progress.path.exists()


def test_the_best_solution_is_kept():
    import gpipe_edu as ge

    for key in ("first-dependency", "pipelining"):
        Progress().record(solved(key))
    board = Board(find_level("memory-wall"))
    for schedule, best in (
        (in_groups(ge.gpipe(2, 2), 2), 12),
        (ge.one_f_one_b(2, 4), 10),
        (in_groups(ge.gpipe(2, 2), 2), 10),
    ):
        board.load(schedule.rows)
        Progress().record(board)
        record = Progress().records["memory-wall"]
        assert (record.makespan, record.over_par) == (best, best - 10)


def test_two_open_notebooks_do_not_undo_each_other():
    one, other = Progress(), Progress()
    one.record(solved("first-dependency"))
    other.record(solved("first-dependency"))
    other.record(solved("pipelining"))
    one.record(solved("memory-wall"))
    assert set(Progress().records) == {"first-dependency", "pipelining", "memory-wall"}


def test_the_file_can_be_found_read_and_deleted(progress_file):
    progress = Progress()
    progress.record(solved("first-dependency"))
    assert progress.path == progress_file
    assert progress.where == f"Progress is kept in {progress_file}; delete that file to start again."
    data = json.loads(progress_file.read_text())
    assert data["format"] == 1
    assert data["solved"]["first-dependency"]["share"] == share(LEVELS[0], solved("first-dependency").rows)
    assert [path.name for path in progress_file.parent.iterdir()] == ["puzzle.json"]
    progress_file.unlink()
    assert Progress().records == {}


def test_without_a_variable_it_is_in_the_data_folder_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("GPIPE_EDU_PROGRESS")
    for platform, variable, tail in (
        ("linux", "XDG_DATA_HOME", ("gpipe_edu", "puzzle.json")),
        ("win32", "APPDATA", ("gpipe_edu", "puzzle.json")),
    ):
        monkeypatch.setattr("sys.platform", platform)
        monkeypatch.setenv(variable, str(tmp_path / platform))
        assert default_path() == tmp_path.joinpath(platform, *tail)
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / "Library" / "Application Support" / "gpipe_edu" / "puzzle.json"
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert default_path() == tmp_path / ".local" / "share" / "gpipe_edu" / "puzzle.json"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"format": 1', b"[]", b'{"format": 2, "solved": {}}', b"\xff\xfe", b'{"format": 1, "solved": 3}'],
)
def test_a_broken_file_is_set_aside_and_named(progress_file, content):
    for number in (1, 2):
        progress_file.write_bytes(content)
        progress = Progress()
        aside = progress_file.with_name(f"puzzle.broken-{number}.json")
        assert str(aside) in progress.notice
        assert aside.read_bytes() == content
        assert progress.records == {}
        progress.record(solved("first-dependency"))
        assert set(Progress().records) == {"first-dependency"}


def test_entries_that_solve_nothing_do_not_count_and_are_not_lost(progress_file):
    other = share(find_level("pipelining"), solved("pipelining").rows)
    unsolved = share(find_level("pipelining"), Board(find_level("pipelining")).rows)
    for entry in ({"makespan": 6, "share": other}, {"makespan": 1}, {"share": "gpipe1:x"}, {"share": 5}, 7, None):
        progress_file.write_text(json.dumps({"format": 1, "solved": {"first-dependency": entry}}))
        progress = Progress()
        assert progress.records == {}, entry
        assert "the entry of 'first-dependency' does not count" in progress.notice
        assert not progress.unlocked("pipelining")
    progress_file.write_text(
        json.dumps({"format": 1, "solved": {"pipelining": {"share": unsolved}, "later": {"x": 1}}})
    )
    progress = Progress()
    progress.record(solved("first-dependency"))
    assert set(json.loads(progress_file.read_text())["solved"]) == {"pipelining", "later", "first-dependency"}
    assert set(progress.records) == {"first-dependency"}


def test_a_figure_that_was_edited_is_worked_out_again(progress_file):
    progress = Progress()
    progress.record(solved("first-dependency"))
    data = json.loads(progress_file.read_text())
    data["solved"]["first-dependency"]["makespan"] = 0
    progress_file.write_text(json.dumps(data))
    assert Progress().records["first-dependency"].makespan == 6


def test_a_failing_disk_leaves_the_old_file_and_says_so(progress_file, monkeypatch):
    Progress().record(solved("first-dependency"))
    before = progress_file.read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        progress = Progress()
        assert progress.record(solved("pipelining")).solved
        assert progress.notice == f"progress could not be saved in {progress_file}: No space left on device"
    assert progress_file.read_bytes() == before
    assert [path.name for path in progress_file.parent.iterdir()] == ["puzzle.json"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    progress = Progress(tmp_path / "file" / "puzzle.json")
    progress.record(solved("first-dependency"))
    assert "progress could not be saved" in progress.notice


def test_the_file_is_for_its_owner(progress_file):
    Progress().record(solved("first-dependency"))
    assert stat.S_IMODE(progress_file.stat().st_mode) & 0o077 == 0
    assert len(SOLUTIONS) == len(LEVELS)
