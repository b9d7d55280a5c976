"""A line of a learner's code, as errors, deadlocks and timeouts point at it."""

from __future__ import annotations

import io
import traceback
from typing import NamedTuple


class Line(NamedTuple):
    """Its file or cell, its number there, the function it is in, and its text where that has been looked up."""

    file: str
    number: int
    function: str
    text: str = ""


def lines_of(source: str) -> list[str]:
    """The lines of a source as Python counts them, with "\\n" at the end of each; `str.splitlines` counts more."""
    return list(io.StringIO(source, newline=None))


def lines_to(error: BaseException) -> list[Line]:
    """The lines that led to `error`, outermost first."""
    return [Line(frame.filename, frame.lineno or 0, frame.name) for frame in traceback.extract_tb(error.__traceback__)]
