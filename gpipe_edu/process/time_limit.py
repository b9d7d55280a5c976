"""How long others may work: by the time they have had a CPU or slept, not by the time they stood in a queue for one.

On a machine that is busy with something else, a clock on the wall calls a right answer endless. So what counts is CPU
time, and time in which all of them sleep, as in a deadlock. Whoever is kept from working for very long is given up
on, too, but that is the machine's fault, and told apart. Where the system does not tell (only Linux does), the wall
clock has to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import Final, NamedTuple

LOOK: Final = 0.1
"""Seconds between two looks."""

MOST: Final = 24
"""Processes at once. Ours are four at most; who starts more than this without end has to be stopped.

So few that they are too many before they seem to hold too much: what forks share is counted for each of them.
"""

_TELLS: Final = os.path.isdir("/proc/self/task")
_TICK: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Process(NamedTuple):
    """One that runs. cpu: seconds it and its ended children have used. session: the number that its family shares."""

    pid: int
    parent: int
    session: int
    state: str
    cpu: float


def find(pid: int) -> Process | None:
    """The process of that number, None if it has ended, or where the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    state, parent, _, session = fields[0].decode(), *map(int, fields[1:4])
    return Process(pid, parent, session, state, sum(map(int, fields[11:15])) / _TICK)


def family(of: Iterable[int]) -> list[Process]:
    """The processes `of` that still run, all that they have started, and all that are in their sessions."""
    with suppress(OSError):
        everyone = [found for name in os.listdir("/proc") if name.isdigit() and (found := find(int(name)))]
        inside = set(of)
        grown = True
        while grown:
            new = {one.pid for one in everyone if one.parent in inside or one.session in inside} - inside
            inside |= new
            grown = bool(new)
        return [one for one in everyone if one.pid in inside and one.state != "Z"]
    return []


def children(of: int) -> list[Process]:
    """The processes whose parent is `of`, those too that have ended and of whom it has taken no notice."""
    pids: list[str] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{of}/task"):
            with open(f"/proc/{of}/task/{thread}/children") as file:
                pids += file.read().split()
    return [found for pid in pids if (found := find(int(pid)))]


def wall(seconds: float) -> float:
    """On the clock, after so many seconds a process that shall take `seconds` is given up on."""
    return 4 * seconds + 30


class Patience:
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
        others = sum(one.cpu for one in found if one.pid not in pids)
        self._others = others if self._others is None else self._others
        cpu = max(self._cpu_now, self._cpu() + others - self._others)
        if _TELLS and cpu == self._cpu_now and not any(_awake(one.pid) for one in found):
            self._slept += past
        self._cpu_now = cpu
        self.crowd, self.memory = len(found) > MOST, sum(_held(one.pid) for one in found)

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
        if not _TELLS:
            return self._spent + past
        self._cpu_now = max(self._cpu_now, self._cpu())
        return self._spent + min(past, self._cpu_now - self._cpu_before + self._slept)

    def _cpu(self) -> float:
        return sum(found.cpu for pid in self._pids() if (found := find(pid)))


def _held(pid: int) -> int:
    """Bytes of memory that are its own or shared with others; not files, which can be read again."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/status", "rb") as file:
        lines = [line.split() for line in file if line.startswith((b"RssAnon:", b"RssShmem:"))]
        return sum(int(line[1]) for line in lines) * 1024
    return 0


def _awake(pid: int) -> bool:
    """Whether one of its threads works, stands in the queue for a CPU, or waits for a disk."""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] in (b"R", b"D"):
                    return True
    return False
