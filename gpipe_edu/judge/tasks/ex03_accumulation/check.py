"""Exercise 03: does a step over micro-batches change the weights as a step with the whole mini-batch does?

The truth comes from the reference engine: the same network in NumPy, trained on one device. A wrong step is compared
with what each misconception would have done. An answer's network has other weights, which move as the real ones would;
only the judge has those, computes with them and so knows what ran. Some of the losses here are not in the reference
engine, so that a step has to use the one that it is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu import gpipe
from gpipe_edu import reference as ref
from gpipe_edu.base.words import off_by, plural, with_article
from gpipe_edu.judge.case import Exam, Sign, Signs, try_beliefs
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.guest.networks import Array, layer_of
from gpipe_edu.judge.networks import arrays_of, arrays_of_items, draw_digit_batches, items_of
from gpipe_edu.judge.remote_layers import AskedLayers, PieceRuns, with_other_weights
from gpipe_edu.judge.tasks.ex03_accumulation.perform import MOMENTUM, SMOOTHING, StepsQuestion, WatchedStep
from gpipe_edu.judge.weighting import (
    OTHER_TARGETS,
    Parts,
    beliefs_about_gradients,
    beliefs_about_losses,
    factor_of,
    flat,
    parts_of,
)
from gpipe_edu.process.plain import name_of
from gpipe_edu.reference.losses import Loss

_ROUNDED: Final = 1e-5
"""How far off numbers are, at most, that were float32 on the way."""


@dataclass(frozen=True)
class JudgedStep:
    """A step that was taken, beside the one that was to be taken.

    ran: what it ran of the network. x: the samples. parts: each micro-batch alone. before: gradients that were there,
    those of the step before if it was not the first. gradient: what moved the weights that are trained. grads, weights,
    loss: the true ones. decay: what the optimizer adds to that gradient, as the weights decay. training: the mode of
    the network. frozen: how many arrays of weights, at the front, stay as they are. numbers: how many there are in the
    target of one sample.
    """

    step: WatchedStep
    ran: PieceRuns
    first: bool
    x: Array
    parts: Parts
    before: list[Array] | None
    gradient: list[Array]
    grads: list[Array]
    weights: list[Array]
    loss: float
    decay: list[Array]
    training: bool
    frozen: int
    numbers: int

    @property
    def off(self) -> str:
        """How far the weights are from the true ones, in words."""
        off = ref.gradient_difference(self.step.weights, self.weights)
        return off_by(off)

    @property
    def rounded(self) -> bool:
        """Whether the weights are nearly right, as numbers in single precision make them."""
        return 1e-9 <= ref.gradient_difference(self.step.weights, self.weights) < _ROUNDED

    @property
    def off_where_frozen(self) -> bool:
        """Whether weights that are frozen have moved."""
        return ref.gradient_difference(self.step.weights[: self.frozen], self.weights[: self.frozen]) > 1e-9

    @property
    def off_where_trained(self) -> bool:
        """Whether weights that are trained are not the true ones."""
        return ref.gradient_difference(self.step.weights[self.frozen :], self.weights[self.frozen :]) >= 1e-9

    @property
    def counts_what_was_there(self) -> bool:
        """Whether the gradients from before the first step are in it, and nothing else is wrong."""
        if not self.first or self.before is None:
            return False
        right = self.parts.total(self.parts.shares)
        guess = [a + b for a, b in zip(right, self.before, strict=True)]
        return bool(ref.gradient_difference(guess, self.gradient) < 1e-6)


def examine(exam: Exam, rng: Random) -> Success:
    """Ragged, even and tiny batches, with and without old gradients; other losses and modes; many pieces; digits."""
    cases = [(8, 4, False), (10, 4, False), (10, 4, True), (3, 5, False), (7, 1, True), (5, 4, False)]
    cases += [(rng.randint(2, 24), rng.randint(1, 8), rng.random() < 0.5) for _ in range(4)]
    for N, M, old in cases:
        _small(exam, rng, N, M, old)
    for loss in ("smoothed", "lopsided"):
        _small(exam, rng, 9, 4, loss=loss, blame="own-loss")
    _small(exam, rng, 9, 4, training=False)
    _small(exam, rng, 9, 4, decay=0.1)
    _small(exam, rng, 9, 4, decay=0.1, frozen=2, blame="frozen-layer")  # decay moves weights with a gradient of zero
    _small(exam, rng, 9, 4, old=True, frozen=2, steps=1)  # frozen after the backward that left them gradients
    _small(exam, rng, 9, 4, loss="mse", far=1000.0)  # gradients beyond any usual bound
    with exam.blame_on("only-small"):
        _small(exam, rng, 40, 20, steps=1)
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
    frozen: int = 0,
    decay: float = 0.0,
    steps: int = 3,
    blame: str = "",
) -> None:
    """Judge steps of a small network. far: how large targets of the squared error are. blame: as `_judge` has it."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    sizes = [5, 8, 4]
    layers = ref.mlp(sizes, activation="tanh", seed=rng.randrange(2**32))

    def batch(n: int) -> tuple[Array, Array]:
        labels = loss in ("cross_entropy", "smoothed")
        y = numbers.integers(0, sizes[-1], size=n) if labels else far * numbers.normal(size=(n, sizes[-1]))
        return numbers.normal(size=(n, sizes[0])), y

    call = f"train_step(net, loss_fn, optimizer, x, y, M={M}) with {plural(N, 'sample')}"
    call += ", gradients left over from before" if old else ""
    call += WORDING.get(loss, "")
    call += f", y about {far:g}" if far > 1 else ""
    call += "" if training else ", net in evaluation mode"
    call += f", an optimizer with weight_decay={decay:g}" if decay else ""
    call += f", the first {frozen} layers of net frozen and in evaluation mode" if frozen else ""
    batches, leftover = [batch(N) for _ in range(steps)], batch(6) if old else None
    question = StepsQuestion(items_of(layers), batches, M, 0.5 / far, loss, training, leftover, frozen, decay)
    _judge(exam, call, question, blame)


