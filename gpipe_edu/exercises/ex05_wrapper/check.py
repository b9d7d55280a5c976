"""Is this a module that runs its net as a pipeline, so that one backward fills every gradient?

The learner's pipeline gets a network whose layers write down who calls them (watching.py). What they noted tells what
ran (calls.py); what came out is held against one device (values.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.data import digits
from gpipe_edu.exercises.case import Case, Exam, Sign, Signs, Traps
from gpipe_edu.exercises.networks import Array, arrays_of, items_of
from gpipe_edu.sandbox.findings import Chart, Success
from gpipe_edu.words import join_words, plural, with_article

from .calls import about_recompute, cut_anew, signs
from .outputs import Pipeline, Step, about_gradients, about_the_form, about_the_output

HIDDEN: Final = {"gpipe_edu.pytorch.GPipe": "MyGPipe"}

_TRAPS: Final[Traps] = {"CheckpointError": "other-recompute"}


def perform(MyGPipe: Any, **given: Any) -> Any:
    """See `watching.perform`, which is loaded where torch is."""
    from .watching import perform

    return perform(MyGPipe, **given)


def examine(exam: Exam, rng: Random) -> Success:
    """Without recompute, with it, ragged and tiny batches, evaluation, dropout, refusals; then the digits."""

    def made(widths: list[int], balance: list[int], M: int, checkpoint: str = "except_last") -> Pipeline:
        return Pipeline(ref.mlp(widths, activation="tanh", seed=rng.randrange(1000)), balance, M, checkpoint)

    even, small = [5, 5, 5, 5, 5], [5, 6, 7, 6, 4]
    # Layers of one width first: a micro-batch that takes a wrong way gets through, and the calls tell where it was.
    _train(exam, rng, made(even, [3, 2, 2], 4, "never"), [8, 8])
    _train(exam, rng, made(small, [3, 2, 2], 4, "never"), [10, 5])
    _train(exam, rng, made(small, [3, 2, 2], 4), [12])
    _train(exam, rng, made(small, [2, 4, 1], 5, "always"), [9])
    _train(exam, rng, made(small, [3, 4], 3), [8], trains_x=True)
    _train(exam, rng, made(small, [4, 3], 6), [3, 13])
    _train(exam, rng, made(small, [7], 3), [7, 1])
    _train(exam, rng, made(small, [2, 2, 2, 1], 1), [4])
    for _ in range(2):
        cuts = sorted(rng.sample(range(1, 7), rng.randint(0, 3)))
        balance = [b - a for a, b in pairwise([0, *cuts, 7])]
        pipeline = made(small, balance, rng.randint(1, 6), rng.choice(["never", "except_last", "always"]))
        _train(exam, rng, pipeline, [rng.randint(1, 14), rng.randint(1, 14)])
    _keys(exam, made(small, [4, 3], 2))
    _without_graph(exam, rng, made(small, [3, 2, 2], 3))
    _evaluate(exam, rng, made(small, [4, 3, 3], 3))
    _dropout(exam, rng, made([5, 24, 24, 4], [4, 3], 4, "always"))
    with exam.told_as("doubled-layer"):
        _doubled(exam, rng, made(even, [3, 2, 2], 2))
    _refusals(exam, made(small, [4, 3], 2))
    return _digits(exam, rng, made([64, 24, 24, 24, 10], [3, 2, 2], 4))


def _batch(rng: Random, N: int, layers: Sequence[ref.Layer]) -> tuple[Array, Array]:
    numbers, (inputs, _) = np.random.default_rng(rng.randrange(2**32)), layers[0].params["weight"].shape
    return numbers.normal(size=(N, inputs)), numbers.integers(0, len(layers[-1].params["bias"]), size=N)


def _asked(
    case: Case, pipeline: Pipeline, batches: Sequence[tuple[Array, Array]] = (), p: float = 0, **given: Any
) -> Any:
    """What came of a pipeline, which has dropout with p if that is not 0."""
    items = items_of(pipeline.layers)
    if p:
        items = [part for item in items for part in ([item, p] if item is None else [item])]
    given |= {"balance": pipeline.balance, "M": pipeline.M, "checkpoint": pipeline.checkpoint}
    found = case.ask(_TRAPS, items=items, batches=batches, **given)
    case.judge([Sign("not-a-module", bool(found["bad"]), "an nn.Module", with_article(found["bad"] or "module"))])
    return found


def _train(exam: Exam, rng: Random, pipeline: Pipeline, samples: list[int], trains_x: bool = False) -> None:
    """One pipeline, one mini-batch for each of `samples`, whose gradients add up."""
    batches = [_batch(rng, N, pipeline.layers) for N in samples]
    first = exam.case(f"{pipeline.call}, called with {plural(samples[0], 'sample')}")
    found = _asked(first, pipeline, batches, trains_x=trains_x)
    before = [np.zeros_like(part) for part in arrays_of(pipeline.layers)]
    exam.case(pipeline.call).judge(_about_parameters(found["weights"], len(before)))
    for index, ((x, y), seen) in enumerate(zip(batches, found["steps"], strict=True)):
        after = ", after another mini-batch" if index else ""
        case = exam.case(f"{pipeline.call}, called with {plural(len(x), 'sample')}{after}")
        step = Step(pipeline, x, y, before, **seen)
        case.judge(about_the_form(step))
        case.judge([cut_anew(step.read, samples[index - 1])] if index else [])
        case.judge(signs(step.read))
        case.judge(about_the_output(step))
        case.judge(about_gradients(step))
        if trains_x:
            wrong = ref.gradient_difference([step.dx], [step.truth.dx]) > 1e-9
            came = "none" if step.dx is None else ""
            case.judge([Sign("no-input-gradient", wrong, "x.grad as on one device", came)])
        case.judge(about_recompute(step.read, pipeline.checkpoint))
        before = [part for part in step.grads if part is not None]
    first.judge([_held(step)])


def _about_parameters(weights: list[int], count: int) -> Signs:
    """Whether they are those of net, each of which is -1 if it is another one."""
    yield Sign("not-registered", not weights, plural(count, "parameter"), "none")
    yield Sign("copied", -1 in weights)
    some = sorted(weights) != list(range(count))
    yield Sign("some-registered", some, plural(count, "parameter"), str(len(weights)))


def _held(step: Step) -> Sign:
    return Sign("holds-activations", step.held > 0, "none after the step", plural(step.held, "tensor"))


def _keys(exam: Exam, pipeline: Pipeline) -> None:
    """Stored weights must fit, with and without the pipeline."""
    for names, which in (("", ""), ("abcdefg", ", net with layers a to g")):
        case = exam.case(f"list(MyGPipe(net, [4, 3], 2).state_dict()){which}")
        found = _asked(case, pipeline, names=names)
        # The layers of the check have a layer inside, which a learner knows nothing of.
        ours, theirs = ([key.replace(".layer.", ".") for key in found[name]] for name in ("keys", "own_keys"))
        case.expected, case.came = join_words(theirs, 2), join_words(ours, 2)
        case.judge(_about_keys(ours, theirs))


def _about_keys(ours: list[str], theirs: list[str]) -> Signs:
    told = (f"{len(theirs)} entries", f"{len(ours)} entries")
    yield Sign("registered-twice", len(ours) > len(theirs), *told)
    yield Sign("numbered-anew", not theirs[0][0].isdecimal() and all(key[0].isdecimal() for key in ours))
    yield Sign("other-keys", ours != theirs)


def _without_graph(exam: Exam, rng: Random, pipeline: Pipeline) -> None:
    """Under no_grad there is no graph, and a cut as ever, whatever shape a sample has."""
    flat, y = _batch(rng, 14, pipeline.layers)
    for x, slip, shape in (
        (flat, "only-training-cut", ""),
        (flat.reshape(7, 2, -1), "only-rows-cut", ", x of shape (7, 2, 5)"),
    ):
        case = exam.case(f"with torch.no_grad(): pipe(x){shape}")
        (seen,) = _asked(case, pipeline, [(x, y)], graph=False)["steps"]
        step = Step(pipeline, x, y, (), **seen)
        case.judge(about_the_form(step))
        graph = step.has_graph or any(grad for _, _, _, _, grad, _ in step.calls)
        case.judge([Sign("graph-under-no-grad", graph, "no graph", "a graph")])
        case.judge(about_the_output(step))
        case.judge([Sign(slip, len(step.read.pieces) == 1, "3 micro-batches", "1")])
        case.judge(signs(step.read))
        case.judge([_held(step)])


def _evaluate(exam: Exam, rng: Random, pipeline: Pipeline) -> None:
    """eval reaches every layer, and changes nothing else: with a graph, what is recomputed is recomputed."""
    case = exam.case("pipe.eval(); pipe(x), for a net with dropout")
    x, y = _batch(rng, 14, pipeline.layers)
    (seen,) = _asked(case, pipeline, [(x, y)], p=0.5, trains=False)["steps"]
    step = Step(pipeline, x, y, (), **seen)
    case.judge(about_the_form(step))
    wrong = ref.gradient_difference([step.output], [step.truth.output]) > 1e-9
    case.judge([Sign("never-evaluates", wrong, "the output of net.eval()", "other values")])
    case.judge(signs(step.read))
    with exam.told_as("only-training-recomputes"):
        case.judge(about_recompute(step.read, pipeline.checkpoint))


def _dropout(exam: Exam, rng: Random, pipeline: Pipeline) -> None:
    """What was dropped in the forward is dropped in the recompute, and differs between micro-batches."""
    case = exam.case('a net with dropout, M=4, checkpoint="always", forward and backward')
    (seen,) = _asked(case, pipeline, [_batch(rng, 8, pipeline.layers)], p=0.5)["steps"]
    drawn: dict[str, dict[tuple[int, tuple[float, ...]], str]] = {"dropped, F": {}, "dropped, R": {}}
    for kind, layer, numbers, _, _, dropped in seen["calls"]:
        if kind in drawn:
            drawn[kind][layer, tuple(numbers)] = dropped
    case.judge(_about_dropout(*drawn.values()))


def _about_dropout(first: dict[Any, str], again: dict[Any, str]) -> Signs:
    """For the values that are dropped by each layer for each micro-batch, and those in the recompute."""
    others = any(dropped != first.get(where) for where, dropped in again.items())
    yield Sign("other-dropout", others, "the same values dropped twice", "others")
    yield Sign("no-dropout", len(first) < 4 * 2 or not any("1" in dropped for dropped in first.values()))
    by_layer = [(layer, dropped) for (layer, _), dropped in first.items()]
    yield Sign("same-dropout", any(a == b for a, b in combinations(by_layer, 2)))


def _doubled(exam: Exam, rng: Random, pipeline: Pipeline) -> None:
    """One activation stands in net at three places; which calls are whose can't be told apart."""
    case = exam.case(f"{pipeline.call}, one Tanh at three places of net")
    x, y = _batch(rng, 6, pipeline.layers)
    (seen,) = _asked(case, pipeline, [(x, y)], shared=True)["steps"]
    step = Step(pipeline, x, y, [np.zeros_like(part) for part in arrays_of(pipeline.layers)], **seen)
    case.judge(about_the_form(step))
    case.judge(about_the_output(step))
    case.judge(about_gradients(step))


