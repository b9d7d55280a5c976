"""What an exercise asks for, and what a check can say about an answer: plain data that travels between processes.

A task is a module in `checks/`. It has

    TASK                    a `Task`
    HIDDEN                  optional: names of this package that would give the answer away, hidden from the function
    unpack                  optional: `packing.Forwarded`, if `perform` hands the function on to other processes
    perform(function, ...)  calls the learner's function with plain data; runs in the learner's process
    examine(examiner, rng)  judges what comes back, and raises `Wrong` at the first thing that is; runs in the judge's
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from .sandbox import Trouble

CHECKS: Final = {
    "01-splitting": "splitting",
    "02-clock": "clock",
    "02-f-then-b": "f_then_b",
    "03-accumulation": "accumulation",
    "04-stage": "remat",
    "04-checkpoint": "checkpoint",
    "05-stages": "wrapper_stages",
    "05-wrapper": "wrapper",
    "06-partition": "partition",
    "07-1f1b": "one_f_one_b",
    "08-batchnorm": "batchnorm",
    "09-early": "early",
    "09-cap": "cap",
    "10-processes": "processes",
}
"""The key of every task and its module in `checks/`, in reading order."""


class Task(NamedTuple):
    """One function that a learner writes. seconds: how long all calls of a check may take together."""

    key: str
    function: str
    title: str
    notebook: str
    hints: tuple[str, str, str]
    seconds: float = 4.0


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
    """What a check found. state: "passed", "wrong" or "unwritten"."""

    key: str
    state: str
    seed: int
    calls: int = 0
    finding: Finding | None = None
    success: Success | None = None
    printed: str = ""


class Wrong(Exception):
    """Raised by `examine` with the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.because)
        self.finding = finding


Blame = Callable[..., Wrong]
"""In a check, for the call at hand: (slip, because, ...) -> the error to raise."""


class Unwritten(NotImplementedError):
    """The function still raises NotImplementedError."""

    def _render_traceback_(self) -> list[str]:
        """In a notebook the sentence is what helps, not the calls that led to it."""
        return [f"{type(self).__name__}: {self}"]


def module_of(key: str) -> Any:
    """The module of the task `key`. Raises TypeError, ValueError for what is no key, naming those that are."""
    if not isinstance(key, str):
        raise TypeError(f'the exercise is {key!r}; it must be a key such as "{next(iter(CHECKS))}"')
    if key not in CHECKS:
        near = difflib.get_close_matches(key, CHECKS, n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise ValueError(f"there is no exercise {key!r}; there are {', '.join(CHECKS)}{hint}")
    return importlib.import_module(f"{__package__}.checks.{CHECKS[key]}")


def task_of(key: str) -> Task:
    """The task `key`. Raises as `module_of` does."""
    task: Task = module_of(key).TASK
    return task
