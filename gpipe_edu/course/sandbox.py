"""A learner's function in a process of its own, which may hang, exit, print without end or patch what it likes.

The judge asks, the other side answers with plain data. It starts fresh, so nothing that was done to a library in the
notebook is there, and nothing that it does to a library reaches the judge. What it can't do is answer late: then it is
stopped, with everything that it has started.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Final, NamedTuple

from . import child, plain
from .carry import Packed

_START: Final = 60.0
"""Seconds for Python and its packages to load, which is no fault of the learner's."""

_HEAD, _TAIL = 2_000, 20_000
"""Characters kept of what the function prints."""

_FLOOD: Final = 50_000_000
"""Bytes: whoever prints more is stopped."""


_DUMP: Final = "Timeout ("
"""What faulthandler writes first when time runs out."""


class Place(NamedTuple):
    """A line of the learner's: its number in the cell or file, the function it is in, and its text."""

    line: int
    function: str
    text: str


class Trouble(NamedTuple):
    """An error of the learner's code. kind: its type, or "stopped", "printed" (too much), "ended", "exit" or
    "unreadable".

    where: the learner's own lines on the way to it, outermost first. bases: the names of the type and its bases.
    """

    kind: str
    message: str
    where: tuple[Place, ...] = ()
    bases: tuple[str, ...] = ()


class Reply(NamedTuple):
    """What a call gave: a value of plain data, or trouble."""

    value: Any = None
    trouble: Trouble | None = None


class Sandbox:
    """`with Sandbox(...) as ask: answer = ask({"M": 4})`; `seconds` is the time for all calls together."""

    def __init__(self, module: str, packed: Packed, seconds: float, path: Sequence[str] = ()) -> None:
        self._packed, self._limit, self._left = packed, seconds, seconds
        self._ended: Trouble | None = None
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._head, self._tail = "", ""
        self._flooded = False
        root = str(Path(__file__).resolve().parents[2])
        code = f"import sys; sys.path.append({root!r}); from {child.__name__} import main; main()"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "PYTHONIOENCODING": "utf-8:replace"}
        environment["PYTHONUNBUFFERED"] = "1"  # or a process that is stopped takes with it what it has printed
        self._process = subprocess.Popen(
            # -P: a learner's random.py beside the notebook must not take the place of Python's.
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()
        self._drainer = threading.Thread(target=self._drain, daemon=True)
        self._drainer.start()
        self._start = {
            "module": module,
            "path": list(path),
            "seconds": seconds,
            "sources": list(packed.sources),
            "missing": packed.missing,
        }

    def __enter__(self) -> Sandbox:
        try:
            self._send(plain.encode(self._start))
            self._send(self._packed.body)
            self._ended = self._receive(_START).trouble
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()
        self._drainer.join(timeout=1)  # what was printed is all here then, unless somebody else keeps the pipe open
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def __call__(self, **given: Any) -> Reply:
        """Call the function with `given`, as the exercise's `perform` says. Never raises for the learner's sake."""
        if self._ended:
            return Reply(trouble=self._ended)
        started = monotonic()
        self._send(plain.encode(given))
        answer = self._receive(self._left)
        self._left -= monotonic() - started
        if answer.trouble and answer.trouble.kind in ("stopped", "printed", "ended", "unreadable"):
            self._ended = answer.trouble
        return answer

    @property
    def printed(self) -> str:
        """The beginning of what the function has printed; all of it is there once the process has ended."""
        return self._head.partition(_DUMP)[0]

    def _send(self, data: bytes) -> None:
        pipe = self._process.stdin
        with suppress(OSError):  # it has ended; the answer will say so
            if pipe is not None:
                pipe.write(len(data).to_bytes(8, "big") + data)
                pipe.flush()

    def _receive(self, seconds: float) -> Reply:
        try:
            data = self._answers.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            self._kill()
            return Reply(trouble=Trouble("stopped", f"{self._limit:g}", self._last_lines()))
        if data is None:
            printed = Trouble("printed", f"{_FLOOD // 1_000_000} MB")
            return Reply(trouble=printed if self._flooded else Trouble("ended", ""))
        try:
            value, trouble = plain.decode(data)
            if trouble is None:
                return Reply(value)
            kind, message, where, bases = trouble
            return Reply(trouble=Trouble(str(kind), str(message), self.places(where), tuple(map(str, bases))))
        except (ValueError, TypeError):
            return Reply(trouble=Trouble("unreadable", ""))

    def _listen(self) -> None:
        pipe = self._process.stdout
        try:
            while pipe is not None:
                size = int.from_bytes(_exactly(pipe, 8), "big")
                self._answers.put(_exactly(pipe, size))
        except (EOFError, OSError, ValueError, MemoryError, OverflowError):
            self._answers.put(None)

    def _drain(self) -> None:
        """Read whatever is printed, so that the pipe never fills, and keep a little of it. A flood ends the process."""
        pipe, size = self._process.stderr, 0
        with suppress(OSError, ValueError):
            while pipe is not None and (data := os.read(pipe.fileno(), 65536)):
                size += len(data)
                if size > _FLOOD:
                    self._flooded = True
                    self._kill()
                    return
                text = data.decode(errors="replace")
                self._head = (self._head + text)[:_HEAD] if len(self._head) < _HEAD else self._head
                self._tail = (self._tail + text)[-_TAIL:]

    def _last_lines(self) -> tuple[Place, ...]:
        """Where the function was just before it was stopped: its process wrote that down in time."""
        _, _, dump = self._tail.rpartition(_DUMP)
        found = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', dump)
        return self.places(found[::-1])

    def places(self, frames: Iterable[tuple[str, Any, str]]) -> tuple[Place, ...]:
        """The frames that are in the learner's own code, with the text of their lines."""
        places = []
        for file, line, name in frames:
            if file in self._packed.sources:
                lines = self._packed.sources[file].splitlines()
                text = lines[int(line) - 1].strip() if 0 < int(line) <= len(lines) else ""
                places.append(Place(int(line), str(name), text))
        return tuple(places)

    def _kill(self) -> None:
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(OSError):
            self._process.kill()
        self._process.wait()


def _exactly(pipe: Any, size: int) -> bytes:
    pieces = []
    while size:
        piece = pipe.read(min(size, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
