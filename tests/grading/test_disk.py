"""A disk that is full or can't be written: one sentence, nothing half written, and the same command goes on."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from gpipe_edu.base.atomic_write import write_whole
from tests.processes import PATIENCE, ROOT

from .classroom import CLOCK, LOOP, answered, hand_in, needs_sandbox, run

pytestmark = [pytest.mark.slow, needs_sandbox]

ANSWERS = 12

SPACE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
"""Where everybody may have small disks of their own."""

REPORT = ("marks.csv", "answers.csv", "marks.json", "class.html")


@pytest.fixture(scope="module", autouse=True)
def disks(tmp_path_factory):
    """Disks can be made here."""
    folder = tmp_path_factory.mktemp("disk")
    tried = shutil.which("unshare") and subprocess.run(
        [*SPACE, f"mount -t tmpfs none {folder}"], capture_output=True, timeout=PATIENCE
    )
    if not tried or tried.returncode:
        pytest.skip("a small disk needs a mount namespace, and this system allows none")


def grade_on(folder, script):
    """Grade `folder`/in on a small disk, in a shell with the functions `disk` and `grade`; keep what is on it at last.

    Returns what was printed, and how each of the commands ended.
    """
    for number in range(ANSWERS):
        text = (CLOCK if number % 2 else LOOP).replace("(K, M):", f"(K, M, n={number}):")
        hand_in(folder / "in" / f"s{number}" / "exercise_02_clock.ipynb", answered({"ex02/clock": text}))
    (folder / "disk").mkdir()
    (folder / "kept").mkdir()
    functions = f"""
    cd {folder}
    disk() {{ mount -t tmpfs -o mode=0755,size=$1 none disk; }}
    grade() {{ {sys.executable} -m gpipe_edu grade in --tasks ex02/clock --jobs 1 --out disk/marks; echo "ended $?"; }}
    """
    done = subprocess.run(
        [*SPACE, f"{functions}\n{script}\ncp -r disk/marks/. kept"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    return done.stdout, [int(status) for status in re.findall(r"ended (\d)", done.stdout)]


def test_a_disk_that_is_full_gets_full_and_may_not_be_written_any_more(tmp_path):
    """One after the other, and then all is well: the report is that of a disk with which nothing was ever wrong."""
    said, ended = grade_on(
        tmp_path,
        """
        disk 4k; echo full >disk/full; grade
        rm disk/full; mount -o remount,size=12k disk; grade
        mount -o remount,size=8m disk; size=$(stat -c %s disk/marks/journal.jsonl); left=3000
        grown() { [ $(stat -c %s disk/marks/journal.jsonl) -gt $size ] || [ $((left -= 1)) -lt 0 ]; }
        grade & until grown; do sleep 0.02; done
        mount --bind disk disk; mount -o remount,ro,bind disk; wait; umount disk
        grade
        grade
        """,
    )
    assert ended == [2, 2, 2, 0, 0]
    full, gets_full, forbidden = (line for line in said.splitlines() if line.startswith("error:"))
    assert "seeds.json can't be written: No space left on device. What has been judged is kept in disk/marks" in full
    assert "journal.jsonl can't be written: No space left on device." in gets_full
    assert "can't be written: Read-only file system." in forbidden
    new = [int(number) for number in re.findall(r"(\d+) new answer", said)]
    assert new[-1] == 0 < new[-2] < ANSWERS
    (tmp_path / "whole").mkdir()
    shutil.copy(tmp_path / "kept" / "seeds.json", tmp_path / "whole")
    run(tmp_path / "in", "--out", tmp_path / "whole", "--tasks", "ex02/clock")
    for name in REPORT:
        assert (tmp_path / "kept" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {
        path.name for path in (tmp_path / "whole").iterdir()
    }


def test_a_table_that_does_not_fit_leaves_the_old_one(tmp_path):
    (tmp_path / "table").write_text("old")
    script = f"""import resource, pathlib
from gpipe_edu.base.atomic_write import write_whole
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
write_whole(pathlib.Path({str(tmp_path / "table")!r}), "new" * 10)"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ROOT}
    )
    assert f"File too large: '{tmp_path / 'table'}'" in done.stderr
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    write_whole(tmp_path / "table", "new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new"]
