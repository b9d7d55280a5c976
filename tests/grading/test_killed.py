"""Killed in the middle of a hostile answer, the grader leaves nothing running, in whatever way the answer hides."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from gpipe_edu.process import cage
from tests.processes import PATIENCE, ROOT, running, until

from .classroom import answered, hand_in

pytestmark = [
    pytest.mark.skipif(cage.version() < 6, reason="this kernel's Landlock can't shut a cage: version 6 is needed"),
    pytest.mark.timeout(300),
]

HIDES = """def train_step(*given):
    import ctypes, os, time
    forget = lambda: ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # ends with no parent
    forget()
    if os.fork() == 0:
        forget()
        os.setsid()
        if os.fork() == 0:
            forget()
            open("here", "w").close()
            while True:
                time.sleep(0.01)
        os._exit(0)
    while True:
        time.sleep(0.01)"""

SOON = 15
"""Seconds for all to end: half of what this answer has, after which it would be ended anyhow."""

WITHOUT = ["unshare", "--user", "--map-root-user", "sh", "-c", 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"']
"""Runs what follows where no namespace is to be had."""


def allowed(command):
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run([*command, "sh", "true"], capture_output=True, timeout=PATIENCE).returncode == 0


class Grader:
    """A grader in the middle of a hostile answer. `with Grader(...)`: at the end, nothing of it may run any more."""

    def __init__(self, folder, around=()):
        hand_in(folder / "in" / "ada" / "exercise_03_accumulation.ipynb", answered({"ex03/accumulation": HIDES}))
        self.temporary, self._said = folder / "temporary", folder / "said"
        self.temporary.mkdir()
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                [*around, sys.executable, "-m", "gpipe_edu", "grade", "in", "--tasks", "03"],
                cwd=folder,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": ROOT, "TMPDIR": str(self.temporary)},
            )

    def __enter__(self):
        until(lambda: list(self.temporary.rglob("here")))
        assert len(self.running()) >= 5  # grader, worker, judge, the answer, and what it has hidden
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait(PATIENCE)
        try:
            until(lambda: not self.running(), SOON)
        finally:
            for pid in self.running():
                os.kill(pid, signal.SIGKILL)

    @property
    def said(self):
        return self._said.read_text()

    def running(self):
        return running(self.temporary)


@pytest.mark.parametrize("namespaces", [True, False])
def test_nothing_outlives_a_grader_that_is_killed(tmp_path, namespaces):
    if not namespaces and not allowed(WITHOUT):
        pytest.skip("this system lets nobody forbid namespaces: unshare --user is not to be had")
    with Grader(tmp_path, () if namespaces else (*WITHOUT, "sh")) as grader:
        if namespaces and "process namespace)" not in grader.said:
            pytest.skip(f"this system allows no process namespace: {grader.said}")
        assert namespaces or "by parentage" in grader.said


def test_nothing_outlives_a_worker_that_is_killed(tmp_path):
    """Of all that could end an answer, only the system itself is left."""
    with Grader(tmp_path) as grader:
        if "process namespace)" not in grader.said:
            pytest.skip(f"this system allows no process namespace: {grader.said}")
        worker = min(pid for pid in grader.running() if pid != grader.process.pid)
        os.kill(worker, signal.SIGSTOP)  # it can't clean up any more
        grader.process.kill()
        os.kill(worker, signal.SIGKILL)
