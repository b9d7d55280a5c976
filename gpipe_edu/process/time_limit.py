"""How long processes may work: the time that they run or sleep counts, not the time that they wait for a CPU.

By the wall clock, a right answer would look endless on a machine that is busy with something else. So what counts is
CPU time, and time in which all of them sleep, as in a deadlock. A process that gets too little CPU for very long is
given up on, too, but that is the machine's fault, and reported differently.

psutil gives the same figures on Linux, macOS and Windows. Only Linux tells two more: what each thread is doing, and
memory without files that can be read again. Elsewhere a process is taken to sleep if it uses no CPU while a CPU is
idle, and libraries count as its memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from time import monotonic, process_time
from typing import Final

if sys.platform != "emscripten":  # a browser has no processes, and no psutil
    import psutil

LOOK: Final = 0.1
"""Seconds between two calls of `look`."""

MOST_PROCESSES: Final = 24
"""Processes at once. Ours are four at most; an answer that starts more than this has to be stopped.

The number is low so that it is exceeded before their memory seems too much: what forks share counts for each of them.
"""


_PYTORCH: Final = 300_000_000 if sys.platform == "linux" else 700_000_000
"""Bytes that PyTorch 2.13 for CUDA takes when it is imported: 282 million, and with its libraries 652 million."""

_QUEUES_ARE_TOLD: Final = Path("/proc/self/schedstat").exists()
"""Whether the system tells how long a process has waited for a CPU."""


_NOT_TOLD: Final = b"0"


def family(of: Sequence[int]) -> list[int]:
    """The processes `of` these ids that still run, with all that they have started, and all in their sessions."""
    heads, found, started = set(of), set[int](), _started()

    def add(*pids: int) -> None:
        new = [*pids]
        while new:
            if (pid := new.pop()) not in found:
                found.add(pid)
                new += started.get(pid, ())

    add(*of)
    for pid in chain(*started.values()):
        if pid not in found and len(found) <= MOST_PROCESSES and _session(pid) in heads:  # its parent has ended
            add(pid)
    return [pid for pid in found if _status(pid) not in ("", psutil.STATUS_ZOMBIE)]


def is_stopped(pid: int) -> bool:
    """Whether the process is stopped, as by Ctrl-Z."""
    return _status(pid) in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


def wall(seconds: float) -> float:
    """Wall-clock seconds after which a process that may take `seconds` is given up on."""
    return 4 * seconds + 30


class TimeLimit:
    """The limit of the processes `pids()`, which may take `seconds` for all that they are asked.

    crowd: whether they had started more than MOST_PROCESSES others at the last look. memory: the bytes that they all
    held then, with shared ones, which no limit of a single process counts. largest: those of the largest one; of one
    that `pids()` have started, without what it takes to import PyTorch, which they themselves do before they are asked.
    """

    def __init__(self, pids: Callable[[], Sequence[int]], seconds: float) -> None:
        self._pids, self.seconds = pids, seconds
        self._spent = self._waited = self._excused = 0.0
        self.crowd, self.memory, self.largest = False, 0, 0

    def begin(self) -> None:
        """The processes are asked something: start counting."""
        self._looked = self._begun = monotonic()
        self._cpu_before = self._cpu_now = self._cpu()
        self._others: float | None = None
        self._slept, self._answered = 0.0, False
        self._queued, self._idle, self._ours = sum(map(_queued, self._pids())), _idle(), _own_time()

    def answered(self) -> None:
        """One of them has waited for us: that it slept until now is not its fault, least of all if we are slow.

        At most `seconds` in all are excused: else, with a question now and then, one could sleep as long as it likes.
        """
        self._answered = True

    def look(self) -> None:
        """Measure what they are doing; to be called every LOOK seconds while they work."""
        now = monotonic()
        past, self._looked = now - self._looked, now
        pids = self._pids()
        found = family(pids)
        others = sum(_cpu(pid) for pid in found if pid not in pids)
        self._others = others if self._others is None else self._others
        cpu = max(self._cpu_now, self._cpu() + others - self._others)
        queued, idle, ours = sum(map(_queued, found)), _idle(), _own_time()
        if _QUEUES_ARE_TOLD:  # even one that has worked a little may have slept meanwhile
            slept = max(0.0, past - (cpu - self._cpu_now) - abs(queued - self._queued))
        elif cpu == self._cpu_now:  # none waits for a CPU while one is idle
            slept = max(0.0, min(past, idle - self._idle))
        else:
            slept = 0.0
        slept = max(0.0, slept - (ours - self._ours))  # as long as this process works, or waits for a CPU, it is slow
        if self._answered:  # then one is awake just now, whatever it has done before
            excused = min(slept, self.seconds - self._excused)
            self._excused += excused
            self._slept += slept - excused
        elif not any(map(_is_awake, found)):
            self._slept += slept
        self._cpu_now, self._queued, self._idle, self._ours, self._answered = cpu, queued, idle, ours, False
        memory = {pid: _memory(pid) for pid in found}
        self.crowd, self.memory = len(found) > MOST_PROCESSES, sum(memory.values())
        self.largest = max((held - (pid not in pids) * _PYTORCH for pid, held in memory.items()), default=0)

    def fills(self, most: int) -> bool:
        """Whether they hold more than so many bytes together, what forked processes share counted once."""
        if self.memory <= most:
            return False
        # This takes the system longer to tell, so it is asked only where the quick sum is too large.
        return sum(map(_share_of_memory, family(self._pids()))) > most

    def end(self) -> None:
        """They have answered: stop counting."""
        self._spent, self._waited = self._so_far(), self._waited + monotonic() - self._begun

    @property
    def over(self) -> bool:
        """Whether they have used up their time."""
        return self._so_far() >= self.seconds

    @property
    def kept_waiting(self) -> bool:
        """Whether the machine was too busy for them to use it."""
        return self._waited + monotonic() - self._begun >= wall(self.seconds)

    def _so_far(self) -> float:
        past = monotonic() - self._begun
        self._cpu_now = max(self._cpu_now, self._cpu())
        return self._spent + min(past, self._cpu_now - self._cpu_before + self._slept)

    def _cpu(self) -> float:
        return sum(map(_cpu, self._pids()))


def _status(pid: int) -> str:
    """The status, as psutil names it; "" if the process has ended."""
    with suppress(psutil.Error):
        return str(psutil.Process(pid).status())
    return ""


def _started() -> dict[int, list[int]]:
    """By process, those that it has started, all read at once: psutil reads all of them for each that is asked for."""
    found: dict[int, list[int]] = {}
    with suppress(psutil.Error, PermissionError):
        for pid in psutil.pids():
            try:
                with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                    parent = int(file.read().rpartition(b")")[2].split(None, 2)[1])
            except FileNotFoundError:
                with suppress(psutil.Error):
                    found.setdefault(psutil.Process(pid).ppid(), []).append(pid)
                continue
            except (OSError, IndexError):  # it has ended meanwhile
                continue
            found.setdefault(parent, []).append(pid)
    return found


def _cpu(pid: int) -> float:
    """CPU seconds that it and, on Linux, its reaped children have used."""
    with suppress(psutil.Error):
        return float(sum(psutil.Process(pid).cpu_times()[:4]))
    return 0.0


def _idle() -> float:
    """Seconds for which CPUs have been idle, summed up; seconds on the clock where the system does not count them."""
    times = psutil.cpu_times()
    return float(times.idle) if any(times) else monotonic()


def _queued(pid: int) -> float:
    """Seconds for which its threads have waited for a CPU, as far as the system counts them."""
    with suppress(OSError, ValueError):
        return sum(
            int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[1]) / 1e9
            for thread in os.listdir(f"/proc/{pid}/task")
        )
    return 0.0


def _own_time() -> float:
    """Seconds for which this process has worked, or waited for a CPU as far as the system counts that."""
    return process_time() + _queued(os.getpid())


def _session(pid: int) -> int | None:
    """The ID of its session; None where there are no sessions."""
    with suppress(OSError):
        return os.getsid(pid) if hasattr(os, "getsid") else None
    return None


def _memory(pid: int) -> int:
    """Bytes of memory, its own or shared; without files, which can be read again."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/status", "rb") as file:
        lines = [line.split() for line in file if line.startswith((b"RssAnon:", b"RssShmem:"))]
        return sum(int(line[1]) for line in lines) * 1024
    with suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def _share_of_memory(pid: int) -> int:
    """The same, but of pages that several processes share only its part."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        lines = [line.split() for line in file if line.startswith((b"Pss_Anon:", b"Pss_Shmem:"))]
        if lines:
            return sum(int(line[1]) for line in lines) * 1024
    return _memory(pid)


def _is_awake(pid: int) -> bool:
    """Whether one of its threads runs, waits for a CPU, or waits for a disk."""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
            if state == b"R" or (state == b"D" and not _waits_for_vfork(pid, thread)):
                return True
    return False


def _waits_for_vfork(pid: int, thread: str) -> bool:
    """Whether it waits for a child that shares its memory, which looks like waiting for a disk.

    In a container the system may not tell what it waits for; then one that has a child is taken to wait for that.
    """
    with suppress(OSError):
        about = Path(f"/proc/{pid}/task/{thread}")
        waits_for = (about / "wchan").read_bytes()
        if waits_for == _NOT_TOLD:
            return bool((about / "children").read_bytes())
        return waits_for in (b"kernel_clone", b"wait_for_vfork_done")
    return False
