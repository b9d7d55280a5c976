"""The learner's file: nothing is lost, whatever is written at the same time, breaks off, or was broken before."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpipe_edu.base import store
from tests.processes import PATIENCE, printed

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.usefixtures("home")
BROKEN = {
    "cut off": b'{"predictions": {"03/a": "B"',
    "empty": b"",
    "not text": b"\xff\xfe\x00",
    "a list": b'["A", "B"]',
    "a section that is none": b'{"predictions": "B"}',
    "nested without end": b"[" * 200_000,
}


def keep(answer):
    with store.change("predictions") as kept:
        kept["03/a"] = answer


def changed(section):
    """What a change finds."""
    with store.change(section) as kept:
        return dict(kept)


def test_what_is_kept_is_read_again(home):
    keep("B")
    with store.change("puzzle") as kept:
        kept["level"] = {"best": 21, "rows": ["F0 B0"]}
    assert store.read("predictions") == {"03/a": "B"}
    assert store.read("puzzle") == {"level": {"best": 21, "rows": ["F0 B0"]}}
    assert store.read("never written") == {}
    assert store.path() == home / "progress.json"


def test_a_person_who_finds_the_file_learns_what_it_is():
    keep("B")
    found = json.loads(store.path().read_text(encoding="utf-8"))
    assert "gpipe_edu" in found["about"]
    assert "Delete" in found["about"]


def test_reading_makes_no_file_and_deleting_it_starts_anew(home):
    assert store.read("predictions") == {}
    assert not home.exists()
    keep("B")
    store.path().unlink()
    assert store.read("predictions") == {}


def test_it_lies_in_the_users_data_folder(monkeypatch, tmp_path):
    monkeypatch.delenv(store.HOME)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert store.path() == tmp_path / "gpipe_edu" / "progress.json"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert store.path() == Path.home() / ".local/share/gpipe_edu/progress.json"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "emscripten")
    assert store.path() == Path("/drive/gpipe_edu/progress.json"), "where JupyterLite keeps the notebooks, too"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert store.path() == Path.home() / "Library/Application Support/gpipe_edu/progress.json"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert store.path() == tmp_path / "gpipe_edu" / "progress.json"
    monkeypatch.delenv("LOCALAPPDATA")
    assert store.path() == Path.home() / "AppData/Local/gpipe_edu/progress.json"


def test_notebooks_that_write_at_the_same_time_keep_each_others_entries(home):
    program = """
import sys
from gpipe_edu.base import store
for number in range(25):
    with store.change("predictions") as kept:
        kept[f"{sys.argv[1]}/{number}"] = "A"
"""
    command = [sys.executable, "-c", program]
    writers = [subprocess.Popen([*command, str(name)], cwd=ROOT, env=dict(os.environ)) for name in range(4)]
    assert [writer.wait(PATIENCE) for writer in writers] == [0] * 4
    assert set(store.read("predictions")) == {f"{name}/{number}" for name in range(4) for number in range(25)}
    assert sorted(file.name for file in home.iterdir()) == ["progress.json", "progress.lock"]


def test_a_browser_has_no_locks_and_keeps_it_all_the_same(home, monkeypatch):
    monkeypatch.setattr(sys, "platform", "emscripten")
    keep("B")
    assert store.read("predictions") == {"03/a": "B"}
    assert [file.name for file in home.iterdir()] == ["progress.json"]


def test_a_change_that_fails_leaves_the_file_as_it_was():
    keep("B")
    with pytest.raises(ZeroDivisionError), store.change("predictions") as kept:
        kept["03/a"] = str(1 / 0)
    with pytest.raises(TypeError), store.change("predictions") as kept:
        kept["03/a"] = object()

    assert store.read("predictions") == {"03/a": "B"}


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_breaks_off_leaves_the_old_file_whole_and_no_litter(home, monkeypatch, step):
    keep("B")

    def full(*arguments):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="no space left"), store.change("predictions") as kept:
        kept["03/a"] = "C"
    assert store.read("predictions") == {"03/a": "B"}
    assert sorted(file.name for file in home.iterdir()) == ["progress.json", "progress.lock"]


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("use", [store.read, changed], ids=["read", "change"])
def test_a_broken_file_is_set_aside_and_named(home, content, use):
    home.mkdir()
    store.path().write_bytes(content)
    with pytest.warns(UserWarning, match=r"progress\.broken-1\.json"):
        assert use("predictions") == {}
    assert (home / "progress.broken-1.json").read_bytes() == content
    assert store.read("predictions") == {}


def test_a_second_broken_file_does_not_take_the_place_of_the_first(home):
    home.mkdir()
    for number, content in enumerate([b"one", b"two"], start=1):
        store.path().write_bytes(content)
        with pytest.warns(UserWarning, match=rf"progress\.broken-{number}\.json"):
            store.read("predictions")
    assert (home / "progress.broken-1.json").read_bytes() == b"one"
    assert (home / "progress.broken-2.json").read_bytes() == b"two"


def test_a_lock_that_is_never_let_go_ends_in_an_error_and_not_in_a_hang(monkeypatch):
    monkeypatch.setattr(store, "_PATIENCE", 0.05)
    with (
        store.change("predictions"),
        pytest.raises(TimeoutError, match=r"progress\.lock"),
        store.change("puzzle"),
    ):
        raise AssertionError("two changes at a time")


def test_a_writer_that_was_killed_holds_no_lock():
    program = """
import os
from gpipe_edu.base import store
with store.change("predictions") as kept:
    kept["03/a"] = "B"
    os._exit(9)
"""
    printed(program, ends=9)
    with store.change("predictions") as kept:
        assert kept == {}


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_disk_that_knows_no_locks_keeps_answers(monkeypatch, number):
    def refuse(*arguments):
        raise OSError(number, "no locks here")

    monkeypatch.setattr("fcntl.flock", refuse)
    keep("B")
    assert store.read("predictions") == {"03/a": "B"}


def test_answers_are_kept_where_the_system_has_no_locks():
    program = """
import sys
sys.modules["fcntl"] = None
from gpipe_edu.base import store
for answer in "AB":
    with store.change("predictions") as kept:
        kept["03/a"] = answer
"""
    printed(program)
    assert store.read("predictions") == {"03/a": "B"}
