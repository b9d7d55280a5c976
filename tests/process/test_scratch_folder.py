"""Folders that answers fill and leave: too deep for recursion, shut, sticky, full of links."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpipe_edu.process.scratch_folder import delete, holds_more
from tests.processes import PATIENCE, ROOT

DEPTH = 5_000


def nested(folder, depth=DEPTH):
    """A file under so many folders, each in the one before; made from within, since no path may be that long."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(os.open("solution.py", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def test_thousands_of_nested_folders(tmp_path):
    nested(tmp_path)
    (tmp_path / "beside").write_text("x")
    delete(str(tmp_path))
    assert not tmp_path.exists()


def test_a_link_goes_and_what_it_leads_to_stays(tmp_path):
    kept, folder = tmp_path / "kept", tmp_path / "left" / "inner"
    kept.mkdir()
    (kept / "file").write_text("mine")
    folder.mkdir(parents=True)
    for where in (folder, folder.parent):
        (where / "to a folder").symlink_to(kept)
        (where / "to a file").symlink_to(kept / "file")
        (where / "to nothing").symlink_to("nothing")
    delete(str(folder.parent))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (kept / "file").read_text() == "mine"


def test_folders_without_any_rights(tmp_path):
    left = tmp_path / "left"
    (left / "a" / "b").mkdir(parents=True)
    (left / "a" / "b" / "file").write_text("x")
    for path in (left / "a" / "b", left / "a", left):
        path.chmod(0)
    delete(str(left))
    assert not left.exists()


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root can make another user's folders, and setpriv take rights from root",
)
def test_another_user_s_sticky_folder_with_the_rights_that_a_container_has(tmp_path):
    left, nobody = tmp_path / "left", 65534
    (left / "inner").mkdir(parents=True)
    (left / "inner" / "solution.py").write_text("x")
    for path in (left / "inner" / "solution.py", left / "inner", left):
        os.chown(path, nobody, nobody)
        path.chmod(0o1777 if path.is_dir() else 0o444)
    only = "-all,+chown,+dac_override,+kill,+setgid,+setuid"
    code = f"from gpipe_edu.process.scratch_folder import delete; delete({str(left)!r})"
    done = subprocess.run(
        ["setpriv", f"--bounding-set={only}", "--inh-caps=-all", sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert not left.exists()


def test_what_stays_is_told(tmp_path, monkeypatch):
    (tmp_path / "left" / "file").parent.mkdir()
    (tmp_path / "left" / "file").write_text("x")
    monkeypatch.setattr(os, "unlink", lambda path: (_ for _ in ()).throw(PermissionError(1, "no", str(path))))
    with pytest.raises(PermissionError):
        delete(str(tmp_path / "left"))
    assert Path(tmp_path, "left", "file").exists()


def test_what_a_folder_holds_is_counted_at_any_depth(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x" * 1_000_000)
    assert not holds_more(str(tmp_path), files=3, size=1_100_000)
    assert holds_more(str(tmp_path), files=2, size=1_100_000)
    assert holds_more(str(tmp_path), files=3, size=999_999)


def test_what_is_too_deep_to_be_counted_is_too_much(tmp_path):
    nested(tmp_path)
    assert holds_more(str(tmp_path), files=DEPTH + 1, size=10**12)
    delete(str(tmp_path))
