"""`check("ex01/splitting", split)`: is this function right, and if not, what is the first thing that is wrong with it?

One plain function for notebooks, tests, graders and terminals. A wrong answer raises, so that graders that only look
for errors see it too; by then the learner has been shown the report.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from typing import Any

from gpipe_edu.judge.case import Tell
from gpipe_edu.judge.exercise import Exercise, find_exercise
from gpipe_edu.judge.findings import Report, Unwritten
from gpipe_edu.judge.judging import NotJudged
from gpipe_edu.judge.pool import judge_apart
from gpipe_edu.process.packing import Packed, pack

from . import tries_and_hints
from .notebook import frontend, output
from .notebook.earlier_text import earlier_text
from .report import as_markdown, cost, dot, drawings, headline
from .waiting import in_a_notebook


class NotYet(AssertionError):
    """An answer that is not right yet; the report is in `.report`."""

    def __init__(self, report: Report) -> None:
        super().__init__(f"{headline(report)} {report.finding.because if report.finding else ''}".strip())
        self.report = report

    def _render_traceback_(self) -> list[str]:
        """In a notebook the report stands above; a traceback of ours would only be noise."""
        return [headline(self.report)]


def check(key: str, function: Callable[..., Any], seed: int | None = None) -> None:
    """Judge `function` as the answer to the task `key` and show what was found.

    The function runs in a process of its own, with new inputs each time; `seed` draws those of an earlier check.
    Says first if the function is older than the last text of its cell, which then ended in an error. An answer that is
    right except for a promise outside the algorithm counts as solved, and the report says what it breaks.
    Raises NotYet for a wrong answer, NotImplementedError for one that is not written yet, TypeError or ValueError for
    arguments that make no sense, RuntimeError if no verdict was possible, for example on a machine that is too busy.
    """
    exercise = find_exercise(key)
    if not callable(function) or isinstance(function, str):
        raise TypeError(
            f"check takes the function itself, without calling it: check({exercise.key!r}, {exercise.function}); "
            f"got {type(function).__name__}"
        )
    if isinstance(seed, bool) or not isinstance(seed, int | None):
        raise TypeError(f"seed is {seed!r}; it must be the whole number that an earlier check has printed")
    if older := earlier_text(function):
        output.show(older)
    with in_a_notebook(exercise) as tell:
        judge_and_show(exercise, pack(function), seed, tell)


def judge_and_show(exercise: Exercise, packed: Packed, seed: int | None = None, tell: Tell | None = None) -> None:
    """What `check` does with a packed function, for callers that have packed it themselves. Raises as `check`.

    tell: what is told of each case that begins, and of case 0 when the verdict is there.
    """
    seed = secrets.randbelow(10**6) if seed is None else seed
    path = [folder for folder in sys.path if isinstance(folder, str)]
    try:
        report = judge_apart(exercise, packed, seed, path, tell)
    except NotJudged as error:
        if not error.busy:
            raise
        report = judge_apart(exercise, packed, seed, path, tell)
    if tell:
        tell(0, "")
    if report.state == "unwritten":
        raise Unwritten(headline(report))
    trouble = tries_and_hints.record(report, packed.digest)
    show(report, trouble)
    if report.state == "wrong":
        raise NotYet(report)


def show(report: Report, trouble: str = "") -> None:
    """Display the report in a notebook, print it elsewhere."""
    parts = dot(report) + as_markdown(report), cost(report), tries_and_hints.offer(report.exercise), trouble
    output.show("\n\n".join(filter(None, parts)))
    source = report.first or report.success
    drawn = drawings(source.charts if source else ())
    if not drawn:
        return
    notebook = frontend.current()
    if notebook:
        from gpipe_edu.view.compare import compare

        notebook.display(compare(*drawn))
    else:
        from gpipe_edu.view.text import in_text

        print("", *map(in_text, drawn), sep="\n")
