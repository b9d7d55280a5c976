"""What a process has started is ended with it, even what has left its session and lost its parent.

On Linux a process can ask to become the parent of its descendants' orphans; then nothing gets out of its sight.
Elsewhere a session is all that can be ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Final

from .time_limit import children, family

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


def adopted(child: int) -> list[int]:
    """The orphans that run, in a process that has adopted and has no child of its own but `child`.

    Of those that have ended notice is taken, so that they don't use up the numbers of processes.
    """
    found = []
    for one in children(os.getpid()) if _adopts == os.getpid() else ():
        if one.pid == child:
            continue
        if one.state == "Z":
            with suppress(ChildProcessError):
                os.waitpid(one.pid, os.WNOHANG)
        else:
            found.append(one.pid)
    return found


def end() -> None:
    """End every descendant of this process. For one that has adopted, and starts nothing meanwhile."""
    deadline = time.monotonic() + _PATIENCE
    while sys.platform == "linux" and time.monotonic() < deadline:
        found = [one.pid for one in family([os.getpid()]) if one.pid != os.getpid()]
        for what in (signal.SIGSTOP, signal.SIGKILL):  # what stands still starts no other
            for pid in found:
                with suppress(OSError):
                    os.kill(pid, what)
        gone = _reap()
        if not found and not gone:
            return
        time.sleep(0.005)


def _reap() -> bool:
    """Take notice of those that have ended; whether there were any."""
    gone = False
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            gone = True
    return gone
