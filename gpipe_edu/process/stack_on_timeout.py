"""Where a process is just before its time is up: it writes down its stack when it is asked to.

Python's faulthandler does that without the interpreter, so it works in a deadlock or an endless loop in C. It is
triggered by a signal; where there are none, by a timer.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import time
from contextlib import suppress
from typing import Final

from .lines import Line

_FIRST: Final = re.compile(r"^(Timeout \(|(Current t|T)hread 0x)", re.MULTILINE)
"""What faulthandler writes first."""

_LAST: Final = re.compile(r"^  (File .* in <module>|\.\.\.)\n|(^  File .*\n){100}", re.MULTILINE)
"""What it writes last: the main thread's outermost call, or as many as it lists, behind which 3.13 has no more dots."""

_SIGNAL: Final[int | None] = getattr(signal, "SIGUSR1", None)


class Prepared:
    """In its blocks, `ask` makes this process write its stack to standard error; without signals, it does so once the
    blocks have lasted `seconds` together.
    """

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    def __enter__(self) -> None:
        self._begun = time.monotonic()
        if _SIGNAL is not None:
            faulthandler.register(_SIGNAL, file=2)
        else:
            faulthandler.dump_traceback_later(max(0.01, self._left), exit=False, file=2)

    def __exit__(self, *error: object) -> None:
        self._left -= time.monotonic() - self._begun
        if _SIGNAL is None:
            faulthandler.cancel_dump_traceback_later()
        else:  # a signal that comes late must not kill us
            faulthandler.unregister(_SIGNAL)
            with suppress(ValueError):  # not the main thread
                signal.signal(_SIGNAL, signal.SIG_IGN)


def ask(pid: int) -> None:
    """Ask a process for its stack. Without signals it writes it unasked, timed from when it got its question."""
    if _SIGNAL is not None:
        with suppress(OSError):
            os.kill(pid, _SIGNAL)


def read(text: str) -> list[Line]:
    """The stack that a process has written to standard error, outermost first; [] if it did not."""
    first = _FIRST.search(text)
    found = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', text[first.start() :] if first else "")
    return [Line(file, int(number), function) for file, number, function in found[::-1]]


def is_complete(text: str) -> bool:
    """Whether a stack has been written, and to its end."""
    first = _FIRST.search(text)
    return bool(first and _LAST.search(text, first.end()))


def text_before(text: str) -> str:
    """What the process wrote to standard error before its stack."""
    first = _FIRST.search(text)
    return text[: first.start()] if first else text
