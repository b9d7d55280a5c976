"""Several processes for one function: start them, hand them their work, hear from them, and end them all.

    for every process:  a pipe with jobs to it, a pipe with reports from it, and its diary (see `diary`)
    until all report:   a report ends the wait for its process; an error ends everything;
                        silence is looked into: do they wait for each other, or is the time over?

They are started afresh, not forked, so this works the same on Linux, macOS and Windows.
"""

from __future__ import annotations

import os
import pickle
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Final, NamedTuple, NoReturn

from gpipe_edu.course.carry import pack
from gpipe_edu.validate import whole

from .diary import Entry, hidden, read
from .failure import Place, ProcessError, shown
from .traffic import Traffic, Trouble

_START: Final = 60.0
"""Seconds for Python and PyTorch to load."""

_LOOPBACK: Final = {"linux": "lo", "darwin": "lo0"}
"""gloo talks through this interface; on Windows it finds it by itself."""


class Outcome(NamedTuple):
    """values: what each process gave back. diaries: what each noted."""

    values: list[Any]
    diaries: list[list[Entry]]


def run_processes(function: Callable[..., Any], K: int, seconds: float = 30) -> list[Any]:
    """`[function(0), function(1), ...]`, each call in a process of its own, all K at the same time.

    The processes are a gloo group, so they can use `torch.distributed`. What they print is printed here. Raises the
    function's own error; ProcessError if they wait for each other, take longer than `seconds`, or one has ended itself.
    """
    whole("K", K, 1)
    with Crew() as crew:
        return crew.run([partial(function, k) for k in range(K)], seconds).values


