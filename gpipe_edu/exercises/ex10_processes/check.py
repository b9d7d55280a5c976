"""Exercise 10: what each process of a pipeline does, judged as several processes that run it.

The learner's function is handed on to processes that the check starts, one for each stage. They note every message and
every op, so the judge knows who waited for whom, and compares gradients with the reference engine on one device.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import gpipe, one_f_one_b
from gpipe_edu import reference as ref
from gpipe_edu.data import digits
from gpipe_edu.distributed import Crew
from gpipe_edu.exercises.case import Case, Exam, Sign
from gpipe_edu.exercises.networks import Item, items_of
from gpipe_edu.process.packing import Forwarded
from gpipe_edu.sandbox.findings import Chart, Success, Trouble
from gpipe_edu.schedule import Schedule
from gpipe_edu.split import split_batch
from gpipe_edu.words import percent, plural

from .diaries import about_buffers, about_habits, about_messages, about_ops, last_step
from .failed import Failed, about_failure
from .inside import in_process
from .numbers import about_gradients, about_loss, about_weights
from .step_run import Run

unpack = Forwarded

TALKS: Final = True
"""Its processes reach each other by TCP."""

_LIMIT: Final = 5.0
"""Seconds for one call, on top of starting the processes."""

_crew = Crew()
"""In the learner's process: waits between two calls, because starting takes long."""


def perform(run_stage: Any, items: list[Item], x: Any, y: Any, schedule: Schedule, steps: int) -> dict[str, Any]:
    """Training steps in processes: what the last one gave back, what each has afterwards, and what all have noted."""
    K, M = schedule.stages, schedule.micro_batches
    xs, ys = split_batch(x, M), split_batch(y, M)
    counts, pieces = [len(piece) for piece in xs], {0: xs, K - 1: ys}
    calls = [partial(in_process, run_stage, k, schedule, items, counts, pieces.get(k), steps) for k in range(K)]
    try:
        values, diaries = _crew.run(calls, _LIMIT)
    except Exception as error:
        what = type(error).__name__, str(error), getattr(error, "lines", [])
        seconds = getattr(error, "seconds", None) or _LIMIT
        return {"failed": what, "reason": getattr(error, "reason", ""), "seconds": seconds, "diaries": _crew.diaries}
    return {"values": values, "diaries": diaries}


def examine(exam: Exam, rng: Random) -> Success:
    """One micro-batch in two processes, several, ragged ones, 1F1B, three processes, two steps, and digits."""
    cases = [
        (gpipe(2, 1), 3),
        (gpipe(2, 3), 6),
        (gpipe(2, 3), 7),
        (one_f_one_b(2, 4), 10),
        (gpipe(3, 4), 11),
        (one_f_one_b(3, 5), 13),
    ]
    for recipe, K in ((gpipe, 2), (one_f_one_b, 2), (one_f_one_b, 3)):
        M = rng.randint(K, 7)
        cases.append((recipe(K, M), rng.randint(M, 3 * M)))
    numbers = np.random.default_rng(rng.randrange(2**32))

    def small(schedule: Schedule, N: int, steps: int = 1) -> None:
        x, y = numbers.normal(size=(N, 5)), numbers.integers(0, 4, size=N)
        _judge(exam, rng, [5, 9, 6, 8, 4], x, y, schedule, steps)

    for schedule, N in cases:
        small(schedule, N)
    with exam.told_as("second-step"):
        small(one_f_one_b(2, 4), 10, steps=2)
    x, y, _, _ = digits()
    first, schedule = rng.randrange(1000), one_f_one_b(2, 6)
    x, y = np.asarray(x[first : first + 100], dtype=float), np.asarray(y[first : first + 100])
    run = _judge(exam, rng, [64, 48, 32, 10], x, y, schedule)
    return exam.success(Chart("your two processes", str(schedule)), error=max(run.errors))


def _judge(exam: Exam, rng: Random, sizes: list[int], x: Any, y: Any, schedule: Schedule, steps: int = 1) -> Run:
    """Judge some steps of a network, all with the same weights and the same mini-batch."""
    K, M, N = schedule.stages, schedule.micro_batches, len(x)
    layers = ref.mlp(sizes, activation="tanh", seed=rng.randrange(2**32))
    call = f"{K} processes, {schedule.name}, {plural(M, 'micro-batch')} of {plural(N, 'sample')} in all"
    case = exam.case(f"{call}, the second of two steps" if steps > 1 else call)
    found = case.ask(items=items_of(layers), x=x, y=y, schedule=schedule, steps=steps)
    if "failed" in found:
        _judge_failure(case, schedule, found)
    diaries = [last_step(diary) for diary in found["diaries"]]
    run = Run(schedule, layers, x, y, diaries, *zip(*found["values"], strict=True))
    case.judge(about_habits(run.schedule, run.diaries))
    case.judge(about_ops(run.schedule, run.diaries))
    case.judge(about_buffers(run.diaries))
    case.judge([Sign("eval-mode", not all(run.training), expected="training mode", came="evaluation mode")])
    case.judge(about_weights(run))
    case.expected, case.came = f"the last process returns {run.true_loss:.6f}", run.loss_in_words
    case.judge(about_loss(run))
    for k in reversed(range(K)):  # the last stage first, because errors travel with the gradients
        case.expected = f"process {k}: the gradients of one device"
        case.came = f"off by {percent(run.errors[k])}" if np.isfinite(run.errors[k]) else "none of that form"
        case.judge(about_gradients(run, k))
    case.expected = case.came = ""
    case.judge(about_messages(run))
    return run


def _judge_failure(case: Case, schedule: Schedule, found: Any) -> None:
    """Raise Wrong, Unwritten for a run that did not come to its end."""
    kind, message, lines = found["failed"]
    reason, diaries = found["reason"], found["diaries"]
    where = case.exam.lines(lines)
    trouble = Trouble(kind, message.partition("\n")[0], where)
    case.judge(about_habits(schedule, diaries))
    case.judge(about_failure(Failed(reason, message, trouble, diaries)))
    if reason == "late":
        trouble = Trouble("stopped", "", where, seconds=found["seconds"])
    if reason in ("died", "exit"):
        trouble = Trouble("exit", message, where)
    case.fail(trouble)
