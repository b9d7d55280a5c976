"""What a check found, as plain data that travels between processes and into reports."""

from __future__ import annotations

from typing import NamedTuple

from gpipe_edu.validate import SaidPlainly

from .outside import Trouble


class Unwritten(SaidPlainly, NotImplementedError):
    """The function is still the stub, which raises NotImplementedError."""


class Chart(NamedTuple):
    """A schedule to draw: its rows in written form, and times per stage, or sizes of micro-batches.

    ticks: instead of rows, the forwards of each tick as (micro-batch, stage).
    """

    name: str
    rows: str
    F: float | list[float] = 1
    B: float | list[float] = 2
    sizes: list[float] | None = None
    ticks: list[list[tuple[int, int]]] | None = None


class Finding(NamedTuple):
    """The first thing that is wrong: the call, what was expected and what came, and the likely misconception.

    slip names the misconception; because says in a sentence what is wrong about it.
    """

    slip: str
    because: str
    call: str = ""
    expected: str = ""
    came: str = ""
    difference: str = ""
    charts: tuple[Chart, ...] = ()
    trouble: Trouble | None = None


class Success(NamedTuple):
    """What became of a right answer on the real engines."""

    words: str
    charts: tuple[Chart, ...] = ()


class Report(NamedTuple):
    """What a check found. state: "passed", "wrong" or "unwritten". passed_over: what was seen and did not end it."""

    key: str
    state: str
    seed: int
    calls: int = 0
    finding: Finding | None = None
    success: Success | None = None
    printed: str = ""
    passed_over: tuple[Finding, ...] = ()
