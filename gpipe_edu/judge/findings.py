"""What a check found, as plain data that travels between processes and into reports."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gpipe_edu.base.validate import SaidPlainly
from gpipe_edu.process.lines import Line

from .exercise import Exercise, find_exercise

CUT_SHORT: Final = ("stopped", "printed", "crowd")
"""Kinds of trouble of what would have gone on: out of time, printed too much, started too many processes."""

STOPPED: Final = (*CUT_SHORT, "ended", "exit", "unreadable")
"""Kinds of trouble that are not Python errors: besides, the process ended (by `exit`, too), or sent what can't be
read."""


GROWS: Final = "it took more and more memory"
"""The message of what was stopped while it did."""


class Trouble(NamedTuple):
    """An error of the learner's code. kind: its type, or one of STOPPED. message: if it was stopped, GROWS or none.

    where: the learner's own lines on the way to it, outermost first. bases: the names of the type and its bases.
    seconds: how long it had, if it was stopped.
    """

    kind: str
    message: str
    where: tuple[Line, ...] = ()
    bases: tuple[str, ...] = ()
    seconds: float | None = None


class Reply(NamedTuple):
    """What a call gave: a value of plain data, or trouble. grew: whether it took far more memory than right answers."""

    value: Any = None
    trouble: Trouble | None = None
    grew: bool = False


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
    """What a check found. state: "passed", "wrong" or "unwritten". passed_over: the promises that were seen broken; an
    answer that passed is right but for these.
    """

    key: str
    state: str
    seed: int
    calls: int = 0
    finding: Finding | None = None
    success: Success | None = None
    printed: str = ""
    passed_over: tuple[Finding, ...] = ()

    @property
    def exercise(self) -> Exercise:
        """The exercise whose answer was checked; only its key travels."""
        return find_exercise(self.key)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that was found, in the order in which it showed."""
        return (*self.passed_over, self.finding) if self.finding else self.passed_over

    @property
    def first(self) -> Finding | None:
        """What is said of the answer first: what is wrong with it, or else the promise that it breaks."""
        return self.finding or next(iter(self.passed_over), None)
