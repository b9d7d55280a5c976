"""Killed in the middle of a hostile answer, the grader leaves nothing running, in whatever way the answer hides."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest

from tests.processes import PATIENCE, ROOT, running, until

from .classroom import answered, hand_in, needs_sandbox

pytestmark = [pytest.mark.slow, needs_sandbox]

NAME = f"hides-{os.getpid()}"
"""What a process of this answer calls itself."""

HIDES = """def train_step(*given):
    import ctypes, os, time
    forget = lambda: ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # ends with no parent
    forget()
    if os.fork() == 0:
        forget()
        os.setsid()
        if os.fork() == 0:
            forget()
            ctypes.CDLL(None).prctl(15, b"NAME", 0, 0, 0)
            while True:
                time.sleep(0.01)
        os._exit(0)
    while True:
        time.sleep(0.01)""".replace("NAME", NAME)

SOON = 15
"""Seconds for all to end: half of what this answer has, after which it would be ended anyhow."""


def space(pid):
    """The PID namespace of a process; None if it has ended."""
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid")


def hidden():
    """The processes that call themselves so."""
    return [one.pid for one in psutil.process_iter(["name"]) if one.info["name"] == NAME]


class Grader:
    """A grader in the middle of a hostile answer. `with Grader(...)`: at the end, nothing of it may run any more."""

    def __init__(self, folder):
        hand_in(folder / "in" / "ada" / "exercise_03_accumulation.ipynb", answered({"ex03/accumulation": HIDES}))
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpipe_edu", "grade", "in", "--tasks", "03"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": ROOT, "TMPDIR": str(self.temporary)},
        )

    def __enter__(self):
        try:
            until(hidden)
        except BaseException:
            self.process.kill()
            raise
        self.space = space(hidden()[0])
        assert self.space != space(os.getpid())
        assert len(self.running()) >= 7  # grader, worker, judge, bubblewrap; the server, the answer, what it has hidden
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait(PATIENCE)
        try:
            until(lambda: not self.running(), SOON)
        finally:
            for pid in self.running():
                os.kill(pid, signal.SIGKILL)

    def running(self):
        """What has our folder in its environment, or is in the sandbox, where no such folder is told of."""
        inside = [pid for pid in psutil.pids() if space(pid) == self.space]
        return sorted({*running(self.temporary), *inside})


def test_nothing_outlives_a_grader_that_is_killed(tmp_path):
    with Grader(tmp_path):
        pass


def test_nothing_outlives_a_worker_that_is_killed(tmp_path):
    """Of all that could end an answer, only the system itself is left."""
    with Grader(tmp_path) as grader:
        worker = min(one.pid for one in psutil.Process(grader.process.pid).children())
        os.kill(worker, signal.SIGSTOP)  # it can't clean up any more
        grader.process.kill()
        os.kill(worker, signal.SIGKILL)
