"""Exercise 10: what each process of a pipeline does, judged as several processes that run it.

The learner's function is handed on to processes that the check starts, one for each stage. They note every message and
every op, so the judge knows who waited for whom, and compares gradients with the reference engine on one device. What
layers compute it computes itself, for each process those of its stage: what one has of another, it has been sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from gpipe_edu import gpipe, one_f_one_b
from gpipe_edu import reference as ref
from gpipe_edu.base.words import off_by, plural
from gpipe_edu.judge.case import Exam, Sign, Signs
from gpipe_edu.judge.failures import judge_failure
from gpipe_edu.judge.findings import Chart, Success, Trouble
from gpipe_edu.judge.guest.processes import Diaries, Failure
from gpipe_edu.judge.networks import draw_digits, items_of
from gpipe_edu.judge.remote_layers import with_other_weights
from gpipe_edu.judge.tasks.ex10_processes.perform import ProcessAnswer, RunAnswer, RunQuestion, cuts_of
from gpipe_edu.schedule import Schedule

from .diaries import about_buffers, about_habits, about_messages, about_ops, last_step
from .failed import about_failure
from .own_runs import OwnRuns
from .results import about_gradients, about_loss, about_weights, about_what_is_left
from .step_run import StepRun


def examine(exam: Exam, rng: Random) -> Success:
    """One micro-batch in two processes, several, ragged ones, 1F1B, three processes, layers in evaluation mode, stages
    as wide as their inputs, two steps, and digits."""
    cases = [
        (gpipe(2, 1), 3),
        (gpipe(2, 3), 6),
        (gpipe(2, 3), 7),
        (one_f_one_b(2, 4), 5),
        (gpipe(3, 4), 11),
        (one_f_one_b(3, 5), 13),
    ]
    for recipe, K in ((gpipe, 2), (one_f_one_b, 2), (one_f_one_b, 3)):
        M = rng.randint(K, 7)
        cases.append((recipe(K, M), rng.randint(M, 3 * M)))
    numbers = np.random.default_rng(rng.randrange(2**32))

    def small(schedule: Schedule, N: int, sizes: Sequence[int] = (5, 9, 6, 8, 4), **more: Any) -> None:
        x, y = numbers.normal(size=(N, sizes[0])), numbers.integers(0, 4, size=N)
        _judge(exam, rng, sizes, x, y, schedule, **more)

    for schedule, N in cases:
        small(schedule, N)
    small(one_f_one_b(2, 2), 5, evaluating=True)
    small(gpipe(3, 3), 7, sizes=(6, 6, 6, 6, 4))
    with exam.blame_on("second-step"):
        small(one_f_one_b(2, 4), 10, steps=2)
    (x, y), schedule = draw_digits(rng, 100), one_f_one_b(2, 6)
    run = _judge(exam, rng, [64, 48, 32, 10], x, y, schedule)
    return exam.success(Chart("your two processes", str(schedule)), error=max(run.errors))


def _judge(
    exam: Exam,
    rng: Random,
    sizes: Sequence[int],
    x: Any,
    y: Any,
    schedule: Schedule,
    steps: int = 1,
    evaluating: bool = False,
) -> StepRun:
    """Judge some steps."""
    K, M, N = schedule.stages, schedule.micro_batches, len(x)
    layers = ref.mlp(sizes, activation="tanh", seed=rng.randrange(2**32))
    call = f"{K} processes, {schedule.name}, {plural(M, 'micro-batch')} of {plural(N, 'sample')} in all"
    call += ", the second of two steps" if steps > 1 else ""
    call += ", the first layer of each stage in evaluation mode" if evaluating else ""
    case = exam.case(call)
    asked = RunQuestion(items_of(layers), x, y, schedule, steps, evaluating)
    others = with_other_weights(asked.items, exam.secret)
    ran = OwnRuns(layers, cuts_of(len(layers), K))
    answer = case.ask_for(RunAnswer, asked._replace(items=others), None, ran)
    if answer.failure:
        failure = Failure(*answer.failure)
        judge_failure(case, failure, lambda trouble: _about_the_end(schedule, failure, trouble, answer.diaries))
    processes = [ProcessAnswer(*process) for process in answer.processes]
    run = StepRun(asked, others, ran, processes, [last_step(diary) for diary in answer.diaries])
    case.judge(about_habits(schedule, run.diaries))
    case.judge(about_ops(schedule, ran))
    case.judge(about_buffers(run.diaries, M))
    trained = all(process.training for process in processes)
    case.judge([Sign("eval-mode", not trained, expected="training mode", came="evaluation mode")])
    evaluated = all(process.evaluating for process in processes)
    case.judge([Sign("mode-changed", not evaluated, expected="evaluation mode", came="training mode")])
    case.judge(about_weights(run))
    case.expected, case.came = f"the last process returns {run.true_loss:.6f}", run.loss_in_words
    case.judge(about_loss(run))
    for k in reversed(range(K)):  # the last stage first, because errors travel with the gradients
        case.expected = f"process {k}: the gradients of one device"
        case.came = off_by(run.errors[k], "none of that form")
        case.judge(about_gradients(run, k))
    case.expected = case.came = ""
    case.judge(about_messages(run))
    case.judge(about_what_is_left(run))
    return run


def _about_the_end(schedule: Schedule, failure: Failure, trouble: Trouble, diaries: Diaries) -> Signs:
    yield from about_habits(schedule, diaries)
    yield from about_failure(failure, trouble, diaries)
