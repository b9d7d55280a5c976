"""The judge: calls a learner's function with new inputs, and says what is wrong with the first bad answer.

It runs in a process of its own, because what a notebook has done to NumPy must not reach the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from gpipe_edu.base.validate import SaidPlainly
from gpipe_edu.judge.findings import Chart, Finding, Report, Success, Trouble, Unwritten
from gpipe_edu.judge.learner_process import LearnerProcess, MachineBusy
from gpipe_edu.judge.same_process import SameProcess
from gpipe_edu.process.child import Start, fresh
from gpipe_edu.process.enclosure import Enclosure
from gpipe_edu.process.lines import Line
from gpipe_edu.process.packing import Packed

from .case import Exam, Sign, Tell, Wrong
from .exercise import Exercise
from .leaks_between_calls import is_right_alone, is_worth_asking

STRICT = False
"""In tests: an error of the judge's own is raised."""


class NotJudged(SaidPlainly, RuntimeError):
    """There is no verdict on an answer, for a reason that need not be the answer's. busy: it was the machine's."""

    def __init__(self, why: str, busy: bool = False) -> None:
        super().__init__(f"Your answer was not judged: {why}")
        self.why, self.busy = why, busy


def judge(
    exercise: Exercise,
    packed: Packed,
    seed: int,
    path: Sequence[str] = (),
    *,
    enclosure: Enclosure | None = None,
    start: Start = fresh,
    same_process: bool = False,
    tell: Tell | None = None,
) -> Report:
    """Examine one function with the inputs of `seed`. `path`: where the learner's own modules are found.

    enclosure: where the learner's process runs, if not as the learner. start: how it is started. same_process: use this
    one, as a browser has no other. tell: what is told of each case that begins. Raises MachineBusy on a machine that is
    too busy, NotJudged where an enclosure would stand open, or where what answers need is missing.
    """
    if exercise.lacks:
        raise NotJudged(exercise.lacks)
    answers = _AnswerProcess(
        exercise, packed, path, enclosure, SameProcess if same_process else partial(LearnerProcess, start=start)
    )
    with answers.open() as process:
        exam = Exam(exercise, process, seed, tell, answers.open)
        finding, success, state, doubtful = None, None, "wrong", None
        try:
            success, state = exercise.check.examine(exam, Random(seed)), "passed"
        except Wrong as wrong:
            finding, doubtful = wrong.finding, wrong if is_worth_asking(exam, wrong) else None
        except Unwritten:
            state = "unwritten"
        except MachineBusy:
            raise
        except Exception:  # an answer so strange that judging it failed is no right one, and no reason for a traceback
            if STRICT:
                raise
            finding = exam.case().wrong(Sign("strange")).finding
    if doubtful and answers.is_right_alone(exam, doubtful, seed):
        finding = doubtful.finding._replace(slip="stays", because=exercise.sentence("stays", {}))
    over = tuple(exam.passed_over)
    return Report(exercise.key, state, seed, exam.calls, finding, success, process.printed, over)


_TRIES: Final = 8


class _AnswerProcess(NamedTuple):
    """Where an answer runs."""

    exercise: Exercise
    packed: Packed
    path: Sequence[str]
    enclosure: Enclosure | None
    kind: Callable[..., Any]

    def is_right_alone(self, exam: Exam, wrong: Wrong, seed: int) -> bool:
        """Whether a wrong reply is right in each new process: a random one is right only in some, by chance."""
        for _ in range(_TRIES):
            with self.open() as fresh:
                if not is_right_alone(exam, wrong, seed, fresh):
                    return False
        return True

    @contextmanager
    def open(self) -> Iterator[LearnerProcess | SameProcess]:
        """A process for it. Raises MachineBusy, NotJudged."""
        more = {"enclosure": self.enclosure} if self.enclosure else {}
        with self.kind(self.exercise.module, self.packed, self.exercise.seconds, self.path, **more) as process:
            if self.enclosure:
                missing = self.enclosure.missing(process.held)
                if missing:
                    raise NotJudged(f"the {self.enclosure.name} does not shut {' and '.join(missing)} here")
            yield process


def unpack_report(data: tuple[Any, ...]) -> Report:
    """A report from the tuples that it travelled as."""
    report = Report(*data)
    finding, success = report.finding and _finding(report.finding), report.success
    if success is not None:
        words, charts = success
        success = Success(words, tuple(Chart(*chart) for chart in charts))
    return report._replace(finding=finding, success=success, passed_over=tuple(map(_finding, report.passed_over)))


def _finding(data: tuple[Any, ...]) -> Finding:
    found, trouble = Finding(*data), None
    if found.trouble is not None:
        trouble = Trouble(*found.trouble)
        trouble = trouble._replace(where=tuple(Line(*line) for line in trouble.where))
    return found._replace(charts=tuple(Chart(*chart) for chart in found.charts), trouble=trouble)