def _judge(exam: Exam, call: str, question: StepsQuestion, blame: str = "") -> list[WatchedStep]:
    """Judge a step for each batch; returns what came, with the real weights. blame: the slip behind errors and wrong
    numbers, if the question differs in one thing from others that were right.
    """

    def blamed() -> AbstractContextManager[None]:
        own = ("weights-moved", "numbers-counted", "shortened", "clipped")
        return exam.blame_on(blame, spare=own) if blame else nullcontext()

    M, loss, leftover, frozen = question.M, LOSSES[question.loss], question.leftover, question.frozen
    few = len(question.batches[0][0]) < M
    traps = {OTHER_TARGETS: "whole-targets"} | dict.fromkeys(
        ("ValueError", "AssertionError") if few else (), "few-samples"
    )
    truths = list(_true_steps(question))
    asked = AskedLayers(*(dict(enumerate(truth.layers)) for truth in truths))
    others = with_other_weights(question.items, exam.secret)
    given = question._replace(items=others)._asdict()
    apart = [real - other for real, other in zip(*map(arrays_of_items, (question.items, others)), strict=True)]
    drift = [np.zeros_like(part) for part in apart]
    trained = slice(len(arrays_of(truths[0].layers[:frozen])), None)
    with blamed():
        found = exam.case(call).ask(traps, asked, **given)
    steps = []
    before = flat(ref.train_sequential(truths[0].layers, *leftover, loss=loss)[1])[trained] if leftover else None
    for index, came in enumerate(found):
        step, truth = WatchedStep(*came), truths[index]
        (x, y), was = question.batches[index], arrays_of(truth.layers)
        decay = [question.decay * (real - part) for real, part in zip(was, apart, strict=True)][trained]
        # Different weights decay by different amounts: their distance decays, too, with a momentum of its own.
        drift[trained] = [
            MOMENTUM * speed + question.decay * part for speed, part in zip(drift[trained], apart[trained], strict=True)
        ]
        apart = [part - question.rate * speed for part, speed in zip(apart, drift, strict=True)]
        step = step._replace(weights=[a + b for a, b in zip(step.weights, apart, strict=True)])
        moved_by = _moved_by(was, step.weights, truth.velocity, question.rate)
        judged = JudgedStep(
            step=step,
            ran=PieceRuns(asked.runs_of(index), [place for place, item in enumerate(question.items) if item]),
            first=index == 0,
            x=x,
            parts=parts_of(truth.layers, x, y, M, loss=loss, stage=slice(frozen, None)),
            before=before,
            gradient=[g - question.decay * w for g, w in zip(moved_by[trained], was[trained], strict=True)],
            grads=truth.grads[trained],
            weights=truth.weights,
            loss=truth.loss,
            decay=decay,
            training=question.training,
            frozen=trained.start,
            numbers=y[0].size,
        )
        case = exam.case(f"{call}: step {index}")
        for about in (_about_pieces, _about_memory, _about_side_effects, _about_the_form, _about_what_is_left):
            case.judge(about(judged))
        with blamed():
            case.expected = "the weights of a step with the whole mini-batch"
            case.came = f"weights that are {judged.off}"
            case.judge(_about_weights(judged))
            case.expected, case.came = f"the loss {truth.loss:.6f}", f"{step.loss:.6f}"
            case.judge(_about_the_loss(judged))
        case.expected, case.came = "each sample once, through all layers", "other numbers"
        lost = {"off": _ROUNDED, "rounded": _ROUNDED} if judged.rounded else {}
        case.judge([Sign("lost", not judged.ran.are_of(x, **lost))])
        if judged.counts_what_was_there:
            break  # from here on the weights differ
        before = judged.grads
        steps.append(step)
    return steps


