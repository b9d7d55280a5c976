"""Does torch.utils.checkpoint throw away what it should? Judged by what runs again, on what, and what stays in memory.

Values and gradients are judged against NumPy, with the dropout masks that were drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from random import Random
from typing import Final

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.base.words import join_words, percent, tell_apart
from gpipe_edu.judge.case import Case, Exam, Sign, Signs, Traps
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.guest.networks import Array, Item, layer_of
from gpipe_edu.judge.networks import Truth, draw_digits, one_device
from gpipe_edu.judge.tasks.ex04_checkpoint.perform import CheckpointAnswer, CheckpointQuestion, Number
from gpipe_edu.judge.traced_runs import Trail

from . import reruns
from .reruns import LayerRuns

_TRAPS: Final[Traps] = {
    "CheckpointError": "other-recompute",
    "TypeError: 'Tensor' object is not callable": "called-too-early",
}

_ROUNDED: Final = 1e-3
"""How far off numbers are, at most, that had another type on the way."""


@dataclass(frozen=True)
class CheckpointedStep:
    """What was asked (inputs without stamps), the gradient that its backward began with, what came and what ran."""

    asked: CheckpointQuestion
    dy: Array
    came: CheckpointAnswer
    ran: LayerRuns

    @property
    def first_masks(self) -> dict[Number, Array]:
        """What each Dropout drew in the forward; nothing in evaluation mode."""
        trains, still = self.asked.trains, self.asked.still
        return {number: drawn[0] for number, drawn in self.came.masks.items() if trains and number != still}

    @property
    def output(self) -> Array:
        """Without the stamps."""
        return self.came.output[..., :-1]

    @cached_property
    def truth(self) -> Truth:
        """What one device computes; the gradients with those of the earlier input."""
        asked, drawn = self.asked, self.first_masks
        numbered = [((k, i), item) for k, items in enumerate(asked.stages) for i, item in enumerate(items)]
        layers = [layer_of(item, drawn.get(number)) for number, item in numbered]
        truth = one_device(layers, asked.x, dy=self.dy)
        if asked.earlier is None:
            return truth
        earlier = one_device(layers, asked.earlier, dy=self.dy)
        return truth._replace(grads=[a + b for a, b in zip(truth.grads, earlier.grads, strict=True)])

    def as_if_all_were_kept(self) -> CheckpointedStep:
        """The same step, to be judged as if no stage had been asked to run again."""
        none = [False] * len(self.asked.again)
        return replace(self, asked=self.asked._replace(again=none), ran=replace(self.ran, again=none))

    @property
    def lost(self) -> list[int]:
        """The stages that have weights without a gradient."""
        stages = self.asked.stages
        owners = [k for k, items in enumerate(stages) for item in items if isinstance(item, tuple) for _ in item]
        return sorted({k for k, gradient in zip(owners, self.came.grads, strict=True) if gradient is None})

    @property
    def error(self) -> float:
        """How far the gradients are from the truth, including that of x if there has to be one."""
        mine, exact = ([self.came.dx], [self.truth.dx]) if self.asked.follow else ([], [])
        return ref.gradient_difference([*self.came.grads, *mine], [*self.truth.grads, *exact])


def examine(exam: Exam, rng: Random) -> Success:
    """Four stages, one of which keeps all; others, dropout, evaluation, an input with a gradient; eight; the digits."""
    numbers = np.random.default_rng(rng.randrange(2**32))

    def draw(again: list[bool], p: float) -> tuple[CheckpointQuestion, Array]:
        stages, N = [_stage(numbers, [5, 5, 5], p) for _ in again], rng.randint(6, 9)
        x, dy = numbers.normal(size=(2, N, 5))  # enough values that no two draws are alike
        return CheckpointQuestion(stages, x, again, seed=rng.randrange(1000)), dy

    cases = [([True, False, True, True], 0.0), ([True] * 3, 0.5), ([False] * 2, 0.0), ([True], 0.3)]
    cases += [([rng.random() < 0.6 for _ in range(rng.randint(1, 4))], rng.choice([0.0, 0.4])) for _ in range(3)]
    _train(exam, *draw([True, False, True, True], 0.0))
    with exam.blame_on("second-call"):
        for before in ([True, False, True], [False, True, False]):
            question, dy = draw([True, False, True], 0.0)
            earlier = numbers.normal(size=question.x.shape)
            _train(exam, question._replace(earlier=earlier, earlier_again=before), dy)
    for index, (again, p) in enumerate(cases):
        question, dy = draw(again, p)
        _train(exam, question._replace(follow=index % 2 == 1), dy)
        _evaluate(exam, question._replace(graph=False, trains=False), dy)
    question, dy = draw([True, False], 0.0)
    _evaluate(exam, question._replace(graph=False), dy)
    with exam.blame_on("eval-mode"):
        question, dy = draw([True, False, True], 0.5)
        _train(exam, question._replace(trains=False), dy)
    question, dy = draw([True, False], 0.5)
    _train(exam, question._replace(still=(0, 2)), dy)
    with exam.blame_on("only-small"):
        _train(exam, *draw([True] * 8, 0.0))
    return _digits(exam, rng, numbers)


def _stage(numbers: np.random.Generator, sizes: Sequence[int], p: float) -> list[Item]:
    """Linear, Tanh and, if p, Dropout; a Tanh at the end, which keeps its own output, so that nothing is cut short."""
    items: list[Item] = []
    for index, (inputs, outputs) in enumerate(pairwise(sizes)):
        items += [(numbers.normal(size=(inputs, outputs)) / inputs**0.5, numbers.normal(size=outputs)), None]
        items += [p] if p and index == 0 else []
    return items


def _train(exam: Exam, question: CheckpointQuestion, dy: Array) -> CheckpointedStep:
    """Judge a forward and its backward."""
    dropout = " with dropout" if any(isinstance(item, float) for item in question.stages[0]) else ""
    mode = "" if question.trains else " in evaluation mode"
    mode += "" if question.still is None else ", that of stage 0 in evaluation mode"
    second = "" if question.earlier is None else " after another x, before its backward"
    case = exam.case(f"forward(stages, x, again={question.again}){dropout}{mode}{second}")
    step = _ask(case, question, dy)
    case.judge(_about_the_forward(step))
    if step.lost:
        _judge_lost(case, step)
    if not (question.trains or step.ran.again_run):  # in evaluation mode none need run again, as in `GPipe`
        step = step.as_if_all_were_kept()
    again = reruns.Reruns(step.asked.again, list(map(len, question.stages)), step.ran.again_run)
    case.expected, case.came = again.expected, again.came
    case.judge(reruns.signs(again))
    case.expected, case.came = "", ""
    case.judge(_about_memory(step))
    case.judge(_about_dropout(step, case))
    case.judge(_about_gradients(step))
    return step


def _ask(case: Case, question: CheckpointQuestion, dy: Array) -> CheckpointedStep:
    trail = Trail(case.exam.secret, np.pad(dy, [(0, 0), (0, 1)]))
    earlier = None if question.earlier is None else trail.stamp(question.earlier)
    stamped = question._replace(x=trail.stamp(question.x), earlier=earlier)
    traps = _TRAPS if question.still is None else {**_TRAPS, "CheckpointError": "layer-mode"}
    came = case.ask_for(CheckpointAnswer, stamped, traps, trail)
    return CheckpointedStep(question, dy, came, LayerRuns(trail, question.stages, question.again))


def _about_the_forward(step: CheckpointedStep) -> Signs:
    asked, came = step.asked, step.came
    yield Sign("grad-mode", not came.grad_mode_kept)
    yield Sign("layer-mode", asked.still is not None and not came.same_modes)
    requires = (f"requires_grad={asked.follow}", f"requires_grad={came.input_requires}")
    yield Sign("input-changed", came.input_requires != asked.follow, *requires)
    same_input = np.array_equal(came.input_values[..., :-1], asked.x)
    yield Sign("input-overwritten", not same_input, *_rows(asked.x, came.input_values[..., :-1]))
    # Dropout scales up what it keeps, so a 1 was not drawn.
    yield Sign("dropout-off", any((mask == 1).any() for mask in step.first_masks.values()))
    rows = _rows(step.truth.output, step.output)
    yield Sign("skipped", step.ran.skipped, "all layers", "some never ran")
    yield Sign("other-order", not step.ran.whole, *rows)
    yield Sign("rounded", not _same_values(step) and _same_values(step, _ROUNDED), *rows)
    yield Sign("other-output", not _same_values(step, _ROUNDED), *rows)
    yield Sign("twice-forward", step.ran.twice, "each layer once", "some layers twice")
    yield Sign("lists-changed", not came.same_lists)


def _judge_lost(case: Case, step: CheckpointedStep) -> None:
    """Why did some weights get no gradient? Do they get one when the input requires one?"""
    followed = _ask(case, step.asked._replace(follow=True), step.dy)
    case.expected, case.came = "gradients for all weights", f"none for stage {join_words(step.lost)}"
    case.judge([Sign("needs-input-gradient", not followed.lost)])
    case.judge([Sign("no-grad-for-good", bool(set(step.lost) & step.ran.blind)), Sign("detached")])


def _about_memory(step: CheckpointedStep) -> Signs:
    stages, again = step.asked.stages, step.asked.again
    for k, i, _ in step.came.kept:
        still_there = f"the output of layer {i} in stage {k} is still there"
        interior = again[k] and i < len(stages[k]) - 1
        yield Sign("interior-kept", interior, "only inputs of such stages", still_there)
    yield Sign("interior-kept", step.ran.relies_on_the_first, "only inputs of such stages", "a backward that used more")
    held = step.came.held
    yield Sign("held-by-graph", bool(held and not step.came.left), "nothing else in memory", f"{len(held)} outputs are")
    yield _leak(step)


def _leak(step: CheckpointedStep) -> Sign:
    left = step.came.left
    return Sign("held-after", bool(left), "nothing in memory", f"{len(left)} outputs of layers still are")


def _about_dropout(step: CheckpointedStep, case: Case) -> Signs:
    drawn = step.first_masks
    others = any(not np.array_equal(mask, step.came.masks[number][-1]) for number, mask in drawn.items())
    yield Sign("other-dropout", others)
    if drawn:
        again = _ask(case, step.asked._replace(seed=step.asked.seed + 1), step.dy).first_masks
        yield Sign("same-every-step", all(np.array_equal(mask, again[number]) for number, mask in drawn.items()))
    plain = step.came.plain_masks
    yield Sign("other-draws", any(not np.array_equal(mask != 0, plain[number] != 0) for number, mask in drawn.items()))
    yield Sign("random-state", bool(drawn) and not step.came.same_random_state)


def _about_gradients(step: CheckpointedStep) -> Signs:
    yield Sign("no-input-gradient", step.asked.follow and step.came.dx is None, "x.grad", "None")
    off = 1e-9 if _same_values(step) else _ROUNDED
    yield Sign("other-gradient", not step.error < off, came=f"off by {percent(step.error)}")


def _evaluate(exam: Exam, question: CheckpointQuestion, dy: Array) -> None:
    """Under no_grad there is no backward, and nothing to keep for one."""
    case = exam.case(f"with torch.no_grad(): forward(stages, x, again={question.again})")
    case.judge(_about_evaluation(_ask(case, question, dy)))


def _about_evaluation(step: CheckpointedStep) -> Signs:
    came, layers = step.came, sum(map(len, step.asked.stages))
    yield Sign("grad-mode", not came.grad_mode_kept)
    yield Sign("graph-in-evaluation", came.has_graph, "no graph", "requires_grad=True")
    yield _leak(step)
    right = len(step.ran.first) == layers and step.ran.whole and _same_values(step, _ROUNDED)
    yield Sign("other-in-evaluation", not right)
    yield Sign("rounded", not _same_values(step))
    yield Sign("mode-changed", not came.same_modes)


def _same_values(step: CheckpointedStep, off: float = 1e-9) -> bool:
    mine, exact = step.output, step.truth.output
    return mine.shape == exact.shape and np.allclose(mine, exact, rtol=off, atol=off)


def _digits(exam: Exam, rng: Random, numbers: np.random.Generator) -> Success:
    """A deep network on the digits: what it keeps with and without, and its gradients beside NumPy's."""
    x, y = draw_digits(rng, 64)
    stages = [_stage(numbers, sizes, 0.0) for sizes in ([64, 32, 32, 32], [32, 32, 32, 32], [32, 32, 32, 10])]
    _, dy = ref.cross_entropy(ref.predict(list(map(layer_of, chain(*stages))), x), y)
    plain, thrifty = (_train(exam, CheckpointQuestion(stages, x, [more] * 3), dy) for more in (False, True))
    kept = [sum(size for _, _, size in step.came.kept) for step in (plain, thrifty)]
    chart = Chart("one micro-batch, all stages run again", "F0 C0\n" * 3)
    return exam.success(chart, error=thrifty.error, plain=kept[0], thrifty=kept[1])


def _rows(exact: Array, mine: Array) -> tuple[str, str]:
    """The shapes of both; and, if they are the same, the first number that differs, of both."""
    if np.array_equal(exact, mine) or exact.shape != mine.shape:
        return f"shape {exact.shape}", f"shape {mine.shape}"
    place = tuple(map(int, np.argwhere(exact != mine)[0]))
    ours, theirs = tell_apart(float(exact[place]), float(mine[place]))
    return f"shape {exact.shape}, {ours} at {place}", f"shape {mine.shape}, {theirs} at {place}"
