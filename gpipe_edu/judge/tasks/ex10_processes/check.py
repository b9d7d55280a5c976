"""Exercise 10: what each process of a pipeline does, judged while several processes run it.

The learner's function is handed on to processes that the check starts, one for each stage. They note every message and
every op, so the judge knows who waited for whom, and compares gradients with the reference engine on one device. It
does the layers' computing itself, for each process only its own stage's: whatever it has of another, it was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import gpipe, one_f_one_b, split_batch
from gpipe_edu import reference as ref
from gpipe_edu.base.words import off_by, percent, plural
from gpipe_edu.distributed.deadlocks import MessageLog, Post
from gpipe_edu.distributed.diary import Entry
from gpipe_edu.judge import weighting
from gpipe_edu.judge.case import Exam, Sign, Signs, try_beliefs
from gpipe_edu.judge.findings import Chart, Success, Trouble
from gpipe_edu.judge.guest.processes import Diaries, Failure
from gpipe_edu.judge.networks import arrays_of_items, draw_digits, items_of
from gpipe_edu.judge.processes import judge_failure
from gpipe_edu.judge.remote_layers import with_other_weights
from gpipe_edu.judge.tasks.ex10_processes.perform import ProcessAnswer, RunAnswer, RunQuestion, cuts_of, width_of
from gpipe_edu.schedule import Schedule

from .step_run import OwnRuns, StepRun, about_buffers, about_habits, about_messages, about_ops, last_step


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
        judge_failure(case, failure, lambda trouble: _about_the_end(asked, failure, trouble, answer.diaries))
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
    truth, case.came = run.losses_in_words
    case.expected = f"the last process returns {truth}"
    case.judge(about_loss(run))
    for k in reversed(range(K)):  # the last stage first, because errors travel with the gradients
        case.expected = f"process {k}: the gradients of one device"
        case.came = off_by(run.errors[k], "none of that form")
        case.judge(about_gradients(run, k))
    case.expected = case.came = ""
    case.judge(about_messages(run))
    case.judge(about_what_is_left(run))
    return run


def _about_the_end(asked: RunQuestion, failure: Failure, trouble: Trouble, diaries: Diaries) -> Signs:
    yield from about_habits(asked.schedule, diaries)
    yield from about_failure(asked, failure, trouble, diaries)


def about_weights(run: StepRun) -> Signs:
    """The step left the weights as they were."""
    for k, stage in enumerate(run.stages):
        before = arrays_of_items(run.others[stage])
        change = ref.gradient_difference(run.processes[k].weights, before)
        expected, came = f"process {k}: the weights as they were", f"changed by {percent(change)}"
        yield Sign("weights-changed", change > 0, expected=expected, came=came)


def about_what_is_left(run: StepRun) -> Signs:
    """Nothing stays for the next step."""
    for k, process in enumerate(run.processes):
        came = f"process {k}: {plural(process.left, 'result')} in memory"
        yield Sign("left-behind", process.left > 0, words={"what": "results of forwards"}, came=came)
        came = f"process {k}: {plural(process.hooks, 'hook')} more"
        yield Sign("left-behind", process.hooks > 0, words={"what": "hooks on the stage"}, came=came)


def about_loss(run: StepRun) -> Signs:
    """The last process gave back the mini-batch's mean loss."""
    yield Sign("no-return", run.loss is None)
    yield Sign("no-loss", isinstance(run.loss, str))
    yield Sign("own-loss", not any("loss" in entry for entry in run.diaries[-1]))
    if abs(run.loss - run.true_loss) < 1e-9:
        return
    beliefs = weighting.beliefs_about_losses(run.parts(run.K - 1, "F"))
    yield from try_beliefs(beliefs, lambda guess: abs(run.loss - guess) < 1e-9)
    yield Sign("rounded" if abs(run.loss - run.true_loss) < 1e-6 else "other-loss")


def about_gradients(run: StepRun, k: int) -> Signs:
    """Of stage k, if the loss and the gradients of the stages behind it are right."""
    ours, came_back = run.processes[k].grads, run.processes[k].came_back
    theirs, is_last = run.true_grads(k), k == run.K - 1
    if run.errors[k] < 1e-10:
        return
    if not is_last:
        yield Sign("zeros-came-back", not any(came_back))
        yield Sign("some-zeros-came-back", not all(came_back))
    yield Sign("emptied", all(grad is None or not np.any(grad) for grad in ours))
    if run.errors[k] < 1e-6:
        yield Sign("rounded")
        return
    factor = weighting.factor_of(ours, theirs)
    words = {"factor": f"{factor:.3g}"}
    several = sum(len(entry["index"]) for entry in run.diaries[k] if entry.get("op") == "B") > run.M
    yield Sign("backward-again", bool(factor) and several, words=words)
    beliefs = weighting.beliefs_about_gradients(run.parts(k, "B"))
    yield from try_beliefs(beliefs, lambda guess: ref.gradient_difference(ours, guess) < 1e-8)
    yield Sign("one-buffer", _memory_used_twice(run.diaries[k]))
    unclipped = {"unclipped": ", without clipping" if 0 < factor < 1 else ""}
    yield Sign("scaled", bool(factor), words=words | unclipped)
    yield Sign("other-gradient-last" if is_last else "other-gradient")