class _TrueStep(NamedTuple):
    """A step on one device: layers and velocity before it, the loss, the gradients, and the weights after it."""

    layers: list[ref.Layer]
    velocity: list[Array]
    loss: float
    grads: list[Array]
    weights: list[Array]


def _true_steps(question: StepsQuestion) -> Iterator[_TrueStep]:
    layers = list(map(layer_of, question.items))
    optimizer = ref.SGD(layers, question.rate, momentum=MOMENTUM)
    for x, y in question.batches:
        before, velocity = deepcopy(layers), flat(optimizer.velocity)
        loss, grads = ref.train_sequential(layers, x, y, loss=LOSSES[question.loss])
        for value in flat(grads[: question.frozen]):
            value[...] = 0.0
        decayed = deepcopy(grads)
        for layer, sums in list(zip(layers, decayed, strict=True))[question.frozen :]:
            for name, value in layer.params.items():
                sums[name] += question.decay * value
        optimizer.step(decayed)
        yield _TrueStep(before, velocity, loss, flat(grads), arrays_of(layers))


def _moved_by(was: list[Array], now: Sequence[Any], velocity: list[Array], rate: float) -> list[Array]:
    """The gradient with which SGD turns the weights `was` into `now`."""
    return [(a - b) / rate - MOMENTUM * v for a, b, v in zip(was, now, velocity, strict=True)]


