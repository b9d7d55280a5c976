"""How long others may work: by the time they have had a CPU or slept, not by the time they stood in a queue for one.

On a machine that is busy with something else, a clock on the wall calls a right answer endless. So what counts is CPU
time, and time in which all of them sleep, as in a deadlock. Whoever is kept from working for very long is given up
on, too, but that is the machine's fault, and told apart.

psutil tells the same of Linux, macOS and Windows. Two things it does not tell, and Linux does: what each thread is
doing, and memory without the files that can be read again. Elsewhere a process sleeps if it uses no CPU, and libraries
count as its memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import Final

if sys.platform != "emscripten":  # a browser has no processes, and no psutil
    import psutil

LOOK: Final = 0.1
"""Seconds between two looks."""

MOST: Final = 24
"""Processes at once. Ours are four at most; who starts more than this without end has to be stopped.

So few that they are too many before they seem to hold too much: what forks share is counted for each of them.
"""


def family(of: Iterable[int]) -> list[int]:
    """Those of our children `of` that still run, all that they have started, and all that are in their sessions.

    None in a cage, which does not let one see other processes.
    """
    heads = set(of)
    found = heads.copy()
    with suppress(psutil.Error, PermissionError):
        for one in psutil.Process().children(recursive=True):  # who has started another comes before it
            with suppress(psutil.Error):
                if one.ppid() in found or _session(one.pid) in heads:
                    found.add(one.pid)
        for pid in psutil.pids():
            if pid not in found and _session(pid) in heads and len(found) <= MOST:  # its parent has ended
                with suppress(psutil.Error):
                    found |= {pid, *(one.pid for one in psutil.Process(pid).children(recursive=True))}
    return [pid for pid in found if _status(pid) not in ("", psutil.STATUS_ZOMBIE)]


def is_stopped(pid: int) -> bool:
    """Whether somebody has stopped the process, as Ctrl-Z does."""
    return _status(pid) in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


def wall(seconds: float) -> float:
    """On the clock, after so many seconds a process that shall take `seconds` is given up on."""
    return 4 * seconds + 30


class TimeLimit:
    """For the processes `pids()`, which shall take `seconds` for all that they are asked.

    crowd: whether they had started more than MOST others when they were last looked at. memory: the bytes that they all
    held then, shared ones too, which no limit of a process's own counts.
    """

    def __init__(self, pids: Callable[[], Iterable[int]], seconds: float) -> None:
        self._pids, self.seconds = pids, seconds
        self._spent = self._waited = 0.0
        self.crowd, self.memory = False, 0

    def begin(self) -> None:
        """They are asked something."""
        self._looked = self._begun = monotonic()
        self._cpu_before = self._cpu_now = self._cpu()
        self._others: float | None = None
        self._slept = 0.0

    def look(self) -> None:
        """See what they are doing; to be called every LOOK seconds while they work."""
        now = monotonic()
        past, self._looked = now - self._looked, now
        pids = set(self._pids())
        found = family(pids)
        others = sum(_cpu(pid) for pid in found if pid not in pids)
        self._others = others if self._others is None else self._others
        cpu = max(self._cpu_now, self._cpu() + others - self._others)
        if cpu == self._cpu_now and not any(map(_is_awake, found)):
            self._slept += past
        self._cpu_now = cpu
        self.crowd, self.memory = len(found) > MOST, sum(map(_memory, found))

    def end(self) -> None:
        """They have answered."""
        self._spent, self._waited = self._so_far(), self._waited + monotonic() - self._begun

    @property
    def over(self) -> bool:
        """Whether they have had their time."""
        return self._so_far() >= self.seconds

    @property
    def kept_waiting(self) -> bool:
        """Whether the machine was too busy to let them have it."""
        return self._waited + monotonic() - self._begun >= wall(self.seconds)

    def _so_far(self) -> float:
        past = monotonic() - self._begun
        self._cpu_now = max(self._cpu_now, self._cpu())
        return self._spent + min(past, self._cpu_now - self._cpu_before + self._slept)

    def _cpu(self) -> float:
        return sum(map(_cpu, self._pids()))


def _status(pid: int) -> str:
    """One of psutil's words; "" if there is no such process any more."""
    with suppress(psutil.Error):
        return str(psutil.Process(pid).status())
    return ""


def _cpu(pid: int) -> float:
    """Seconds that it and, on Linux, its ended children have used."""
    with suppress(psutil.Error):
        return float(sum(psutil.Process(pid).cpu_times()[:4]))
    return 0.0


def _session(pid: int) -> int | None:
    """The number that its family shares; None where there are no sessions."""
    with suppress(OSError):
        return os.getsid(pid) if hasattr(os, "getsid") else None
    return None


def _memory(pid: int) -> int:
    """Bytes of memory that are its own or shared with others; not files, which can be read again."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/status", "rb") as file:
        lines = [line.split() for line in file if line.startswith((b"RssAnon:", b"RssShmem:"))]
        return sum(int(line[1]) for line in lines) * 1024
    with suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def _is_awake(pid: int) -> bool:
    """Whether one of its threads works, stands in the queue for a CPU, or waits for a disk."""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] in (b"R", b"D"):
                    return True
    return False
