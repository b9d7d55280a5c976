"""A learner's function in the judge's own process, for where there are no others: Python in a browser.

It answers as `LearnerProcess` does: values travel as the same plain data, what would give the answer away is hidden
while the learner's function runs, endless loops and endless printing are ended. What it can't do, because
nothing stands outside: stop a loop inside a C function or one that catches everything (`except:`), survive `os._exit`,
limit memory, or judge with a NumPy that the notebook has not touched. Then the kernel has to be restarted; answers that
were kept are still there.
"""

from __future__ import annotations

import builtins
import importlib
import io
import sys
import warnings
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from time import process_time
from types import FrameType
from typing import Any, Final

from gpipe_edu.process import plain
from gpipe_edu.process.asking import Ask, asking
from gpipe_edu.process.child import FLOOD, KEPT
from gpipe_edu.process.lines import Line, lines_to
from gpipe_edu.process.packing import Packed, unpack_a_copy
from gpipe_edu.process.parent import look_also_in

from .findings import CUT_SHORT, Reply, Trouble
from .guest.error_text import describe_error
from .guest.hiding import Hidden
from .guest.main import format_text_only

_SLOWER: Final = 3 if sys.platform == "emscripten" else 1
"""WebAssembly takes its time, and so does looking at the clock at every line."""


class SameProcess:
    """`with SameProcess(...) as ask: reply = ask(M=4)`; `seconds` is the time for all calls together."""

    def __init__(self, module: str, packed: Packed, seconds: float, path: Sequence[str] = ()) -> None:
        self._packed, self._left = packed, _SLOWER * seconds
        self._limit = self._left
        self._ended: Trouble | None = None
        self._out = _Capped()
        self._function: Any = None
        self._exercise: Any = importlib.import_module(module)
        self._hidden = Hidden(getattr(self._exercise, "HIDDEN", {}))
        look_also_in(path)

    def __enter__(self) -> SameProcess:
        self._ended = self._run(lambda: setattr(self, "_function", unpack_a_copy(self._packed.body))).trouble
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __call__(self, answer: Ask | None = None, /, **given: Any) -> Reply:
        """As `LearnerProcess` does."""
        if self._ended:
            return Reply(trouble=self._ended)
        question = plain.decode(plain.encode(given))
        with asking(answer or _refuse_question):
            reply = self._run(lambda: self._exercise.perform(self._function, **question))
        if reply.trouble and reply.trouble.kind in CUT_SHORT:
            self._ended = reply.trouble
        return reply

    @property
    def printed(self) -> str:
        """The beginning of what the function has printed."""
        return self._out.head

    def lines(self, found: Iterable[tuple[Any, ...]]) -> tuple[Line, ...]:
        """Those of the lines (file, number, function) that are the learner's own, with their texts."""
        return self._packed.lines(found)

    def _run(self, call: Any) -> Reply:
        started = process_time()
        try:
            with self._hidden, _redirect(self._out), _end_after(self._left, self._packed.sources):
                value = call()
            return Reply(plain.decode(plain.encode(value)))
        except _TimeIsUp as error:
            return Reply(trouble=Trouble("stopped", "", self.lines(lines_to(error)), seconds=self._limit))
        except _Flood:
            return Reply(trouble=Trouble("printed", f"{FLOOD // 1_000_000} MB"))
        except BaseException as error:  # sys.exit too
            kind, message, where, bases = describe_error(error, self._packed.sources, self._packed.missing)
            return Reply(trouble=Trouble(kind, message, self.lines(where), tuple(bases)))
        finally:
            self._left -= process_time() - started


class _TimeIsUp(BaseException):
    """Not an Exception, so that a learner's `except Exception` lets it pass."""


class _Flood(BaseException):
    pass


class _Capped(io.TextIOBase):
    """Keeps the beginning of what is printed, and ends a function that prints without end."""

    def __init__(self) -> None:
        self.head, self._size = "", 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._size += len(text)
        if len(self.head) < KEPT:
            self.head = (self.head + text)[:KEPT]
        if self._size > FLOOD:
            raise _Flood
        return len(text)


@contextmanager
def _redirect(out: _Capped) -> Iterator[None]:
    """What is printed goes to `out`, and no `input` is answered: a page would ask, and wait."""
    ask, words = builtins.input, warnings.formatwarning
    builtins.input, warnings.formatwarning = _refuse_input, format_text_only
    try:
        with redirect_stdout(out), redirect_stderr(out):
            yield
    finally:
        builtins.input, warnings.formatwarning = ask, words


def _refuse_question(question: Any) -> Any:
    raise RuntimeError("this judge answers no questions")


def _refuse_input(prompt: object = "") -> str:
    raise EOFError("nobody answers here")


@contextmanager
def _end_after(seconds: float, files: Container[str]) -> Iterator[None]:
    """Raise _TimeIsUp at the first line of a learner's file that begins after `seconds` of CPU time from now.

    A browser has only time on the clock for it; elsewhere time spent waiting for other programs does not count.
    """
    end = process_time() + seconds

    def at_a_line(frame: FrameType, event: str, argument: Any) -> Any:
        if process_time() > end:
            raise _TimeIsUp
        return at_a_line

    def at_a_call(frame: FrameType, event: str, argument: Any) -> Any:
        return at_a_line if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    sys.settrace(at_a_call)
    try:
        yield
    finally:
        sys.settrace(before)
