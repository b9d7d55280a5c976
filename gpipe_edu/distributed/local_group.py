"""Several processes for one function: start them, send them their work, receive their reports, and end them all.

    for every process:  a pipe with jobs to it, a pipe with reports from it, and its diary (see `diary`)
    until all report:   a report ends the wait for its process; an error ends everything;
                        without reports: do they wait for each other, or is the time over?

What comes by none of these ways, such as a warning, stays with the `Child`.
"""

from __future__ import annotations

import math
import pickle
import queue
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Final, NamedTuple, NoReturn

from gpipe_edu.base.validate import whole
from gpipe_edu.base.words import join_words
from gpipe_edu.process import plain
from gpipe_edu.process.child import FLOOD, Child
from gpipe_edu.process.fork_server import as_this_process
from gpipe_edu.process.lines import Line
from gpipe_edu.process.loopback import LOOPBACK
from gpipe_edu.process.packing import pack
from gpipe_edu.process.time_limit import LOOK, TimeLimit

from .deadlocks import Fault, MessageLog
from .diary import Entry, ProcessError, format_line, is_library_file, read

_RANK: Final = f"{__package__}.rank"
"""The module that each process runs."""

_START: Final = 20.0
"""Seconds for Python and PyTorch to load in one process, not counting those in which it waits for a CPU."""


class Results(NamedTuple):
    """values: what each process returned. diaries: what each noted."""

    values: list[Any]
    diaries: list[list[Entry]]


def run_processes(function: Callable[..., Any], K: int, seconds: float = 30) -> list[Any]:
    """`[function(0), function(1), ...]`, each call in a process of its own, all K at the same time.

    The processes are a gloo group, so they can use `torch.distributed`. What they print is printed here. Raises the
    function's own error; ProcessError if they wait for each other, take longer than `seconds`, or one dies or exits.
    """
    whole("K", K, 1)
    with LocalGroup() as group:
        return group.run([partial(function, k) for k in range(K)], seconds).values


