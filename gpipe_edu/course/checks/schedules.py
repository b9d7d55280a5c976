"""What the exercises on schedules share: reading what a learner wrote as one, and training with it."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from gpipe_edu import Op, Schedule
from gpipe_edu import reference as ref
from gpipe_edu.course.plain import Other, name_of
from gpipe_edu.course.task import Chart, Finding, Wrong
from gpipe_edu.data import digits


def rows_of(value: Any, call: str) -> Schedule:
    """The schedule in `value`: a Schedule, its written form, or rows of ops, of triples or of words such as "F0".

    Raises Wrong, naming the first thing that is no op.
    """
    if isinstance(value, Schedule):
        return value
    if isinstance(value, str):
        value = value.strip().splitlines()
    if not isinstance(value, list | tuple):
        because = "A schedule is a list with one row of ops for each device."
        raise Wrong(Finding("not-rows", because, call, "a list of rows", f"a {name_of(value)}"))
    rows = []
    for device, row in enumerate(value):
        if isinstance(row, Op) or (isinstance(row, tuple | list) and len(row) == 3 and isinstance(row[0], str)):
            because = "The ops are not grouped by device: one list for all of them says not who runs what."
            raise Wrong(Finding("flat", because, call, "a list of rows, one for each device", "a list of ops"))
        words = row.split() if isinstance(row, str) else row
        if not isinstance(words, list | tuple):
            because = "Each row is a list of ops, in the order in which its device runs them."
            raise Wrong(Finding("not-a-row", because, call, "a list of ops", f"row {device} is a {name_of(row)}"))
        rows.append([_op(word, device, call) for word in words])
    return Schedule(rows)


def judge_legal(schedule: Schedule, call: str, expected: Schedule) -> None:
    """Raise Wrong with the doctor's first problem, if the schedule cannot run."""
    problems = schedule.problems()
    if problems:
        code, message, _ = problems[0]
        charts = (Chart("yours, as far as it can run", str(schedule)), Chart("one that runs", str(expected)))
        because = f"This cannot run: {message}."
        raise Wrong(Finding(code, because, call, str(expected), str(schedule), difference(schedule, expected), charts))


def difference(schedule: Schedule, expected: Schedule) -> str:
    """The first place where two schedules part."""
    for device, (row, other) in enumerate(zip(schedule.rows, expected.rows, strict=False)):
        for place in range(max(len(row), len(other))):
            ours = str(row[place].label) if place < len(row) else "nothing"
            theirs = str(other[place].label) if place < len(other) else "nothing"
            if place >= len(row) or place >= len(other) or row[place] != other[place]:
                if ours == theirs:
                    ours, theirs = str(row[place]), str(other[place])
                return f"device {device}, place {place}: {ours} instead of {theirs}"
    return f"{schedule.devices} rows instead of {expected.devices}" if schedule.devices != expected.devices else ""


def gradient_error(schedule: Schedule, rng: Random) -> float:
    """The largest relative difference between gradients of the digits under `schedule` and on one device."""
    x, y, _, _ = digits()
    first = rng.randrange(1000)
    x, y = np.asarray(x[first : first + 40], dtype=float), y[first : first + 40]
    layers = ref.mlp([64, *[24] * schedule.stages, 10], seed=rng.randrange(1000))
    _, exact = ref.train_sequential(layers, x, y)
    found = ref.train_pipeline(layers, x, y, schedule).grads
    pairs = [(a[name], b[name]) for a, b in zip(found, exact, strict=True) for name in a]
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def _op(word: Any, device: int, call: str) -> Op:
    def wrong(slip: str, because: str, came: str) -> Wrong:
        return Wrong(Finding(slip, because, call, "ops such as F0 or B3", came))

    if isinstance(word, Op):
        return word
    if word is None or word in ("", ".", "-", "idle"):
        because = "Idle slots are not written down: a schedule holds only the order. The gaps come from waiting."
        raise wrong("idle-slots", because, f"{word!r} in row {device}")
    try:
        if isinstance(word, str):
            return Schedule.parse(f"{word}@{device}" if "@" not in word else word).rows[0][0]
        kind, micro_batch, stage = word
        return Op(kind, micro_batch, stage)
    except (ValueError, TypeError, IndexError):
        shown = word.text if isinstance(word, Other) else repr(word)
        because = (
            "Something in a row is no op: `ge.Op(kind, micro_batch, stage)` has a letter and two numbers from 0 on."
        )
        raise wrong("not-an-op", because, f"{shown} in row {device}") from None
