"""Where a process is just before its time is up: it writes down its stack when it is asked to.

Python's faulthandler does that without the interpreter, so it works in a deadlock or an endless loop in C. It is
triggered by a signal; where there are none, by a timer.
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
    """In the block, `ask` makes this process write its stack to standard error; without signals, it does so after
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
        else:  # a signal that comes late must not kill us
            faulthandler.unregister(_SIGNAL)
            with suppress(ValueError):  # not the main thread
                signal.signal(_SIGNAL, signal.SIG_IGN)


def ask(pid: int) -> bool:
    """Ask a process for its stack; returns whether it will write it now."""
    if _SIGNAL is None:
        return False
    with suppress(OSError):
        os.kill(pid, _SIGNAL)
        return True
    return False


def read(text: str) -> list[Line]:
    """The stack that a process has written to standard error, outermost first; [] if it did not."""
    first = _FIRST.search(text)
    found = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', text[first.start() :] if first else "")
    return [Line(file, int(number), function) for file, number, function in found[::-1]]


def text_before(text: str) -> str:
    """What the process wrote to standard error before its stack."""
    first = _FIRST.search(text)
    return text[: first.start()] if first else text
