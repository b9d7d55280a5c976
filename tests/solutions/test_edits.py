"""Random edits of right answers: the check and a brute-force simulator that shares no code agree, and on the reason.

The edits are those that people make: two ops change places, one is lost, doubled, moved to another row, or gets another
letter or number. The check is called without a process of its own, so that thousands fit into seconds.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pytest

from gpipe_edu import Op, Schedule, gpipe, one_f_one_b
from gpipe_edu.judge.case import Exam, Wrong
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.findings import Reply
from tests import oracle
from tests.amount import fewer
from tests.solutions import reasons, reasons_cap
from tests.solutions.reasons import makespan

pytestmark = pytest.mark.slow

EDITS = fewer(2500)

MIDDLE = "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5"
REST = f"{MIDDLE}\nF0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5"
UNDER_CAP = [
    f"F0 F1 F2 F3 R1 B0 R2 B1 F4 B2 F5 R3 B3 R5 B4 B5\n{REST}",
    f"F0 F1 F2 R1 B0 F3 R2 B1 F4 R3 B2 F5 R4 B3 R5 B4 B5\n{REST}",
    f"F0 F1 F2 R0 B0 F3 R1 B1 F4 R2 B2 F5 R3 B3 R4 B4 R5 B5\n{REST}",
    f"F0 F1 F2 B0 F3 C1 F4 C2 F5 C3 C4 C5\n{REST}",
    f"{MIDDLE}\n{REST}",
]
"""Two that win, and three that are too slow."""


def edit(rows, rng):
    """One edit, in place. Returns the ops that it moved, took away or brought in."""
    kind = rng.choice(["swap", "neighbours", "drop", "double", "shift", "letter", "number", "rows"])
    row = rng.choice([row for row in rows if row] or [[]])
    if not row:
        return set()
    i, j = rng.randrange(len(row)), rng.randrange(len(row))
    if kind == "neighbours":
        j = min(i + 1, len(row) - 1)
    touched = {row[i], row[j]} if kind in ("swap", "neighbours") else {row[i]}
    if kind in ("swap", "neighbours"):
        row[i], row[j] = row[j], row[i]
    elif kind == "drop":
        del row[i]
    elif kind == "double":
        row.insert(j, row[i])
    elif kind == "shift":
        rng.choice(rows).append(row.pop(i))
    elif kind == "letter":
        row[i] = (rng.choice("FBRC"), *row[i][1:])
        touched.add(row[i])
    elif kind == "number":
        place = rng.choice([1, 2])
        changed = list(row[i])
        changed[place] = max(0, changed[place] + rng.choice([-1, 1]))
        row[i] = tuple(changed)
        touched.add(row[i])
    elif kind == "rows":
        a, b = rng.randrange(len(rows)), rng.randrange(len(rows))
        rows[a], rows[b] = rows[b], rows[a]
        touched = {*rows[a], *rows[b]}
    return touched


def legal(rows, K, M):
    """By the oracle alone: can run, is of this size, and row k holds stage k."""
    if len(rows) != K or oracle.expected_code(rows) is not None:
        return False
    ops = [op for row in rows for op in row]
    size = (1 + max(k for _, _, k in ops), 1 + max(m for _, m, _ in ops))
    return size == (K, M) and all(k == device for device, row in enumerate(rows) for _, _, k in row)


def right_f_then_b(rows, K, M):
    kinds = ["".join(kind for kind, _, _ in row) for row in rows]
    return (
        legal(rows, K, M)
        and all(set(row) == {"F", "B"} and "BF" not in row for row in kinds)
        and makespan(rows) == 3 * (M + K - 1)
    )


def right_one_f_one_b(rows, K, M):
    if not legal(rows, K, M):
        return False
    for k, row in enumerate(rows):
        warm = min(M, K - 1 - k)
        if "".join(kind for kind, _, _ in row) != "F" * warm + "FB" * (M - warm) + "B" * warm:
            return False
        if any([m for kind, m, _ in row if kind == letter] != list(range(M)) for letter in "FB"):
            return False
    return True


def right_early(rows, K, M):
    if not legal(rows, K, M):
        return False
    for row in rows:
        kinds, held = "".join(kind for kind, _, _ in row), 0
        again = {m for kind, m, _ in row if kind == "R"}
        goes_back_at_once = row is rows[-1] and set(range(M)) - again == {M - 1}
        if set(kinds) - {"F", "R", "B"} or (len(again) < M and not goes_back_at_once):
            return False
        if "BF" in kinds.replace("R", ""):
            return False
        for kind, m, _ in row:
            if kind in "FR" and held:  # a forward has its interior, too, while it runs
                return False
            held += (kind == "R" or (kind == "F" and m not in again)) - (kind == "B")
    return all(
        makespan(rows, F, B, R) <= M * (F + R + B) + (K - 1) * (F + B) for F, R, B in ((1, 1, 2), (2, 2, 1), (1, 3, 2))
    )


def right_cap(rows, K, M):
    ops = [op for row in rows for op in row]
    return (
        len(rows) == K
        and oracle.expected_code(rows) is None
        and (1 + max(k for _, _, k in ops), 1 + max(m for _, m, _ in ops)) == (K, M)
        and all(len(held) <= reasons_cap.CAP for row in rows for held in oracle.interiors(row))
        and makespan(rows) <= reasons_cap.GOAL
    )


def verdict(key, value, *size):
    """What the check finds wrong with this value, a broken promise if that is all; or None."""
    exercise = find_exercise(key)
    exam = Exam(exercise, lambda answer, **given: Reply(value))
    try:
        exercise.check.judge(exam, *size)
    except Wrong as wrong:
        return wrong.finding
    return next(iter(exam.passed_over), None)


def recipe(make):
    """Draws K, M and the rows of a recipe."""

    def draw(rng):
        K, M = rng.randint(1, 4), rng.randint(1, 5)
        return oracle.plain(make(K, M)), K, M

    return draw


def under_cap(rng):
    return oracle.plain(Schedule.parse(rng.choice(UNDER_CAP))), 3, 6


class Edited(NamedTuple):
    """What draws legal rows to edit, whether rows are right, and why not."""

    draw: Callable
    right: Callable
    reasons: reasons.Reasons
    size: Callable = lambda K, M: (K, M)


EXERCISES = {
    "ex02/f-then-b": Edited(recipe(gpipe), right_f_then_b, reasons.F_THEN_B),
    "ex07/1f1b": Edited(recipe(one_f_one_b), right_one_f_one_b, reasons.ONE_F_ONE_B),
    "ex09/early": Edited(recipe(lambda K, M: gpipe(K, M, "early")), right_early, reasons.EARLY),
    "ex09/cap": Edited(under_cap, right_cap, reasons_cap.UNDER_CAP, lambda K, M: ()),
}


@pytest.mark.parametrize("key", EXERCISES)
def test_a_check_of_a_schedule_agrees_with_brute_force(key, record_property):
    exercise = EXERCISES[key]
    rng, kept, wrong, misnamed = random.Random(7), 0, 0, Counter()
    for _ in range(EDITS):
        rows, K, M = exercise.draw(rng)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            edit(rows, rng)
        truth = exercise.right(rows, K, M)
        finding = verdict(key, [[Op(*op) for op in row] for row in rows], *exercise.size(K, M))
        assert (finding is None) == truth, (K, M, rows, finding)
        kept += truth
        if finding:
            wrong += 1
            if not reasons.is_right(exercise.reasons, finding.slip, finding.because, rows, K, M):
                misnamed[finding.slip, reasons.first_broken(exercise.reasons, rows, K, M)] += 1
    assert kept > EDITS / 50, "some edits leave an answer right: two devices' worth of the same change, or none"
    record_property("reasons", (key, wrong, misnamed.total()))
    assert misnamed.total() <= 0.001 * wrong, misnamed


@pytest.mark.parametrize("key", EXERCISES)
def test_what_a_sentence_points_at_was_edited(key):
    """After one edit, the ops that the reason names are among those touched, or in the same micro-batch and stage."""
    exercise = EXERCISES[key]
    rng, pointing, beside = random.Random(9), 0, Counter()
    for _ in range(EDITS):
        rows, K, M = exercise.draw(rng)
        touched = {op[1:] for op in edit(rows, rng)}
        finding = verdict(key, [[Op(*op) for op in row] for row in rows], *exercise.size(K, M))
        named = reasons.ops_in(finding.because) if finding else []
        if named:
            pointing += 1
            beside[finding.slip] += not touched & {op[1:] for op in named}
    assert pointing > EDITS / 2.5
    assert beside.total() <= 0.01 * pointing, beside


def test_a_cap_that_is_broken_is_told_as_it_is():
    rng, told = random.Random(10), 0
    for _ in range(EDITS):
        rows, *_ = under_cap(rng)
        edit(rows, rng)
        finding = verdict("ex09/cap", [[Op(*op) for op in row] for row in rows])
        if finding and finding.slip in ("over-the-cap", "holds-too-much"):
            told += 1
            assert reasons_cap.tells_what_is_held(finding.because, rows), (rows, finding.because)
    assert told > EDITS / 50


def test_the_check_of_the_clock_agrees_with_brute_force():
    rng, kept = random.Random(8), 0
    for _ in range(EDITS):
        K, M = rng.randint(1, 4), rng.randint(1, 5)
        right = [{(t - k, k) for k in range(K) if 0 <= t - k < M} for t in range(M + K - 1)]
        ticks = [rng.sample(sorted(tick), len(tick)) for tick in right]
        for _ in range(rng.choice([0, 1, 1, 2])):
            i, j = rng.randrange(len(ticks)), rng.randrange(len(ticks))
            kind = rng.choice(["swap", "move", "drop", "double", "number", "empty"])
            if kind == "swap":
                ticks[i], ticks[j] = ticks[j], ticks[i]
            elif kind == "move" and ticks[i]:
                ticks[j].append(ticks[i].pop())
            elif kind == "drop" and ticks[i]:
                ticks[i].pop()
            elif kind == "double" and ticks[i]:
                ticks[j].append(ticks[i][0])
            elif kind == "number" and ticks[i]:
                m, k = ticks[i].pop()
                ticks[i].append((m + rng.choice([-1, 0, 1]), k + rng.choice([-1, 0, 1])))
            elif kind == "empty":
                ticks.insert(i, [])
        truth = [sorted(tick) for tick in ticks] == [sorted(tick) for tick in right]
        assert (verdict("ex02/clock", ticks, K, M) is None) == truth, (K, M, ticks)
        kept += truth
    assert kept > EDITS / 50
