"""Answers of the bank are judged with the patience that each of them needs."""

from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.pool import Task
from gpipe_edu.process.packing import pack
from gpipe_edu.teaching.authoring.verdicts import SEED
from tests.amount import whole

NUMPY = (
    "ex01/splitting",
    "ex02/clock",
    "ex02/f-then-b",
    "ex06/partition",
    "ex07/1f1b",
    "ex08/batchnorm",
    "ex09/early",
    "ex09/cap",
    "ex12/interleaved",
    "ex15/bill",
    "ex15/choice",
    "ex17/exchange",
    "ex17/average",
    "ex18/order",
)
"""The tasks of notebooks without PyTorch, whose answers are judged in a browser, too."""

SOON = 1.0
"""Seconds after which an answer that never ends is told so, where learners have more. Right ones need a tenth."""

STOPPED = {"endless": SOON, "every-order": 3 * SOON}
"""Slips of answers that are stopped. One that tries all orders first comes through those of few packs."""


def task(entry):
    """An answer to be judged; with `--whole` nothing about it is other than for a learner."""
    exercise = find_exercise(entry.key)
    if entry.slip in STOPPED and not whole():
        exercise = exercise._replace(seconds=STOPPED[entry.slip])
    return Task(entry.name, exercise, pack(entry.function), SEED)