def _about_pieces(judged: JudgedStep) -> Signs:
    """No step at all, or not in micro-batches; before any number is looked at."""
    step, N, M = judged.step, len(judged.x), judged.parts.M
    calls = "1 call of optimizer.step()"
    yield Sign("no-step", step.updates == 0, expected=calls, came="none")
    yield Sign("step-inside", step.updates > 1, expected=calls, came=f"{step.updates} calls")
    most, largest, trained = -(-N // M), judged.ran.largest, judged.ran.trained
    samples, forwards = list(map(sum, trained)), max(map(len, trained))
    expected = f"{N} samples in all"
    yield Sign("not-cut", largest > most, expected=f"at most {most} samples at once", came=f"{largest}")
    passed = max(judged.ran.passed)
    yield Sign("loss-after", step.late_forwards > 0, expected=expected, came=f"{passed}, some after the update")
    yield Sign("twice", max(samples) > N, expected=expected, came=f"{max(samples)}")
    yield Sign("forward-again", passed > N, expected=expected, came=f"{passed}")
    yield Sign("too-fine", forwards > M, expected=f"at most M = {M} forwards", came=f"{forwards}")
    yield Sign("lost", min(samples) < N, expected=expected, came=f"{min(samples)}")


def _about_memory(judged: JudgedStep) -> Signs:
    """No forward while the activations of an earlier piece that goes backward are in memory."""
    waiting = judged.ran.waiting
    came = f"those of {waiting + 1} pieces"
    yield Sign("all-at-once", waiting > 0, expected="the activations of 1 piece at a time", came=came)
    yield Sign("graph-kept", judged.step.graph_kept)
    yield Sign("outputs-kept", judged.step.outputs_kept and not judged.step.left)


def _about_side_effects(judged: JudgedStep) -> Signs:
    step, modes = judged.step, {True: "training mode", False: "evaluation mode"}
    was, other = modes[judged.training], modes[not judged.training]
    yield Sign(
        "layer-mode", judged.frozen > 0 and not step.modes_kept, expected="each layer in its mode", came="others"
    )
    left = not (judged.frozen or step.modes_kept)
    yield Sign("eval-mode" if judged.training else "train-mode", left, expected=was, came=other)
    yield Sign("unfrozen", not step.asks_kept)
    name, before, now = step.other_setting or ("", "", "")
    changed, words = bool(step.other_setting), {"name": name}
    yield Sign("other-setting", changed, expected=f"{name}={before}", came=f"{name}={now}", words=words)
    yield Sign("input-changed", not step.inputs_kept)
    yield Sign("input-asks", step.inputs_ask)


def _about_the_form(judged: JudgedStep) -> Signs:
    step = judged.step
    yield Sign("no-return", step.loss is None, expected="a number", came="None")
    is_number = isinstance(step.loss, int | float | np.number)
    yield Sign("no-loss", not is_number, expected="a number", came=with_article(name_of(step.loss)))
    yield Sign("loss-with-graph", step.has_graph, expected="a number", came="a tensor with its graph")


def _about_what_is_left(judged: JudgedStep) -> Signs:
    """For a loss without a graph; a loss with one holds its own."""
    yield Sign("kept-after", judged.step.left)


def _about_weights(judged: JudgedStep) -> Signs:
    off = ref.gradient_difference(judged.step.weights, judged.weights)
    if off < 1e-9:
        return
    if judged.frozen > 0 and judged.off_where_frozen:
        left = judged.before is not None and any(np.any(part) for part in judged.step.grads[: judged.frozen])
        yield Sign("frozen-late" if left else "frozen-layer")
        if not judged.off_where_trained:
            return
    grads = [part for part in judged.step.grads[judged.frozen :] if part is not None]
    yield Sign("weights-moved", ref.gradient_difference(grads, judged.grads) < 1e-9)
    yield Sign("empty-piece", judged.ran.ran_empty and not np.isfinite(off))
    if judged.rounded:
        yield Sign("rounded")
        return
    yield Sign("few-digits", off < 1e-3)
    if judged.counts_what_was_there:
        yield Sign("zero-late")
        return
    beliefs = beliefs_about_gradients(judged.parts, judged.before)
    beliefs = [belief._replace(slip="no-zero") if belief.slip == "zero-late" else belief for belief in beliefs]
    yield from try_beliefs(beliefs, lambda guess: ref.gradient_difference(guess, judged.gradient) < 1e-6)
    right = judged.parts.total(judged.parts.shares)
    twice = [part + more for part, more in zip(right, judged.decay, strict=True)]
    decays = any(np.any(part) for part in judged.decay)
    yield Sign("decay-twice", decays and ref.gradient_difference(judged.gradient, twice) < 1e-6)
    factor = factor_of(judged.gradient, right)
    yield Sign("numbers-counted", judged.numbers > 1 and abs(factor - judged.numbers) < 1e-6 * judged.numbers)
    yield Sign("shortened", 0 < factor < 1, words={"factor": f"{factor:.3g}"})
    most = max(float(np.abs(part).max()) for part in judged.gradient)
    cut_off = [np.clip(part, -most, most) for part in right]
    yield Sign("clipped", ref.gradient_difference(judged.gradient, cut_off) < 1e-6, words={"most": f"{most:.3g}"})
    yield Sign("other-gradient" if judged.first else "remembers")


def _about_the_loss(judged: JudgedStep) -> Signs:
    """For weights that are right."""
    if not _near(judged.step.loss, judged.loss, _ROUNDED if judged.rounded else 1e-6):
        yield Sign("empty-piece", judged.ran.ran_empty and not np.isfinite(judged.step.loss))
        yield from try_beliefs(beliefs_about_losses(judged.parts), lambda guess: _near(judged.step.loss, guess, 1e-6))
        yield Sign("other-loss")


def _near(loss: float, truth: float, off: float) -> bool:
    """Whether losses agree, up to `off`: many sums are kept in single precision."""
    return bool(abs(loss - truth) <= off * max(1.0, abs(truth)))


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


def smoothed(logits: Array, labels: Any) -> tuple[float, Array]:
    """Cross-entropy with labels that are smoothed: a share of each belongs to all classes alike."""
    n, classes = logits.shape
    value, gradient = ref.cross_entropy(logits, labels)
    of_all = [ref.cross_entropy(logits, np.full(n, label)) for label in range(classes)]
    values, gradients = zip(*of_all, strict=True)
    share = SMOOTHING / classes
    return (1 - SMOOTHING) * value + share * sum(values), (1 - SMOOTHING) * gradient + share * sum(gradients)


def lopsided(output: Array, target: Any) -> tuple[float, Array]:
    """Squared error that counts double where the output is too large, averaged over all values."""
    error = output - target
    weight = 1.0 + (error > 0)
    return float((error * error * weight).mean()), 2 * error * weight / error.size


LOSSES: Final[Mapping[str, str | Loss]] = {
    "cross_entropy": "cross_entropy",
    "mse": "mse",
    "smoothed": smoothed,
    "lopsided": lopsided,
}
"""By the names in a `StepsQuestion`."""

WORDING: Final = {
    "mse": ", loss_fn the mean squared error",
    "smoothed": ", loss_fn the cross-entropy with smoothed labels",
    "lopsided": ", loss_fn a squared error that counts double where the output is too large",
}
"""How a call mentions the unusual ones."""