class Crew:
    """Processes that wait for work. `with Crew() as crew: crew.run(calls)`; after an error it starts new ones."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._reports: queue.SimpleQueue[tuple[int, int, tuple[Any, ...] | None]] = queue.SimpleQueue()
        self._jobs, self._crew = count(), 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._prints: list[list[str]] = []
        self.diaries: list[list[Entry]] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def run(self, calls: Sequence[Callable[[], Any]], seconds: float = 30) -> Outcome:
        """Call each of `calls` in a process of its own, all at once. Raises as `run_processes` does."""
        bodies = [pack(call).body for call in calls]
        self.diaries, self._prints = [[] for _ in calls], [[] for _ in calls]
        try:
            folder = self._start(len(calls))
            number = next(self._jobs)
            paths = [folder / f"{number}.{rank}" for rank in range(len(calls))]
            job = {"size": len(calls), "seconds": seconds, "store": str(folder / f"{number}.store")}
            for rank, body in enumerate(bodies):
                self._send(rank, pickle.dumps({**job, "body": body, "diary": str(paths[rank])}))
            values = self._hear(paths, seconds)
            self.diaries = [read(path) for path in paths]
            traffic = Traffic(self.diaries, range(len(calls)))
            trouble = traffic.unlike() or traffic.careless()
            if trouble:
                raise ProcessError(*trouble)
        except BaseException:
            self.stop()
            raise
        finally:
            for rank, texts in enumerate(self._prints):
                for line in "".join(texts).splitlines():
                    print(f"process {rank}: {line}")
        return Outcome(values, self.diaries)

    def stop(self) -> None:
        """End every process. They hold nothing that needs a farewell."""
        for process in self._processes:
            with suppress(OSError):
                process.kill()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stderr):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
        self._processes = []
        if self._folder is not None:
            with suppress(OSError):
                self._folder.cleanup()
            self._folder = None
        self._crew += 1

    def _start(self, K: int) -> Path:
        """Make sure that K processes wait for work; returns their folder."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="gpipe_edu_")
        root = str(Path(__file__).resolve().parents[2])
        code = f"import sys; sys.path.append({root!r}); from {__package__}.rank import main; main()"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8:replace"}
        if sys.platform in _LOOPBACK:
            environment["GLOO_SOCKET_IFNAME"] = _LOOPBACK[sys.platform]
        new = range(len(self._processes), K)
        for rank in new:
            with open(self._errors(rank), "wb") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-c", code],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=environment,
                )
            self._processes.append(process)
            threading.Thread(target=self._listen, args=(rank, self._crew, process), daemon=True).start()
            self._send(rank, pickle.dumps((rank, [folder for folder in sys.path if isinstance(folder, str)])))
        waiting, deadline = set(new), monotonic() + _START
        while waiting:
            rank, report = self._next(deadline - monotonic())
            if report is None:
                raise ProcessError("died", f"process {rank} could not start: {self._said(rank)}")
            waiting.discard(rank)
        return Path(self._folder.name)

    def _hear(self, paths: Sequence[Path], seconds: float) -> list[Any]:
        """Wait for a value from every process."""
        values: dict[int, Any] = {}
        deadline = monotonic() + seconds
        while len(values) < len(paths):
            try:
                rank, report = self._next(0.1)
            except queue.Empty:
                stuck = Traffic([read(path) for path in paths], values).stuck()
                if stuck:
                    self._note(paths)
                    lines = "".join(shown(place) for place in dict.fromkeys(stuck.places))
                    raise ProcessError(stuck.reason, stuck.message + lines, stuck.places) from None
                if monotonic() > deadline:
                    self._late(paths, seconds, values)
                continue
            if report is None:
                self._died(paths, rank)
            kind, *content = report
            if kind == "print":
                self._prints[rank] += content
            elif kind == "error":
                self._failed(paths, rank, *content)
            else:
                values[rank] = pickle.loads(content[0])
            if monotonic() > deadline and len(values) < len(paths):
                self._late(paths, seconds, values)
        return [values[rank] for rank in range(len(paths))]

    def _note(self, paths: Sequence[Path]) -> None:
        self.diaries = [read(path) for path in paths]

    def _late(self, paths: Sequence[Path], seconds: float, values: dict[int, Any]) -> NoReturn:
        self._note(paths)
        slow = [rank for rank in range(len(paths)) if rank not in values]
        places = [place for rank in slow for place in self._last_lines(rank)]
        who = " and ".join(f"process {rank}" for rank in slow)
        where = "".join(shown(place) for place in places[:1])
        raise ProcessError("late", f"{who} did not finish within {seconds:g} seconds{where}", places)

    def _died(self, paths: Sequence[Path], rank: int) -> NoReturn:
        self._note(paths)
        status = self._processes[rank].wait()
        unlike: Trouble | None = Traffic(self.diaries).unlike()
        if status < 0 and unlike:  # gloo tears the whole process down
            raise ProcessError(unlike.reason, f"process {rank} was torn down: {unlike.message}", unlike.places)
        said = self._said(rank)
        raise ProcessError("died", f"process {rank} ended in the middle of its work, with status {status}: {said}")

    def _failed(
        self, paths: Sequence[Path], rank: int, body: bytes | None, kind: str, message: str, frames: list[Place]
    ) -> NoReturn:
        """Raise the error of a process here; if its neighbour has died before, say that instead."""
        if "onnection" in message:
            with suppress(queue.Empty):
                while True:
                    other, report = self._next(1.0)
                    if report is None:
                        self._died(paths, other)
        self._note(paths)
        if kind in ("SystemExit", "KeyboardInterrupt"):
            raise ProcessError("exit", f"process {rank} ended itself: {kind} {message}", frames)
        error: Exception = RuntimeError(f"{kind}: {message}")
        with suppress(Exception):
            found = pickle.loads(body or b"")
            error = found if isinstance(found, Exception) else error
        error.add_note(f"in process {rank}{''.join(shown(frame) for frame in frames if not hidden(frame[0]))}")
        error.places = frames  # type: ignore[attr-defined]
        raise error

    def _send(self, rank: int, data: bytes) -> None:
        pipe = self._processes[rank].stdin
        with suppress(OSError):  # it has died; its pipe will say so
            if pipe is not None:
                pipe.write(len(data).to_bytes(8, "big") + data)
                pipe.flush()

    def _next(self, seconds: float) -> tuple[int, tuple[Any, ...] | None]:
        """The next report of this crew; None for the end of a process. Raises queue.Empty."""
        deadline = monotonic() + seconds
        while True:
            rank, crew, report = self._reports.get(timeout=max(0.001, deadline - monotonic()))
            if crew == self._crew:
                return rank, report

    def _listen(self, rank: int, crew: int, process: subprocess.Popen[bytes]) -> None:
        pipe = process.stdout
        with suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
            while pipe is not None:
                head = pipe.read(8)
                data = pipe.read(int.from_bytes(head, "big")) if len(head) == 8 else b""
                if not data:
                    break
                self._reports.put((rank, crew, pickle.loads(data)))
        if pipe is not None:
            pipe.close()
        self._reports.put((rank, crew, None))

    def _errors(self, rank: int) -> Path:
        return Path(self._folder.name if self._folder else "") / f"{rank}.err"

    def _said(self, rank: int) -> str:
        lines = self._errors(rank).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _last_lines(self, rank: int) -> list[Place]:
        """Where a process was just before its time was over: it has written that down."""
        text = self._errors(rank).read_text(errors="replace")
        found = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', text.rpartition("Timeout (")[2])
        return [(file, int(line), name) for file, line, name in found[::-1] if not hidden(file)]