def _refusals(exam: Exam, pipeline: Pipeline) -> None:
    given = {"items": items_of(pipeline.layers), "M": 2}
    for checkpoint in ("exceptlast", "last", "ALWAYS", None):
        case = exam.case(f"MyGPipe(net, [4, 3], 2, checkpoint={checkpoint!r})")
        case.refuses(Sign("any-mode"), lambda _: "no error", balance=[4, 3], checkpoint=checkpoint, **given)
    for balance in ([4, 2], [4, 4], [7, 0], [8, -1]):
        case = exam.case(f"MyGPipe(net, {balance}, 2), net with 7 layers")
        case.refuses(Sign("any-balance"), lambda _: "no error", balance=balance, checkpoint="never", **given)


def _digits(exam: Exam, rng: Random, pipeline: Pipeline) -> Success:
    """Five steps on digits; then the calls of the last one become a schedule, and the NumPy engine runs that."""
    data, layers = digits(), pipeline.layers
    rows = np.random.default_rng(rng.randrange(2**32)).permutation(len(data.x_train))[:500].reshape(5, 100)
    batches = [(np.asarray(data.x_train[row], dtype=float), np.asarray(data.y_train[row])) for row in rows]
    case = exam.case("five steps on the digits, 100 samples each, M=4")
    found = _asked(case, pipeline, batches, rate=0.1)
    optimizer = ref.SGD(layers, learning_rate=0.1, momentum=0.5)
    for (x, y), seen in zip(batches, found["steps"], strict=True):
        step = Step(pipeline, x, y, (), **seen)
        case.judge(about_the_form(step))
        case.judge(signs(step.read))
        case.judge(about_the_output(step))
        _, exact = ref.train_sequential(layers, x, y)
        schedule = step.read.schedule
        error = ref.gradient_difference(
            ref.train_pipeline(layers, x, y, schedule, balance=pipeline.balance).grads, exact
        )
        optimizer.step(exact)
    return exam.success(Chart("your calls, a device for each stage", str(schedule)), error=error)
