"""Where a process is just before its time is over: it writes that down while it still can, and nobody need ask it.

Python's own faulthandler does so from a thread of its own, so a deadlock or an endless loop in C does not prevent it.
"""

from __future__ import annotations

import faulthandler
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from .lines import Line

_FIRST: Final = "Timeout ("
"""What faulthandler writes first."""


@contextmanager
def written_after(seconds: float) -> Iterator[None]:
    """Write the lines that run to standard error, if the block has not ended by then."""
    faulthandler.dump_traceback_later(max(0.01, seconds), exit=False, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def read(text: str) -> list[Line]:
    """The lines in what a process has written to standard error, outermost first; [] if it did not come to that."""
    _, _, dump = text.rpartition(_FIRST)
    found = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', dump)
    return [Line(file, int(number), function) for file, number, function in found[::-1]]


def without(text: str) -> str:
    """What the process had written before."""
    return text.partition(_FIRST)[0]
