"""Exercise 03: does a step over micro-batches change the weights as a step with the whole mini-batch does?

The truth comes from the reference engine: the same network in NumPy, trained on one device. A step that is wrong is
held against what each misconception would have done.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from gpipe_edu import gpipe
from gpipe_edu import reference as ref
from gpipe_edu.exercises.case import Exam, Sign, Signs, try_beliefs
from gpipe_edu.exercises.networks import arrays_of, draw_digit_batches, items_of
from gpipe_edu.exercises.weighting import (
    Parts,
    beliefs_about_gradients,
    beliefs_about_losses,
    factor_of,
    flat,
    parts_of,
)
from gpipe_edu.harness.ex03_accumulation import MOMENTUM, StepsQuestion, WatchedStep
from gpipe_edu.harness.networks import Array, layer_of
from gpipe_edu.process.plain import name_of
from gpipe_edu.sandbox.findings import Chart, Success
from gpipe_edu.words import percent, plural, with_article


@dataclass(frozen=True)
class JudgedStep:
    """A step that was taken, beside the one that was to be taken.

    parts: each micro-batch alone. before: gradients that were there, those of the step before if it was not the first.
    gradient: what moved the weights. weights, loss: the true ones. training: the mode of the network. numbers: in the
    target of one sample.
    """

    step: WatchedStep
    first: bool
    N: int
    parts: Parts
    before: list[Array] | None
    gradient: list[Array]
    weights: list[Array]
    loss: float
    training: bool
    numbers: int

    @property
    def off(self) -> str:
        """How far the weights are from the true ones, in words."""
        off = ref.gradient_difference(self.step.weights, self.weights)
        return f"off by {percent(off)}" if np.isfinite(off) else "no numbers"


def examine(exam: Exam, rng: Random) -> Success:
    """Ragged, even and tiny batches, with and without old gradients; another loss and mode; then digits."""
    cases = [(8, 4, False), (10, 4, False), (10, 4, True), (3, 5, False), (7, 1, True)]
    cases += [(rng.randint(2, 24), rng.randint(1, 8), rng.random() < 0.5) for _ in range(4)]
    for N, M, old in cases:
        _small(exam, rng, N, M, old)
    with exam.blame_on("own-loss", spare=("numbers-counted", "shortened", "clipped")):
        _small(exam, rng, 9, 4, loss="mse")
    _small(exam, rng, 9, 4, training=False)
    _small(exam, rng, 9, 4, loss="mse", far=1000.0)  # gradients that no usual bound lets pass
    return _digits(exam, rng)


def _small(
    exam: Exam,
    rng: Random,
    N: int,
    M: int,
    old: bool = False,
    loss: str = "cross_entropy",
    training: bool = True,
    far: float = 1.0,
) -> None:
    """Judge three steps of a small network. far: how large the targets of the squared error are."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    sizes = [5, 8, 4]
    layers = ref.mlp(sizes, activation="tanh", seed=rng.randrange(2**32))

    def batch(n: int) -> tuple[Array, Array]:
        labels = loss == "cross_entropy"
        y = numbers.integers(0, sizes[-1], size=n) if labels else far * numbers.normal(size=(n, sizes[-1]))
        return numbers.normal(size=(n, sizes[0])), y

    call = f"train_step(net, loss_fn, optimizer, x, y, M={M}) with {plural(N, 'sample')}"
    call += ", gradients left over from before" if old else ""
    call += ", loss_fn the mean squared error" if loss == "mse" else ""
    call += f", y about {far:g}" if far > 1 else ""
    call += "" if training else ", net in evaluation mode"
    batches, leftover = [batch(N) for _ in range(3)], batch(6) if old else None
    _judge(exam, call, StepsQuestion(items_of(layers), batches, M, 0.5 / far, loss, training, leftover))


def _judge(exam: Exam, call: str, question: StepsQuestion) -> list[WatchedStep]:
    """Judge a step for each batch."""
    layers, M, loss, leftover = list(map(layer_of, question.items)), question.M, question.loss, question.leftover
    few = len(question.batches[0][0]) < M
    traps = dict.fromkeys(("ValueError", "AssertionError"), "few-samples") if few else None
    steps = [WatchedStep(*step) for step in exam.case(call).ask(traps, **question._asdict())]
    optimizer = ref.SGD(layers, question.rate, momentum=MOMENTUM)
    before = flat(ref.train_sequential(layers, *leftover, loss=loss)[1]) if leftover else None
    for index, ((x, y), step) in enumerate(zip(question.batches, steps, strict=True)):
        untrained, velocity = deepcopy(layers), flat(optimizer.velocity)
        true_loss, grads = ref.train_sequential(layers, x, y, loss=loss)
        optimizer.step(grads)
        judged = JudgedStep(
            step=step,
            first=index == 0,
            N=len(x),
            parts=parts_of(untrained, x, y, M, loss=loss),
            before=before,
            gradient=_moved_by(arrays_of(untrained), step.weights, velocity, question.rate),
            weights=arrays_of(layers),
            loss=true_loss,
            training=question.training,
            numbers=y[0].size,
        )
        case = exam.case(f"{call}: step {index}")
        for about in (_about_pieces, _about_memory, _about_side_effects, _about_the_form):
            case.judge(about(judged))
        case.expected, case.came = "the weights of a step with the whole mini-batch", f"weights that are {judged.off}"
        case.judge(_about_weights(judged))
        case.expected, case.came = f"the loss {true_loss:.6f}", f"{step.loss:.6f}"
        case.judge(_about_the_loss(judged))
        before = flat(grads)
    return steps


