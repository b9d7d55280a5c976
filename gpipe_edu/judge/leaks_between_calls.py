"""Whether a wrong answer would be right if nothing had been asked before: then something stays between calls.

Anything else said of it, such as that it fills the pipeline wrongly, would not be true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Final

from gpipe_edu.judge.findings import CUT_SHORT, Reply, Unwritten
from gpipe_edu.process.asking import Ask
from gpipe_edu.process.lines import Line

from .case import Asked, Exam, Wrong

_OF_STATE: Final = ("remembers", "left-over", "handed-out-again", "second-step", "second-mini-batch", "second-call")
"""Slips that already say that something stays."""


class _Further(Exception):
    """More is asked than in the exam before."""


class _Repeated:
    """Gives the replies of an exam again, with what was asked meanwhile; only call `number` goes to `fresh`."""

    def __init__(self, replies: Sequence[tuple[Reply, list[Any]]], number: int, fresh: Asked) -> None:
        self._replies, self._number, self._fresh, self._asked = replies, number, fresh, 0

    def __call__(self, answer: Ask | None = None, /, **given: Any) -> Reply:
        self._asked += 1
        if self._asked == self._number:
            return self._fresh(answer, **given)
        if self._asked > len(self._replies):
            raise _Further
        reply, questions = self._replies[self._asked - 1]
        for question in questions:
            if answer:
                answer(question)
        return reply

    def lines(self, found: Iterable[tuple[Any, ...]]) -> tuple[Line, ...]:
        return self._fresh.lines(found)


def is_worth_asking(exam: Exam, wrong: Wrong) -> bool:
    """Whether this can be told, as other calls came before. Not for one that was stopped: that would wait twice."""
    trouble = wrong.finding.trouble
    endless = trouble is not None and trouble.kind in CUT_SHORT
    return wrong.number > 1 and wrong.finding.slip not in _OF_STATE and not endless


def is_right_alone(exam: Exam, wrong: Wrong, seed: int, fresh: Asked) -> bool:
    """Hold the exam once more, with all replies as they were but for the wrong one, which `fresh` is asked for."""
    try:
        exam.exercise.check.examine(
            Exam(exam.exercise, _Repeated(exam.replies, wrong.number, fresh), seed), Random(seed)
        )
    except _Further:
        return True
    except Wrong as again:
        return again.number != wrong.number
    except (Unwritten, Exception):
        return False
    return True
