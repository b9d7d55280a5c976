"""Is this a module that runs its net as a pipeline, so that one backward fills every gradient?

The learner's pipeline gets a network whose layers have their runs stamped. The stamps tell what ran (calls.py); what
came out is compared with one device (outputs.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.base.words import join_words, plural
from gpipe_edu.judge.case import Case, Exam, Sign, Signs, Traps
from gpipe_edu.judge.findings import Chart, Success, Unwritten
from gpipe_edu.judge.guest.networks import Array, Item
from gpipe_edu.judge.networks import draw_digit_batches, items_of
from gpipe_edu.judge.tasks.ex05_wrapper.perform import DEFAULT, PipelineAnswer, StepAnswer
from gpipe_edu.judge.traced_runs import Trail

from .calls import Call, about_recompute, calls_of, cut_anew, signs
from .outputs import PipelineStep, PipelineTask, about_gradients, about_the_form, about_the_output

_TRAPS: Final[Traps] = {"CheckpointError": "other-recompute"}


def examine(exam: Exam, rng: Random) -> Success:
    """Without recompute, with it, ragged and tiny batches, evaluation, dropout, refusals; then the digits."""

    def build(widths: list[int], balance: list[int], M: int, checkpoint: str = "except_last") -> PipelineTask:
        layers = ref.mlp(widths, activation="tanh", seed=rng.randrange(1000))
        return PipelineTask(items_of(layers), balance, M, checkpoint)

    even, small = [5, 5, 5, 5, 5], [5, 6, 7, 6, 4]
    # Layers of one width first: a micro-batch that takes a wrong way gets through, and the calls tell where it was.
    _train(exam, rng, build(even, [3, 2, 2], 4, "never"), [8, 8])
    _train(exam, rng, build(small, [3, 2, 2], 4, "never"), [10, 5])
    _train(exam, rng, build(small, [3, 2, 2], 4), [12])
    _train(exam, rng, build(small, [2, 4, 1], 5, "always"), [9])
    _train(exam, rng, build(small, [3, 4], 3), [8], trains_x=True)
    _train(exam, rng, build(small, [4, 3], 6), [3, 13])
    with exam.blame_on("other-default"):
        _train(exam, rng, build(small, [3, 4], 3, DEFAULT), [8])
    _train(exam, rng, build(small, [2, 2, 2, 1], 1), [4])
    _train(exam, rng, build(small, [7], 3), [7, 1])
    _train(exam, rng, build(small, [2, 2, 2, 1], 3), [12, 2])
    for _ in range(2):
        cuts = sorted(rng.sample(range(1, 7), rng.randint(0, 3)))
        balance = [b - a for a, b in pairwise([0, *cuts, 7])]
        question = build(small, balance, rng.randint(1, 6), rng.choice(["never", "except_last", "always"]))
        _train(exam, rng, question, [rng.randint(1, 14), rng.randint(1, 14)])
    _judge_keys(exam, build(small, [4, 3], 2))
    _judge_without_graph(exam, rng, build(small, [3, 2, 2], 3))
    _evaluate(exam, rng, build(small, [4, 3, 3], 3))
    _judge_dropout(exam, rng, build([5, 24, 24, 4], [4, 3], 4, "always"))
    with exam.blame_on("doubled-layer"):
        _judge_a_doubled_layer(exam, rng, build(even, [3, 2, 2], 2))
    with exam.blame_on("only-small", K=6, M=12):
        _train(exam, rng, build(small, [1, 1, 1, 1, 1, 2], 12), [14])
    _judge_refusals(exam, build(small, [4, 3], 2, "never"))
    return _train_on_digits(exam, rng, build([64, 24, 24, 24, 10], [3, 2, 2], 4))


def _batch(rng: Random, N: int, items: Sequence[Any]) -> tuple[Array, Array]:
    numbers, inputs, outputs = np.random.default_rng(rng.randrange(2**32)), len(items[0][0]), len(items[-1][1])
    return numbers.normal(size=(N, inputs)), numbers.integers(0, outputs, size=N)


def _with_dropout(items: list[Item], p: float = 0.5) -> list[Item]:
    return [part for item in items for part in ([item, p] if item is None else [item])]


def _ask(case: Case, question: PipelineTask) -> tuple[PipelineAnswer, list[list[Call]]]:
    """What came, and for each step what the layers did."""
    trail = Trail(case.exam.secret)
    stamped = question._replace(batches=[(trail.stamp(x), y) for x, y in question.batches])
    answer = case.ask_for(PipelineAnswer, stamped, _TRAPS, trail)
    calls = calls_of(trail, len(question.batches))
    return answer._replace(steps=[StepAnswer(*step) for step in answer.steps]), calls


def _ask_for_a_step(case: Case, question: PipelineTask, before: Sequence[Array] = ()) -> PipelineStep:
    """The step of a question with one mini-batch."""
    answer, (calls,) = _ask(case, question)
    ((x, y),), (came,) = question.batches, answer.steps
    return PipelineStep(question, came, calls, x, y, before)


def _train(exam: Exam, rng: Random, question: PipelineTask, samples: list[int], trains_x: bool = False) -> None:
    """One pipeline, one mini-batch for each of `samples`, whose gradients add up."""
    question = question._replace(batches=[_batch(rng, N, question.items) for N in samples], trains_x=trains_x)
    first = exam.case(f"{question.call}, called with {plural(samples[0], 'sample')}")
    built, before = exam.case(question.call), _zeros(question)
    try:
        answer, calls = _ask(first, question)
    except Unwritten:
        answer, _ = _ask(built, question._replace(batches=[]))
        built.judge(_about_the_build(question, answer))
        raise built.wrong(Sign("only-init")) from None
    built.judge(_about_the_build(question, answer))
    for index, ((x, y), came, ran) in enumerate(zip(question.batches, answer.steps, calls, strict=True)):
        after = ", after another mini-batch" if index else ""
        case = exam.case(f"{question.call}, called with {plural(len(x), 'sample')}{after}")
        step = PipelineStep(question, came, ran, x, y, before)
        case.judge(about_the_form(step))
        case.judge([cut_anew(step.read, samples[index - 1])] if index else [])
        case.judge(signs(step.read))
        case.judge(about_the_output(step))
        case.judge(about_gradients(step))
        if trains_x:
            wrong = ref.gradient_difference([came.dx], [step.truth.dx]) > 1e-9
            case.judge([Sign("no-input-gradient", wrong, "x.grad as on one device", "none" if came.dx is None else "")])
        case.judge(about_recompute(step.read, _mode(question)))
        before = [part for part in came.grads if part is not None]
    first.judge([_leak(step)])


def _mode(question: PipelineTask) -> str:
    return "except_last" if question.checkpoint == DEFAULT else question.checkpoint


def _zeros(question: PipelineTask) -> list[Array]:
    """The gradients before the first mini-batch."""
    return [np.zeros_like(value) for layer in question.layers for value in layer.params.values()]


def _about_the_build(question: PipelineTask, answer: PipelineAnswer) -> Signs:
    yield from _about_parameters(answer.weights, len(_zeros(question)))
    now = answer.balance
    yield Sign("balance-changed", now != question.balance, str(question.balance), str(now))


def _about_parameters(weights: list[int], count: int) -> Signs:
    """Whether they are those of net; a weight that is not one of these is -1."""
    yield Sign("not-registered", not weights, plural(count, "parameter"), "none")
    yield Sign("copied", -1 in weights)
    some = sorted(weights) != list(range(count))
    yield Sign("some-registered", some, plural(count, "parameter"), str(len(weights)))


def _leak(step: PipelineStep) -> Sign:
    held = step.came.held
    return Sign("holds-activations", held > 0, "none after the step", plural(held, "tensor"))


def _judge_keys(exam: Exam, question: PipelineTask) -> None:
    """Stored weights must fit, with and without the pipeline."""
    how = ", net with layers a to g, in evaluation mode, the first one frozen"
    for names, which in (("", ""), ("abcdefg", how)):
        case = exam.case(f"list(MyGPipe(net, [4, 3], 2).state_dict()){which}")
        answer, _ = _ask(case, question._replace(names=names, still=bool(names)))
        # The layers of the check have a layer inside, which a learner knows nothing of.
        ours, theirs = ([key.replace(".layer.", ".") for key in keys] for keys in (answer.keys, answer.own_keys))
        case.expected, case.came = join_words(theirs, 2), join_words(ours, 2)
        case.judge(_about_keys(ours, theirs))
        case.expected, case.came = "", ""
        case.judge([Sign("net-changed", not answer.same_net)])


def _about_keys(ours: list[str], theirs: list[str]) -> Signs:
    entries = (f"{len(theirs)} entries", f"{len(ours)} entries")
    yield Sign("registered-twice", len(ours) > len(theirs), *entries)
    yield Sign("numbered-anew", not theirs[0][0].isdecimal() and all(key[0].isdecimal() for key in ours))
    yield Sign("other-keys", ours != theirs)


def _judge_without_graph(exam: Exam, rng: Random, question: PipelineTask) -> None:
    """Under no_grad there is no graph, but the batch is cut as ever, whatever a sample's shape."""
    flat, y = _batch(rng, 14, question.items)
    for x, slip, shape in (
        (flat, "only-training-cut", ""),
        (flat.reshape(7, 2, -1), "only-rows-cut", ", x of shape (7, 2, 5)"),
    ):
        case = exam.case(f"with torch.no_grad(): pipe(x){shape}")
        step = _ask_for_a_step(case, question._replace(batches=[(x, y)], graph=False))
        case.judge(about_the_form(step))
        graph = step.came.has_graph or any(call.grad for call in step.calls)
        case.judge([Sign("graph-under-no-grad", graph, "no graph", "a graph")])
        case.judge(about_the_output(step))
        case.judge([Sign(slip, len(step.read.pieces) == 1, "3 micro-batches", "1")])
        case.judge(signs(step.read))
        case.judge([_leak(step)])


