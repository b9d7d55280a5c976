"""Random edits of right answers: whatever the check accepts, a brute-force simulator that shares no code accepts too.

The edits are those that people make: two ops change places, one is lost, doubled, moved to another row, or gets another
letter or number. The check is called without a process of its own, so that thousands fit into seconds.
"""

import random

import pytest

from gpipe_edu import Op, gpipe, one_f_one_b
from gpipe_edu.course.checks import clock, early, f_then_b
from gpipe_edu.course.checks import one_f_one_b as alternating
from gpipe_edu.course.task import Wrong
from tests import oracle

EDITS = 2500


class Answers:
    """Stands in for the learner's process: gives a fixed answer."""

    def __init__(self, value):
        self.value = value

    def ask(self, call, traps=None, **given):
        return self.value


def edited(rows, rng):
    rows = [list(row) for row in rows]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        kind = rng.choice(["swap", "neighbours", "drop", "double", "shift", "letter", "number", "rows"])
        row = rng.choice([row for row in rows if row] or [[]])
        if not row:
            return rows
        i, j = rng.randrange(len(row)), rng.randrange(len(row))
        if kind == "swap":
            row[i], row[j] = row[j], row[i]
        elif kind == "neighbours" and len(row) > 1:
            i = min(i, len(row) - 2)
            row[i], row[i + 1] = row[i + 1], row[i]
        elif kind == "drop":
            del row[i]
        elif kind == "double":
            row.insert(j, row[i])
        elif kind == "shift":
            rng.choice(rows).append(row.pop(i))
        elif kind == "letter":
            row[i] = (rng.choice("FBR"), *row[i][1:])
        elif kind == "number":
            place = rng.choice([1, 2])
            changed = list(row[i])
            changed[place] = max(0, changed[place] + rng.choice([-1, 1]))
            row[i] = tuple(changed)
        elif kind == "rows":
            a, b = rng.randrange(len(rows)), rng.randrange(len(rows))
            rows[a], rows[b] = rows[b], rows[a]
    return rows


def legal(rows, K, M):
    """By the oracle alone: can run, is of this size, and row k holds stage k."""
    if len(rows) != K or oracle.expected_code(rows) is not None:
        return False
    ops = [op for row in rows for op in row]
    size = (1 + max(k for _, _, k in ops), 1 + max(m for _, m, _ in ops))
    return size == (K, M) and all(k == device for device, row in enumerate(rows) for _, _, k in row)


def makespan(rows, times):
    return max(end for _, end in oracle.times(rows, lambda op: times[op[0]]).values())


def right_f_then_b(rows, K, M):
    kinds = ["".join(kind for kind, _, _ in row) for row in rows]
    return (
        legal(rows, K, M)
        and all(set(row) == {"F", "B"} and "BF" not in row for row in kinds)
        and makespan(rows, {"F": 1, "B": 2}) == 3 * (M + K - 1)
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
        if set(kinds) != {"F", "R", "B"} or kinds.count("R") != M or "BF" in kinds.replace("R", ""):
            return False
        for kind in kinds:
            if kind in "FR" and held:  # a forward has its interior, too, while it runs
                return False
            held += (kind == "R") - (kind == "B")
    return all(
        makespan(rows, {"F": F, "R": R, "B": B}) <= M * (F + R + B) + (K - 1) * (F + B)
        for F, R, B in ((1, 1, 2), (2, 2, 1), (1, 3, 2))
    )


def accepted(module, value, K, M):
    try:
        module._judge(Answers(value), K, M)
    except Wrong:
        return False
    return True


@pytest.mark.parametrize(
    ("module", "recipe", "right"),
    [
        (f_then_b, gpipe, right_f_then_b),
        (alternating, one_f_one_b, right_one_f_one_b),
        (early, lambda K, M: gpipe(K, M, "early"), right_early),
    ],
    ids=["F-then-B", "1F1B", "early"],
)
def test_a_check_of_a_schedule_agrees_with_brute_force(module, recipe, right):
    rng, kept = random.Random(7), 0
    for _ in range(EDITS):
        K, M = rng.randint(1, 4), rng.randint(1, 5)
        rows = edited(oracle.plain(recipe(K, M)), rng)
        truth = right(rows, K, M)
        value = [[Op(*op) for op in row] for row in rows]
        assert accepted(module, value, K, M) == truth, (K, M, rows)
        kept += truth
    assert kept > 50, "some edits leave an answer right: two devices' worth of the same change, or none"


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
        assert accepted(clock, ticks, K, M) == truth, (K, M, ticks)
        kept += truth
    assert kept > 50