def _memory_used_twice(diary: Sequence[Entry]) -> bool:
    """Whether two activations were received into the same memory, with no backward in between."""
    seen: set[int] = set()
    for entry in diary:
        if entry.get("op") == "B":
            seen.clear()
        elif "recv" in entry.get("do", ""):
            if entry["memory"] in seen:
                return True
            seen.add(entry["memory"])
    return False


_REASONS: Final = ("sends", "receives", "waits", "tags", "returned", "unreceived", "unwaited", "dtype", "no-neighbour")
"""Those that the watched processes give and that are names of slips, too."""

_ERRORS: Final = (
    ("no-gradient", "implicitly created"),
    ("second-time", "a second time"),
    ("detached", "does not require grad"),
    ("contiguous", "contiguous"),
    ("other-gradient-shape", "Mismatch in shape"),
    ("one-buffer", "modified by an inplace"),
)
"""Slip, and what PyTorch's message contains."""


def about_failure(asked: RunQuestion, failure: Failure, trouble: Trouble, diaries: Diaries) -> Signs:
    """If none shows, it is an error like any other. diaries: up to then."""
    reason = "unwaited" if failure.reason == "lost" else failure.reason  # which of them comes is a matter of luck
    if reason == "size":
        yield from _about_sizes(asked, trouble, diaries)
    for name in _REASONS:
        yield Sign(name, reason == name, trouble=trouble)
    yield from _about_none(failure.message, trouble, diaries)
    for sent, received in MessageLog(diaries).pairs():  # raises no error by itself, but computing with it may
        expected, came = _shapes_in_words(asked, diaries, sent, received)
        larger = sent.shape[1:] == received.shape[1:] and sent.shape[:1] < received.shape[:1]
        yield Sign("first-size", larger, expected=expected, came=came, trouble=trouble)
    for slip, words in _ERRORS:
        yield Sign(slip, words in failure.message, trouble=trouble)


def _shapes_in_words(asked: RunQuestion, diaries: Diaries, sent: Post, received: Post) -> tuple[str, str]:
    """What a message and its buffer should have had, and what they had."""
    schedule, front = asked.schedule, min(sent.rank, received.rank)
    kind = "F" if sent.rank < received.rank else "B"
    ops = [op for op in schedule.rows[sent.rank] if op.kind == kind]
    earlier = [
        post
        for post in MessageLog(diaries).posts[sent.rank].values()
        if post.sends and post.peer == received.rank and post.number < sent.number
    ]
    counts = [len(piece) for piece in split_batch(asked.x, schedule.micro_batches)]
    width = width_of(asked.items, cuts_of(len(asked.items), schedule.stages)[front + 1])
    right = counts[ops[len(earlier) % len(ops)].micro_batch], width
    return f"{right}, sent and received", f"sent {sent.shape}, received as {received.shape}"


def _about_sizes(asked: RunQuestion, trouble: Trouble, diaries: Diaries) -> Signs:
    for sent, received in MessageLog(diaries).pairs():
        expected, came = _shapes_in_words(asked, diaries, sent, received)
        other, same_features = sent.shape != received.shape, sent.shape[1:] == received.shape[1:]
        goes_back = sent.rank > received.rank
        yield Sign(
            "gradient-size", other and same_features and goes_back, expected=expected, came=came, trouble=trouble
        )
        yield Sign("first-size", other and same_features, expected=expected, came=came, trouble=trouble)
        yield Sign("other-shape", other, expected=expected, came=came, trouble=trouble)


def _about_none(message: str, trouble: Trouble, diaries: Diaries) -> Signs:
    """Where None stood for the `pieces` of a process in the middle, or for a gradient that was to be sent."""
    if "NoneType" not in message or not trouble.where:
        return
    text = trouble.where[-1].text
    yield Sign("no-pieces", "subscriptable" in message and "pieces" in text, trouble=trouble)
    needs = [entry["needs"] for diary in diaries[1:] for entry in diary if entry.get("op") == "F"]
    sent = "send" in text or ".grad" in text
    yield Sign("no-requires-grad", sent and bool(needs) and not any(needs), trouble=trouble)
    yield Sign("no-grad-yet", sent, trouble=trouble)