def _evaluate(exam: Exam, rng: Random, question: PipelineTask) -> None:
    """eval reaches every layer, and changes nothing else: with a graph, the same is recomputed as in training, or
    nothing, as in `GPipe`."""
    case = exam.case("pipe.eval(); pipe(x), for a net with dropout")
    items, batches = _with_dropout(question.items), [_batch(rng, 14, question.items)]
    step = _ask_for_a_step(case, question._replace(items=items, batches=batches, trains=False))
    case.judge(about_the_form(step))
    case.judge([Sign("no-graph", not step.came.has_graph, "an output with a graph", "requires_grad=False")])
    wrong = ref.gradient_difference([step.came.output], [step.truth.output]) > 1e-9
    case.judge([Sign("never-evaluates", wrong, "the output of net.eval()", "other values")])
    case.judge(signs(step.read))
    if step.read.recomputed:
        with exam.blame_on("evaluation-recomputes"):
            case.judge(about_recompute(step.read, question.checkpoint))


def _judge_dropout(exam: Exam, rng: Random, question: PipelineTask) -> None:
    """What was dropped in the forward is dropped in the recompute, and differs between micro-batches."""
    case = exam.case('a net with dropout, M=4, checkpoint="always", forward and backward')
    items, batches = _with_dropout(question.items), [_batch(rng, 8, question.items)]
    step = _ask_for_a_step(case, question._replace(items=items, batches=batches))
    drawn: dict[str, dict[tuple[int, tuple[float, ...]], str]] = {"F": {}, "R": {}}
    for call in step.calls:
        if call.dropped:
            drawn[call.kind][call.layer, call.samples] = call.dropped
    case.judge(_about_dropout(*drawn.values()))


