"""Does torch.utils.checkpoint throw away what it should? Judged by what runs again and by what stays in memory.

Values and gradients are judged against NumPy, with the dropout masks that were drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from random import Random
from typing import Final

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.data import digits
from gpipe_edu.exercises.case import Case, Exam, Sign, Signs, Traps
from gpipe_edu.exercises.networks import Array, Item, Truth, layer_of, one_device
from gpipe_edu.sandbox.findings import Chart, Success
from gpipe_edu.words import listed, percent, with_article

from . import reruns
from .witness import Number, Stages
from .witness import perform as perform

_TRAPS: Final[Traps] = {"CheckpointError": "other-recompute"}


@dataclass(frozen=True)
class Given:
    """One call of `forward`, see `perform`."""

    stages: Stages
    x: Array
    dy: Array
    again: list[bool]
    seed: int = 0
    trains: bool = True
    graph: bool = True
    follow: bool = False
    earlier: Array | None = None

    @property
    def draws(self) -> bool:
        """Whether there is a dropout, and it drops."""
        return self.trains and any(isinstance(item, float) for item in chain(*self.stages))


@dataclass(frozen=True)
class Step:
    """What came of a call, see `perform`; what is true of it."""

    given: Given
    output: Array
    has_graph: bool
    runs: list[Number]
    blind: list[int]
    kept: list[tuple[int, int, int]]
    input_requires: bool
    input_values: Array
    same_lists: bool
    same_modes: bool
    reruns: list[Number]
    masks: dict[Number, list[Array]]
    dx: Array | None
    grads: list[Array | None]
    left: list[Number]

    @property
    def drawn(self) -> dict[Number, Array]:
        """What each Dropout drew in the forward."""
        return {number: drawn[0] for number, drawn in self.masks.items()} if self.given.draws else {}

    @cached_property
    def truth(self) -> Truth:
        """What one device computes; the gradients with those of the earlier input."""
        given, drawn = self.given, self.drawn
        numbered = [((k, i), item) for k, items in enumerate(given.stages) for i, item in enumerate(items)]
        layers = [layer_of(item, drawn.get(number)) for number, item in numbered]
        truth = one_device(layers, given.x, dy=given.dy)
        if given.earlier is None:
            return truth
        earlier = one_device(layers, given.earlier, dy=given.dy)
        return truth._replace(grads=[a + b for a, b in zip(truth.grads, earlier.grads, strict=True)])

    @property
    def lost(self) -> list[int]:
        """The stages that have weights without a gradient."""
        stages = self.given.stages
        owners = [k for k, items in enumerate(stages) for item in items if isinstance(item, tuple) for _ in item]
        return sorted({k for k, gradient in zip(owners, self.grads, strict=True) if gradient is None})

    @property
    def error(self) -> float:
        """How far the gradients are from the truth, that of x with them if there has to be one."""
        mine, exact = ([self.dx], [self.truth.dx]) if self.given.follow else ([], [])
        return ref.gradient_difference([*self.grads, *mine], [*self.truth.grads, *exact])


def examine(exam: Exam, rng: Random) -> Success:
    """Four stages of which one keeps all; then others, dropout, evaluation, an input with a gradient; the digits."""
    numbers = np.random.default_rng(rng.randrange(2**32))

    def drawn(again: list[bool], p: float) -> Given:
        stages, N = [_stage(numbers, [5, 5, 5], p) for _ in again], rng.randint(6, 9)
        x, dy = numbers.normal(size=(2, N, 5))  # enough values that no two draws are alike
        return Given(stages, x, dy, again, seed=rng.randrange(1000))

    cases = [([True, False, True, True], 0.0), ([True] * 3, 0.5), ([False] * 2, 0.0), ([True], 0.3)]
    cases += [([rng.random() < 0.6 for _ in range(rng.randint(1, 4))], rng.choice([0.0, 0.4])) for _ in range(3)]
    for index, (again, p) in enumerate(cases):
        given = drawn(again, p)
        _train(exam, replace(given, follow=index % 2 == 1))
        _evaluate(exam, replace(given, graph=False, trains=False))
    _evaluate(exam, replace(drawn([True, False], 0.0), graph=False))
    with exam.told_as("eval-mode"):
        _train(exam, replace(drawn([True, False, True], 0.5), trains=False))
    with exam.told_as("second-call"):
        given = drawn([True, False, True], 0.0)
        _train(exam, replace(given, earlier=numbers.normal(size=given.x.shape)))
    return _digits(exam, rng, numbers)


def _stage(numbers: np.random.Generator, sizes: Sequence[int], p: float) -> list[Item]:
    """Linear, Tanh and, if p, Dropout; a Tanh at the end, which keeps its own output, so that nothing is cut short."""
    items: list[Item] = []
    for index, (inputs, outputs) in enumerate(pairwise(sizes)):
        items += [(numbers.normal(size=(inputs, outputs)) / inputs**0.5, numbers.normal(size=outputs)), None]
        items += [p] if p and index == 0 else []
    return items


def _train(exam: Exam, given: Given) -> Step:
    """Judge a forward and its backward."""
    dropout = " with dropout" if any(isinstance(item, float) for item in given.stages[0]) else ""
    mode = "" if given.trains else " in evaluation mode"
    second = "" if given.earlier is None else " after another x, before its backward"
    case = exam.case(f"forward(stages, x, again={given.again}){dropout}{mode}{second}")
    step = _asked(case, given)
    case.judge(_about_the_forward(step))
    if step.lost:
        _judge_lost(case, step)
    again = reruns.Reruns(given.again, list(map(len, given.stages)), step.reruns)
    case.expected, case.came = again.expected, again.came
    case.judge(reruns.signs(again))
    case.expected, case.came = "", ""
    case.judge(_about_memory(step))
    case.judge(_about_dropout(step, case))
    case.judge(_about_gradients(step))
    return step


def _asked(case: Case, given: Given) -> Step:
    """What came, when it is a tensor."""
    found, trouble = case.exam.reply(**vars(given))
    if trouble:
        called = trouble.kind == "TypeError" and "'Tensor' object is not callable" in trouble.message
        case.judge([Sign("called-too-early", called, trouble=trouble)])
        case.fail(trouble, _TRAPS)
    if "bad" in found:
        case.judge([Sign("no-return", found["bad"] == "NoneType", "a tensor", "None")])
        case.judge([Sign("no-tensor", True, "a tensor", with_article(found["bad"]))])
    return Step(given, **found)


def _about_the_forward(step: Step) -> Signs:
    given = step.given
    requires = (f"requires_grad={given.follow}", f"requires_grad={step.input_requires}")
    changed = step.input_requires != given.follow or not np.array_equal(step.input_values, given.x)
    yield Sign("input-changed", changed, *requires)
    # What is kept is made larger, so that a 1 was not drawn.
    yield Sign("dropout-off", any((mask == 1).any() for mask in step.drawn.values()))
    rows = (_row(step.truth.output), _row(step.output))
    yield Sign("other-output", not _same_values(step), *rows)
    yield Sign("twice-forward", max(Counter(step.runs).values()) > 1, "each layer once", "some layers twice")
    yield Sign("lists-changed", not step.same_lists)


def _judge_lost(case: Case, step: Step) -> None:
    """Why some weights got no gradient: what comes when the input requires one?"""
    followed = _asked(case, replace(step.given, follow=True))
    case.expected, case.came = "gradients for all weights", f"none for stage {listed(step.lost)}"
    case.judge([Sign("needs-input-gradient", not followed.lost)])
    case.judge([Sign("no-grad-for-good", bool(set(step.lost) & set(step.blind))), Sign("detached")])


def _about_memory(step: Step) -> Signs:
    stages, again = step.given.stages, step.given.again
    for k, i, _ in step.kept:
        told = ("only inputs of such stages", f"the output of layer {i} in stage {k} is still there")
        yield Sign("interior-kept", again[k] and i < len(stages[k]) - 1, *told)
    yield _held(step)


def _held(step: Step) -> Sign:
    return Sign("held-after", bool(step.left), "nothing in memory", f"{len(step.left)} outputs of layers still are")


def _about_dropout(step: Step, case: Case) -> Signs:
    drawn = step.drawn
    others = any(not np.array_equal(drawn[number], masks[-1]) for number, masks in step.masks.items() if drawn)
    yield Sign("other-dropout", others)
    if drawn:
        again = _asked(case, replace(step.given, seed=step.given.seed + 1)).drawn
        yield Sign("same-every-step", all(np.array_equal(mask, again[number]) for number, mask in drawn.items()))


def _about_gradients(step: Step) -> Signs:
    yield Sign("no-input-gradient", step.given.follow and step.dx is None, "x.grad", "None")
    yield Sign("other-gradient", not step.error < 1e-9, came=f"off by {percent(step.error)}")


def _evaluate(exam: Exam, given: Given) -> None:
    """Under no_grad there is no way back, and nothing to keep for it."""
    case = exam.case(f"with torch.no_grad(): forward(stages, x, again={given.again})")
    case.judge(_about_evaluation(_asked(case, given)))


def _about_evaluation(step: Step) -> Signs:
    yield Sign("graph-in-evaluation", step.has_graph, "no graph", "requires_grad=True")
    yield _held(step)
    yield Sign("other-in-evaluation", len(step.runs) != sum(map(len, step.given.stages)) or not _same_values(step))
    yield Sign("mode-changed", not step.same_modes)


def _same_values(step: Step) -> bool:
    exact = step.truth.output
    return step.output.shape == exact.shape and np.allclose(step.output, exact, rtol=1e-9, atol=1e-9)


def _digits(exam: Exam, rng: Random, numbers: np.random.Generator) -> Success:
    """A deep network on the digits: what it keeps with and without, and its gradients beside NumPy's."""
    data, first = digits(), rng.randrange(1000)
    x, y = np.asarray(data.x_train[first : first + 64], dtype=float), np.asarray(data.y_train[first : first + 64])
    stages = [_stage(numbers, sizes, 0.0) for sizes in ([64, 32, 32, 32], [32, 32, 32, 32], [32, 32, 32, 10])]
    _, dy = ref.cross_entropy(ref.predict(list(map(layer_of, chain(*stages))), x), y)
    plain, thrifty = (_train(exam, Given(stages, x, dy, [more] * 3)) for more in (False, True))
    kept = [sum(size for _, _, size in step.kept) for step in (plain, thrifty)]
    chart = Chart("one micro-batch, all stages run again", "F0 C0\n" * 3)
    return exam.success(chart, error=thrifty.error, plain=kept[0], thrifty=kept[1])


def _row(value: Array) -> str:
    return f"shape {value.shape}, first row " + ", ".join(f"{number:.4f}" for number in np.atleast_2d(value)[0][:4])