def _moved_by(was: list[Array], now: Sequence[Any], velocity: list[Array], rate: float) -> list[Array]:
    """The gradient with which SGD has made these weights of those."""
    return [(a - b) / rate - MOMENTUM * v for a, b, v in zip(was, now, velocity, strict=True)]


def _about_pieces(judged: JudgedStep) -> Signs:
    """A step that is none, or not in micro-batches, before any number is looked at."""
    step, N, M = judged.step, judged.N, judged.parts.M
    calls = "1 call of optimizer.step()"
    yield Sign("no-step", step.updates == 0, expected=calls, came="none")
    yield Sign("step-inside", step.updates > 1, expected=calls, came=f"{step.updates} calls")
    most, largest = -(-N // M), max((samples for samples, _, _ in step.forwards), default=0)
    samples, forwards = sum(step.trained), len(step.trained)
    yield Sign("not-cut", largest > most, expected=f"at most {most} samples at once", came=f"{largest}")
    yield Sign("twice", samples > N, expected=f"{N} samples in all", came=f"{samples}")
    yield Sign("too-fine", forwards > M, expected=f"at most M = {M} forwards", came=f"{forwards}")
    yield Sign("lost", samples < N, expected=f"{N} samples in all", came=f"{samples}")


def _about_memory(judged: JudgedStep) -> Signs:
    """No forward while the activations of an earlier piece are in memory; of pieces that do go backward."""
    step = judged.step
    waiting = max(len(set(earlier).intersection(step.backwards)) for _, _, earlier in step.forwards)
    came = f"those of {waiting + 1} pieces"
    yield Sign("all-at-once", waiting > 0, expected="the activations of 1 piece at a time", came=came)
    yield Sign("graph-kept", step.graph_kept)


def _about_side_effects(judged: JudgedStep) -> Signs:
    step, modes = judged.step, {True: "training mode", False: "evaluation mode"}
    left = step.modes != [judged.training] * len(step.modes)
    expected, came = modes[judged.training], modes[not judged.training]
    yield Sign("eval-mode" if judged.training else "train-mode", left, expected=expected, came=came)
    yield Sign("input-changed", not step.inputs_kept)
    yield Sign("input-asks", step.inputs_ask)


def _about_the_form(judged: JudgedStep) -> Signs:
    step = judged.step
    yield Sign("no-return", step.loss is None, expected="a number", came="None")
    is_number = isinstance(step.loss, int | float | np.number)
    yield Sign("no-loss", not is_number, expected="a number", came=with_article(name_of(step.loss)))
    yield Sign("loss-with-graph", step.has_graph, expected="a number", came="a tensor with its graph")


def _about_weights(judged: JudgedStep) -> Signs:
    off = ref.gradient_difference(judged.step.weights, judged.weights)
    if off < 1e-9:
        return
    yield Sign("empty-piece", judged.step.ran_empty and not np.isfinite(off))
    yield Sign("rounded", off < 1e-3)
    beliefs = beliefs_about_gradients(judged.parts, judged.before)
    if not judged.first:
        beliefs = [belief._replace(slip="no-zero") if belief.slip == "zero-late" else belief for belief in beliefs]
    yield from try_beliefs(beliefs, lambda guess: ref.gradient_difference(guess, judged.gradient) < 1e-6)
    right = judged.parts.total(judged.parts.shares)
    factor = factor_of(judged.gradient, right)
    yield Sign("numbers-counted", judged.numbers > 1 and abs(factor - judged.numbers) < 1e-6 * judged.numbers)
    yield Sign("shortened", 0 < factor < 1, words={"factor": f"{factor:.3g}"})
    most = max(float(np.abs(part).max()) for part in judged.gradient)
    cut_off = [np.clip(part, -most, most) for part in right]
    yield Sign("clipped", ref.gradient_difference(judged.gradient, cut_off) < 1e-6, words={"most": f"{most:.3g}"})
    yield Sign("other-gradient" if judged.first else "remembers")


def _about_the_loss(judged: JudgedStep) -> Signs:
    """For weights that are right."""
    if not _near(judged.step.loss, judged.loss):
        yield Sign("empty-piece", judged.step.ran_empty and not np.isfinite(judged.step.loss))
        yield from try_beliefs(beliefs_about_losses(judged.parts), lambda guess: _near(judged.step.loss, guess))
        yield Sign("other-loss")


def _near(loss: float, truth: float) -> bool:
    """Whether losses agree in single precision, in which many a sum is kept."""
    return bool(abs(loss - truth) <= 1e-6 * max(1.0, abs(truth)))


def _digits(exam: Exam, rng: Random) -> Success:
    """Ten steps on digits, in mini-batches of 65 that do not divide by 4, beside the pipeline engine."""
    batches = draw_digit_batches(rng, 10, 65)
    layers = ref.mlp([64, 24, 24, 24, 10], activation="tanh", seed=rng.randrange(2**32))
    call = "ten steps on the digits, 65 samples each, M=4"
    with exam.blame_on("only-small"):
        steps = _judge(exam, call, StepsQuestion(items_of(layers), batches, M=4, rate=0.1))
    optimizer, worst = ref.SGD(layers, 0.1, momentum=MOMENTUM), 0.0
    for (x, y), step in zip(batches, steps, strict=True):
        optimizer.step(ref.train_pipeline(layers, x, y, gpipe(4, 4)).grads)
        worst = max(worst, ref.gradient_difference(step.weights, arrays_of(layers)))
    return exam.success(Chart("the pipeline beside you", str(gpipe(4, 4))), error=worst)
