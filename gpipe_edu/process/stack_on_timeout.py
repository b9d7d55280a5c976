"""Where a process is just before its time is over: it writes that down while it still can, when it is asked to.

Python's own faulthandler does so without the interpreter, so a deadlock or an endless loop in C does not prevent it. It
is asked by a signal; where there are none, it has to look at the clock itself.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from .lines import Line

_FIRST: Final = re.compile(r"^(Timeout \(|(Current t|T)hread 0x)", re.MULTILINE)
"""What faulthandler writes first."""

_SIGNAL: Final[int | None] = getattr(signal, "SIGUSR1", None)


@contextmanager
def prepare(seconds: float) -> Iterator[None]:
    """In the block, `ask` makes this process write its lines to standard error; without signals, it does after
    `seconds`.
    """
    if _SIGNAL is not None:
        faulthandler.register(_SIGNAL, file=2)
    else:
        faulthandler.dump_traceback_later(max(0.01, seconds), exit=False, file=2)
    try:
        yield
    finally:
        if _SIGNAL is None:
            faulthandler.cancel_dump_traceback_later()
        else:  # a question that comes late must not end us
            faulthandler.unregister(_SIGNAL)
            with suppress(ValueError):  # not the main thread
                signal.signal(_SIGNAL, signal.SIG_IGN)


def ask(pid: int) -> bool:
    """Ask a process for its last words; whether it will write any now."""
    if _SIGNAL is None:
        return False
    with suppress(OSError):
        os.kill(pid, _SIGNAL)
        return True
    return False


def read(text: str) -> list[Line]:
    """The lines in what a process has written to standard error, outermost first; [] if it did not come to that."""
    first = _FIRST.search(text)
    found = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', text[first.start() :] if first else "")
    return [Line(file, int(number), function) for file, number, function in found[::-1]]


def text_before(text: str) -> str:
    """What the process had written before."""
    first = _FIRST.search(text)
    return text[: first.start()] if first else text
