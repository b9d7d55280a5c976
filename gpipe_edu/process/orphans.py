"""What a process has started is ended with it, even what has left its session and lost its parent.

On Linux a process can ask to become the parent of its descendants' orphans; then nothing gets out of its sight.
Elsewhere a session is all that can be ended. Linux tells a process its children at once; psutil would look at every
process of the machine, at each question that a judge asks.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36

_PATIENCE: Final = 10.0
"""Seconds for all of them to end, though they may start others faster than one can count."""

_adopts: int | None = None
"""The process that has called `adopt`; a fork of it has not."""


def adopt() -> None:
    """From now on this process is the parent of every orphan among its descendants."""
    global _adopts
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _adopts = os.getpid()


def find_orphans(child: int) -> list[int]:
    """The orphans that run, in a process that has adopted and has no child of its own but `child`.

    Of those that have ended notice is taken, so that they don't use up the numbers of processes.
    """
    if _adopts != os.getpid():
        return []
    return [pid for pid in _children() if pid != child and _runs(pid)]


def end() -> None:
    """End every descendant of this process. For one that has adopted, and starts nothing meanwhile."""
    deadline = time.monotonic() + _PATIENCE
    while sys.platform == "linux" and _any_left() and time.monotonic() < deadline:
        found = _children()  # what they have started is among them once they have ended
        for what in (signal.SIGSTOP, signal.SIGKILL):  # what stands still starts no other
            for pid in found:
                with suppress(OSError):
                    os.kill(pid, what)
        time.sleep(0.005)


def _children() -> list[int]:
    """Those of this process, with those that have ended and of whom it has taken no notice."""
    found: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread has ended
            found += map(int, (thread / "children").read_text().split())
    return found


def _runs(pid: int) -> bool:
    """Whether a child still runs; of one that has ended notice is taken."""
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    return False


def _any_left() -> bool:
    """Whether there are children that run; of those that have ended notice is taken."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False
