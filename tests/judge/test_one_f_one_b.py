"""Exercise 07's judge: what 1F1B promises leaves one schedule of all that there are."""

from itertools import product

import pytest

from gpipe_edu import Op, one_f_one_b
from gpipe_edu.judge.case import Exam, Wrong
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.findings import Reply


def rows_of(k, M, forwards=0, backwards=0):
    """Every row in which micro-batches go forward and back in order."""
    if backwards == M:
        yield []
    for kind, ahead in (("F", forwards < M), ("B", backwards < forwards)):
        if ahead:
            first = Op(kind, forwards if kind == "F" else backwards, k)
            for rest in rows_of(k, M, forwards + (kind == "F"), backwards + (kind == "B")):
                yield [first, *rest]


@pytest.mark.parametrize(("K", "M"), [(1, 3), (2, 1), (2, 3), (2, 4), (3, 2), (3, 3)])
def test_one_schedule_is_accepted(K, M):
    exercise, accepted = find_exercise("ex07/1f1b"), []
    for rows in product(*(list(rows_of(k, M)) for k in range(K))):
        try:
            accepted.append(
                exercise.check.judge(Exam(exercise, lambda answer, rows=rows, **given: Reply(list(rows))), K, M)
            )
        except Wrong:
            continue
    assert accepted == [one_f_one_b(K, M)]