class LocalGroup:
    """Processes that wait for work. `with LocalGroup() as group: group.run(calls)`; after an error it starts others."""

    def __init__(self) -> None:
        self._children: list[Child] = []
        self._reports: queue.SimpleQueue[tuple[int, int, tuple[Any, ...] | None]] = queue.SimpleQueue()
        self._jobs, self._group = count(), 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._prints: list[list[str]] = []
        self._answer: Callable[[int, Any], Any] | None = None
        self.diaries: list[list[Entry]] = []

    def __enter__(self) -> LocalGroup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def run(
        self,
        calls: Sequence[Callable[[], Any]],
        seconds: float = 30,
        answer: Callable[[int, Any], Any] | None = None,
    ) -> Results:
        """Call each of `calls` in a process of its own, all at once. Raises as `run_processes` does.

        answer: for calls that are judged, answers what process k asks meanwhile. What comes back is then plain data,
        since unpickling it would run what the processes send.
        """
        self._answer = answer
        bodies = [pack(call).body for call in calls]
        self.diaries, self._prints = [[] for _ in calls], [[] for _ in calls]
        try:
            folder = self._start(len(calls))
            number = next(self._jobs)
            paths = [folder / f"{number}.{rank}" for rank in range(len(calls))]
            job = {
                "size": len(calls),
                "seconds": seconds,
                "store": str(folder / f"{number}.store"),
                "judged": bool(answer),
            }
            for rank, body in enumerate(bodies):
                self._children[rank].send(pickle.dumps({**job, "body": body, "diary": str(paths[rank])}))
            values = self._hear(paths, seconds)
            self.diaries = [read(path) for path in paths]
            log = MessageLog(self.diaries, range(len(calls)))
            fault = log.mismatch() or log.leftover()
            if fault:
                raise ProcessError(*fault)
        except BaseException:
            self.stop()
            raise
        finally:
            for rank, texts in enumerate(self._prints):
                for line in "".join(texts).splitlines():
                    print(f"process {rank}: {line}")
        return Results(values, self.diaries)

    def stop(self) -> None:
        """Kill every process. They hold nothing that needs to be cleaned up."""
        for child in self._children:
            child.close()
        self._children = []
        if self._folder is not None:
            with suppress(OSError):
                self._folder.cleanup()
            self._folder = None
        self._group += 1

    def _start(self, K: int) -> Path:
        """Make sure that K processes wait for work; returns their folder."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="gpipe_edu_")
        path = [folder for folder in sys.path if isinstance(folder, str)]
        new = range(len(self._children), K)
        for rank in new:
            # Not in a session of its own: if we are killed because our time is over, it is killed, too.
            child = Child(
                _RANK,
                partial(self._receive, rank, self._group),
                start=as_this_process(),
                session=False,
                most=math.inf,
                **LOOPBACK,
            )
            self._children.append(child)
            child.send(pickle.dumps((rank, path)))
        waiting = set(new)
        limit = TimeLimit(lambda: [child.pid for child in self._children], _START * len(new))
        limit.begin()
        while waiting:
            limit.look()
            if limit.over or limit.kept_waiting:
                who = join_words([f"process {rank}" for rank in sorted(waiting)])
                message = f"{who} did not start within {limit.seconds:g} seconds"
                raise ProcessError("late", message, seconds=limit.seconds)
            with suppress(queue.Empty):
                rank, report = self._next(LOOK)
                if report is None:
                    raise ProcessError("died", f"process {rank} could not start: {self._children[rank].last_line()}")
                waiting.discard(rank)
        return Path(self._folder.name)

    def _hear(self, paths: Sequence[Path], seconds: float) -> list[Any]:
        """Wait for a value from every process."""
        values: dict[int, Any] = {}
        limit = TimeLimit(lambda: [child.pid for child in self._children], seconds)
        limit.begin()
        looked = monotonic()
        while len(values) < len(paths):
            if monotonic() > looked + LOOK:  # also while they ask one question after another
                looked = monotonic()
                limit.look()
                if limit.over or limit.kept_waiting:
                    self._raise_late(paths, seconds, values)
            try:
                rank, report = self._next(LOOK)
            except queue.Empty:
                deadlock = MessageLog([read(path) for path in paths], values).deadlock()
                if deadlock:
                    self._note(paths)
                    where = "".join(map(format_line, dict.fromkeys(deadlock.lines)))
                    raise ProcessError(deadlock.reason, deadlock.message + where, deadlock.lines) from None
                continue
            if report is None:
                self._raise_died(paths, rank)
            kind, *content = report
            if kind == "print":
                self._prints[rank] += content
            elif kind == "ask" and self._answer:
                self._children[rank].send(plain.encode(self._answer(rank, *content)))
                limit.answered()
            elif kind == "error":
                self._raise_error(paths, rank, *content)
            else:
                values[rank] = content[0] if self._answer else _unpickled(content[0])
            if limit.over and len(values) < len(paths):
                self._raise_late(paths, seconds, values)
        return [values[rank] for rank in range(len(paths))]

    def _note(self, paths: Sequence[Path]) -> None:
        self.diaries = [read(path) for path in paths]

    def _raise_late(self, paths: Sequence[Path], seconds: float, values: dict[int, Any]) -> NoReturn:
        self._note(paths)
        slow = [rank for rank in range(len(paths)) if rank not in values]
        lines = [line for rank in slow for line in self._children[rank].last_words() if not is_library_file(line.file)]
        who = " and ".join(f"process {rank}" for rank in slow)
        where = "".join(map(format_line, lines[:1]))
        raise ProcessError("late", f"{who} did not finish within {seconds:g} seconds{where}", lines, seconds)

    def _raise_died(self, paths: Sequence[Path], rank: int) -> NoReturn:
        self._note(paths)
        status = self._children[rank].status()
        mismatch: Fault | None = MessageLog(self.diaries).mismatch()
        if status < 0 and mismatch:  # gloo tears the whole process down
            raise ProcessError(mismatch.reason, f"process {rank} was torn down: {mismatch.message}", mismatch.lines)
        said = self._children[rank].last_line()
        if self._children[rank].flooded:
            said = f"it printed more than {FLOOD // 1_000_000} MB"
        raise ProcessError("died", f"process {rank} ended in the middle of its work, with status {status}: {said}")

    def _raise_error(
        self, paths: Sequence[Path], rank: int, body: Any, kind: str, reason: str, message: str, told: list[Any]
    ) -> NoReturn:
        """Raise the error of a process here; if its neighbour died before, report that instead."""
        if "onnection" in message:
            with suppress(queue.Empty):
                while True:
                    other, report = self._next(1.0)
                    if report is None:
                        self._raise_died(paths, other)
        self._note(paths)
        lines = [Line(*line) for line in told]
        if kind in ("SystemExit", "KeyboardInterrupt"):
            raise ProcessError("exit", f"process {rank} ended itself: {kind} {message}", lines)
        error: Exception = RuntimeError(f"{kind}: {message}")
        if self._answer:
            error = type(kind, (RuntimeError,), {"reason": reason})(message)
        else:
            with suppress(Exception):
                found = _unpickled(body)
                error = found if isinstance(found, Exception) else error
        where = "".join(format_line(line) for line in lines if not is_library_file(line.file))
        error.add_note(f"in process {rank}{where}")
        error.lines = lines  # type: ignore[attr-defined]
        raise error

    def _next(self, seconds: float) -> tuple[int, tuple[Any, ...] | None]:
        """The next report of this group; None for the end of a process. Raises queue.Empty."""
        deadline = monotonic() + seconds
        while True:
            rank, group, report = self._reports.get(timeout=max(0.001, deadline - monotonic()))
            if group == self._group:
                return rank, report

    def _receive(self, rank: int, group: int, data: bytes | None) -> None:
        report = None
        with suppress(Exception):  # a damaged report counts as the end of the process
            report = plain.decode(data or b"")
        self._reports.put((rank, group, report))


def _unpickled(body: Any) -> Any:
    return pickle.loads(body.tobytes())
