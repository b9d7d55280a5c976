"""A learner's function in a process of its own, which may hang, exit, print without end or patch what it likes.

The judge asks, the other side (`inside`) answers with plain data. It starts fresh, so nothing that was done to a
library in the notebook is there, and nothing that it does to a library reaches the judge. What it can't do is answer
late: then it is stopped, with everything that it has started.
"""

from __future__ import annotations

import queue
from collections.abc import Iterable, Sequence
from time import monotonic
from types import TracebackType
from typing import Any, Final, NamedTuple

from gpipe_edu.process import plain
from gpipe_edu.process.child import FLOOD, Child
from gpipe_edu.process.lines import Line
from gpipe_edu.process.packing import Packed

from . import inside

_START: Final = 60.0
"""Seconds for Python and its packages to load, which is no fault of the learner's."""


STOPPED: Final = ("stopped", "printed", "ended", "exit", "unreadable")
"""Kinds of trouble that are no error of Python's: out of time, printed too much, the process ended (by `exit`, too), or
sent what nobody can read."""


class Trouble(NamedTuple):
    """An error of the learner's code. kind: its type, or one of STOPPED.

    where: the learner's own lines on the way to it, outermost first. bases: the names of the type and its bases.
    seconds: how long it had, if it was stopped.
    """

    kind: str
    message: str
    where: tuple[Line, ...] = ()
    bases: tuple[str, ...] = ()
    seconds: float | None = None


class Reply(NamedTuple):
    """What a call gave: a value of plain data, or trouble."""

    value: Any = None
    trouble: Trouble | None = None


class Sandbox:
    """`with Sandbox(...) as ask: reply = ask(M=4)`; `seconds` is the time for all calls together."""

    def __init__(self, module: str, packed: Packed, seconds: float, path: Sequence[str] = ()) -> None:
        self._packed, self._limit, self._left = packed, seconds, seconds
        self._ended: Trouble | None = None
        self._replies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._child = Child(inside.__name__, self._replies.put)
        self._start = {
            "module": module,
            "path": list(path),
            "seconds": seconds,
            "sources": list(packed.sources),
            "missing": packed.missing,
        }

    def __enter__(self) -> Sandbox:
        try:
            self._child.send(plain.encode(self._start))
            self._child.send(self._packed.body)
            self._ended = self._receive(_START).trouble
        except BaseException:
            self._child.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close()

    def __call__(self, **given: Any) -> Reply:
        """Call the function with `given`, as the exercise's `perform` says. Never raises for the learner's sake."""
        if self._ended:
            return Reply(trouble=self._ended)
        started = monotonic()
        self._child.send(plain.encode(given))
        reply = self._receive(self._left)
        self._left -= monotonic() - started
        if reply.trouble and reply.trouble.kind in ("stopped", "printed", "ended", "unreadable"):
            self._ended = reply.trouble
        return reply

    @property
    def printed(self) -> str:
        """The beginning of what the function has printed; all of it is there once the process has ended."""
        return self._child.printed

    def lines(self, found: Iterable[tuple[Any, ...]]) -> tuple[Line, ...]:
        """Those of the lines (file, number, function) that are the learner's own, with their texts."""
        return self._packed.lines(found)

    def _receive(self, seconds: float) -> Reply:
        try:
            data = self._replies.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            self._child.kill()
            where = self.lines(self._child.last_words())
            return Reply(trouble=Trouble("stopped", "", where, seconds=self._limit))
        if data is None:
            printed = Trouble("printed", f"{FLOOD // 1_000_000} MB")
            return Reply(trouble=printed if self._child.flooded else Trouble("ended", ""))
        try:
            value, trouble = plain.decode(data)
            if trouble is None:
                return Reply(value)
            kind, message, where, bases = trouble
            return Reply(trouble=Trouble(str(kind), str(message), self.lines(where), tuple(map(str, bases))))
        except (ValueError, TypeError, LookupError):
            return Reply(trouble=Trouble("unreadable", ""))
