"""What the exercises on schedules share: reading what a learner wrote as one, its size, whether it runs, and training.

What is asked first decides which reason is named: a micro-batch that does not exist is no missing backward elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu import Op, Schedule
from gpipe_edu import reference as ref
from gpipe_edu.course.judging import Examiner, Traps
from gpipe_edu.course.task import Chart, Finding, Wrong
from gpipe_edu.data import digits
from gpipe_edu.process.plain import Other, a_name_of
from gpipe_edu.reference.difference import largest_difference

from .beliefs import told_as

_BIG: Final = (12, 40)
"""K and M of a pipeline as large as real ones."""

_ONLY_SMALL: Final = (
    "It is right for small pipelines, but not for one of 12 devices and 40 micro-batches. Is there a number in your "
    "code where K or M should be?"
)


class Answer(NamedTuple):
    """A learner's schedule for K devices and M micro-batches, beside a right one that has a name."""

    schedule: Schedule
    right: Schedule
    K: int
    M: int
    call: str
    name: str

    def wrong(self, slip: str, because: str, first: str = "", chart: str = "yours") -> Wrong:
        """The error to raise; first: what differs first, if not the rows themselves."""
        ours, right = str(self.schedule), str(self.right)
        charts: tuple[Chart, ...] = Chart(chart, ours), Chart(self.name, right)
        first = first or difference(self.schedule, self.right)
        if (self.K, self.M) == _BIG:  # nobody reads a thousand ops
            right, ours, charts = _beginning(right), _beginning(ours), ()
        return Wrong(Finding(slip, because, self.call, right, ours, first, charts))

    @property
    def ops(self) -> list[Op]:
        """All ops."""
        return [op for row in self.schedule.rows for op in row]

    @property
    def kinds(self) -> list[str]:
        """The letters of each row."""
        return ["".join(op.kind for op in row) for row in self.schedule.rows]

    def order(self, device: int, kind: str) -> list[int]:
        """The micro-batches of one kind of op on a device, as they come."""
        return [op.micro_batch for op in self.schedule.rows[device] if op.kind == kind]


def perform(function: Any, K: int, M: int) -> Any:
    """In the learner's process: the rows, as lists even where they are generators."""
    found = function(K, M)
    if isinstance(found, str | dict | Schedule | Op) or not hasattr(found, "__iter__"):
        return found
    loose = [row if isinstance(row, str | dict | Op) or not hasattr(row, "__iter__") else list(row) for row in found]
    return tuple(loose) if isinstance(found, tuple) and not isinstance(found, list) else loose


def ask(
    examiner: Examiner, function: str, K: int, M: int, right: Schedule, name: str, traps: Traps | None = None
) -> Answer:
    """The learner's answer. Raises Wrong if it is no schedule at all."""
    call = f"{function}(K={K}, M={M})"
    return Answer(rows_of(examiner.ask(call, traps, K=K, M=M), call), right, K, M, call, name)


def train_with(judge: Callable[[int, int], Schedule], sizes: list[tuple[int, int]], rng: Random) -> float:
    """Judge every size, and a big one; train the digits with the small ones. Returns the largest error of gradients."""
    error = 0.0
    for K, M in sizes:
        schedule = judge(K, M)
        if K * M <= 15:
            error = max(error, gradient_error(schedule, rng))
    with told_as("only-small", _ONLY_SMALL):
        judge(*_BIG)
    if error > 1e-10:
        raise Wrong(Finding("other-gradient", "The schedule runs, but the gradients are not those of one device."))
    return error


def rows_of(value: Any, call: str, text: bool = False) -> Schedule:
    """The schedule in `value`: a Schedule or rows of ops; if `text`, also its written form, or rows of words.

    Raises Wrong, naming the first thing that is no op.
    """
    if isinstance(value, Schedule):
        return value
    if isinstance(value, str) and text:
        value = value.strip().splitlines()
    if isinstance(value, str):
        raise _no_ops(value.strip().partition("\n")[0], call)
    if not isinstance(value, list | tuple):
        because = "A schedule is a list with one row of ops for each device."
        raise Wrong(Finding("not-rows", because, call, "a list of rows", a_name_of(value)))
    rows = []
    for device, row in enumerate(value):
        if isinstance(row, Op) or _is_triple(row):
            because = "The ops are not grouped by device: one list for all of them says not who runs what."
            raise Wrong(Finding("flat", because, call, "a list of rows, one for each device", "a list of ops"))
        if isinstance(row, str) and not text:
            raise _no_ops(row, call)
        words = row.replace("-", "").split() if isinstance(row, str) and row.strip() in ("", "-") else row
        words = words.split() if isinstance(words, str) else words
        if not isinstance(words, list | tuple):
            because = "Each row is a list of ops, in the order in which its device runs them."
            raise Wrong(Finding("not-a-row", because, call, "a list of ops", f"row {device} is {a_name_of(row)}"))
        rows.append([_op(word, device, call, text) for word in words])
    return Schedule(rows)


def judge_legal(answer: Answer) -> None:
    """Raise Wrong with the doctor's first problem, if the schedule cannot run."""
    problems = answer.schedule.problems()
    if problems:
        code, message, _ = problems[0]
        first = difference(answer.schedule, answer.right)
        raise answer.wrong(code, f"This cannot run: {message}.", first, "yours, as far as it can run")


def judge_places(answer: Answer) -> None:
    """Raise Wrong unless row k holds stage k."""
    if any(row[0].stage != device for device, row in enumerate(answer.schedule.rows)):
        because = "Row k belongs to device k, which holds stage k: your rows are in another order."
        raise answer.wrong("upside-down", because)


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
    return largest_difference(pairs)


def _beginning(text: str) -> str:
    lines = text.splitlines()
    shown = [line if len(line) <= 60 else f"{line[:56].rpartition(' ')[0]} ..." for line in lines[:3]]
    return "\n".join([*shown, "..."] if len(lines) > 3 else shown)


def _op(word: Any, device: int, call: str, text: bool) -> Op:
    def wrong(slip: str, because: str, came: str) -> Wrong:
        return Wrong(Finding(slip, because, call, "ops such as F0 or B3", came))

    if isinstance(word, Op):
        return word
    if word is None or word in ("", ".", "-", "idle"):
        because = "Idle slots are not written down: a schedule holds only the order. The gaps come from waiting."
        raise wrong("idle-slots", because, f"{word!r} in row {device}")
    if not text and (isinstance(word, str) or _is_triple(word)):
        raise _no_ops(word, call)
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
        if isinstance(word, str):
            because = (
                "Something in a line is no op: an op is a capital letter and the number of its micro-batch, and ops "
                "stand apart by blanks, as in `F0 F1 B0`."
            )
        raise wrong("not-an-op", because, f"{shown} in row {device}") from None


def _is_triple(word: Any) -> bool:
    return isinstance(word, tuple | list) and len(word) == 3 and isinstance(word[0], str) and len(word[0]) == 1


def _no_ops(word: Any, call: str) -> Wrong:
    because = 'The engine takes ops only, no text and no tuples: write `ge.Op("F", m, k)`.'
    return Wrong(Finding("no-ops", because, call, 'ops such as ge.Op("F", 0, 0)', repr(word)[:60]))
