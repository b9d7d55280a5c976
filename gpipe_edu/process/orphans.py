"""All that a process has started is killed with it, even what has left its session and lost its parent.

On Linux a process can become the parent of its descendants' orphans (a subreaper), so none of them is lost. Elsewhere
only a session can be killed. Linux lists a process's children directly; psutil would look at every process of the
machine, at each question that a judge asks.
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

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

_PATIENCE: Final = 10.0
"""Seconds for all of them to end, though they may keep starting others."""

_adopts: int | None = None
"""The PID of the process that has called `adopt`, which a fork of it has not."""


def die_with_parent() -> None:
    """Have this process killed when its parent ends, for any reason."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def outlive_parent() -> None:
    """Keep this process alive after its parent's end, known only by its pipes, so that it can kill what it started."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def adopt() -> None:
    """From now on this process is the parent of every orphan among its descendants."""
    global _adopts
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _adopts = os.getpid()


def find_orphans(child: int) -> list[int]:
    """The orphans that still run, in a process that has called `adopt` and has no child of its own but `child`.

    Those that have ended are reaped, so that zombies don't use up the PIDs.
    """
    if _adopts != os.getpid():
        return []
    return [pid for pid in _children() if pid != child and _runs(pid)]


def end() -> None:
    """Kill every descendant of this process, which has called `adopt` and starts nothing meanwhile."""
    deadline = time.monotonic() + _PATIENCE
    while sys.platform == "linux" and _any_left() and time.monotonic() < deadline:
        found = _children()  # when one ends, its own children become ours
        for what in (signal.SIGSTOP, signal.SIGKILL):  # a stopped process starts no others
            for pid in found:
                with suppress(OSError):
                    os.kill(pid, what)
        time.sleep(0.005)


def _children() -> list[int]:
    """The children of this process, with those that have ended but are not yet reaped."""
    found: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread has ended
            found += map(int, (thread / "children").read_text().split())
    return found


def _runs(pid: int) -> bool:
    """Whether a child still runs; one that has ended is reaped."""
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    return False


def _any_left() -> bool:
    """Whether there are children that run; those that have ended are reaped."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False