def _about_dropout(first: dict[Any, str], again: dict[Any, str]) -> Signs:
    """For the values that each layer drops for each micro-batch, and those that it drops in the recompute."""
    others = any(dropped != first.get(where) for where, dropped in again.items())
    yield Sign("other-dropout", others, "the same values dropped twice", "others")
    yield Sign("no-dropout", len(first) < 4 * 2 or not any("1" in dropped for dropped in first.values()))
    by_layer = [(layer, dropped) for (layer, _), dropped in first.items()]
    yield Sign("same-dropout", any(a == b for a, b in combinations(by_layer, 2)))


def _judge_a_doubled_layer(exam: Exam, rng: Random, question: PipelineTask) -> None:
    """One activation stands in net at three places; which calls are whose can't be told apart."""
    case = exam.case(f"{question.call}, one Tanh at three places of net")
    question = question._replace(batches=[_batch(rng, 6, question.items)], shared=True)
    step = _ask_for_a_step(case, question, _zeros(question))
    case.judge(about_the_form(step))
    case.judge(about_the_output(step))
    case.judge(about_gradients(step))


def _judge_refusals(exam: Exam, question: PipelineTask) -> None:
    given = question._asdict()
    for checkpoint in ("exceptlast", "last", "ALWAYS", None):
        case = exam.case(f"MyGPipe(net, [4, 3], 2, checkpoint={checkpoint!r})")
        case.refuses(Sign("any-mode"), lambda _: "no error", **given | {"checkpoint": checkpoint})
    for balance in ([4, 2], [4, 4], [7, 0], [8, -1]):
        case = exam.case(f"MyGPipe(net, {balance}, 2), net with 7 layers")
        case.refuses(Sign("any-balance"), lambda _: "no error", **given | {"balance": balance})


def _train_on_digits(exam: Exam, rng: Random, question: PipelineTask) -> Success:
    """Five steps on digits; then the calls of the last one become a schedule, and the NumPy engine runs that."""
    layers, batches = question.layers, draw_digit_batches(rng, 5, 100)
    case = exam.case("five steps on the digits, 100 samples each, M=4")
    answer, calls = _ask(case, question._replace(batches=batches, rate=0.1))
    optimizer = ref.SGD(layers, learning_rate=0.1, momentum=0.5)
    for (x, y), came, ran in zip(batches, answer.steps, calls, strict=True):
        step = PipelineStep(question._replace(items=items_of(layers)), came, ran, x, y)
        case.judge(about_the_form(step))
        case.judge(signs(step.read))
        case.judge(about_the_output(step))
        _, exact = ref.train_sequential(layers, x, y)
        schedule = step.read.schedule
        found = ref.train_pipeline(layers, x, y, schedule, balance=question.balance).grads
        error = ref.gradient_difference(found, exact)
        optimizer.step(exact)
    return exam.success(Chart("your calls, a device for each stage", str(schedule)), error=error)
