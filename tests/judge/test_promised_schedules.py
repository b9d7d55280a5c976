"""The judges of ZB-H1 and of interleaved 1F1B accept what keeps the promises of the docstrings, and nothing else.

Held against an oracle that plays schedules by brute force; the answers are right ones with one or two random edits.
"""

from random import Random

import pytest

from gpipe_edu import Op, Schedule, interleaved, zero_bubble
from gpipe_edu.judge.case import Exam, Wrong
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.findings import Reply
from tests import oracle


def edited(rows, draw):
    """One or two ops moved by a few places, or two of a row exchanged; sometimes one is lost."""
    rows = [list(row) for row in rows]
    for _ in range(draw.choice((1, 1, 2))):
        row = draw.choice(rows)
        i = draw.randrange(len(row))
        j = min(max(0, i + draw.choice((-3, -2, -1, 1, 2, 3))), len(row) - 1)
        if draw.random() < 0.05:
            row.pop(i)
        elif draw.random() < 0.5:
            row.insert(j, row.pop(i))
        else:
            row[i], row[j] = row[j], row[i]
    return rows


def held(row):
    """The most stage inputs that a row holds at a time, from F to what finishes it."""
    most = now = 0
    for kind, _, _ in row:
        now += kind == "F"
        most = max(most, now)
        now -= kind in "BW"
    return most


def makespan(rows, **duration):
    return max(end for _, end in oracle.times(rows, lambda op: duration[op[0]]).values())


def is_zb_h1(rows, K, M):
    ops = [op for row in rows for op in row]
    if oracle.expected_code(rows) or len(ops) != 3 * K * M:
        return False
    costs = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (3, 3, 2)]
    return all(held(row) <= K for row in rows) and all(
        makespan(rows, F=F, I=I, W=W) <= M * (F + I + W) + (K - 1) * (F + I - W)
        for F, I, W in costs  # noqa: E741
    )


def is_interleaved(rows, K, M, V):
    if oracle.expected_code(rows) or sum(map(len, rows)) != 2 * K * M * V:
        return False
    most = [2 * (K - 1 - k) + (V - 1) * K + 1 for k in range(K)]
    return all(held(row) <= most[k] for k, row in enumerate(rows)) and all(
        makespan(rows, F=F, B=B) <= (M * V + K - 1) * (F + B) for F, B in ((1, 2), (1, 1), (2, 1))
    )


CASES = [
    ("ex11/order", zero_bubble, is_zb_h1, (3, 4)),
    ("ex11/order", zero_bubble, is_zb_h1, (2, 3)),
    ("ex12/interleaved", interleaved, is_interleaved, (2, 4, 2)),
    ("ex12/interleaved", interleaved, is_interleaved, (3, 3, 2)),
]


@pytest.mark.parametrize(("key", "recipe", "is_right", "size"), CASES, ids=[f"{key} {size}" for key, *_, size in CASES])
def test_an_edited_schedule_is_judged_by_its_promises(key, recipe, is_right, size):
    exercise, draw, verdicts = find_exercise(key), Random(7), {True: 0, False: 0}
    for _ in range(400):
        rows = edited(recipe(*size).rows, draw)
        if not all(rows):
            continue
        try:
            exercise.check.judge(Exam(exercise, lambda answer, rows=rows, **given: Reply(list(rows))), *size)
            accepted = True
        except Wrong:
            accepted = False
        expected = is_right(oracle.plain(Schedule(rows)), *size)
        assert accepted == expected, Schedule(rows)
        verdicts[accepted] += 1
    assert min(verdicts.values()) >= 5


def test_other_orders_of_weight_gradients_are_right_too():
    rows = [list(row) for row in zero_bubble(3, 4).rows]
    rows[2][-2:] = rows[2][:-3:-1]
    exercise = find_exercise("ex11/order")
    assert rows[2][-1] == Op("W", 2, 2)
    assert exercise.check.judge(Exam(exercise, lambda answer, **given: Reply(rows)), 3, 4) == Schedule(rows)
