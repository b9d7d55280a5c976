"""Exercise 03: does a step over micro-batches change the weights as a step with the whole mini-batch does?

The truth comes from the reference engine: the same network in NumPy, trained on one device. A wrong first step is held
against what each misconception would have done.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import numpy as np

from gpipe_edu import gpipe
from gpipe_edu import reference as ref
from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.task import Blame, Chart, Finding, Success, Task, Wrong
from gpipe_edu.data import digits

from .beliefs import belief_with
from .networks import Array, arrays_of, distance, gradients, in_numpy, items_of
from .steps import Step, judge_form
from .steps import perform as perform
from .weighting import Piece, about_gradients, about_losses, pieces_of

TASK: Final = Task(
    key="ex03/accumulation",
    function="train_step",
    title="Gradient accumulation that equals the full batch",
    notebook="exercise_03_accumulation",
    seconds=30.0,
    hints=(
        "In PyTorch every `backward()` adds to `.grad`, so the loop over micro-batches adds by itself. Decide what "
        "happens once per mini-batch (before the loop, after it) and what happens for each micro-batch.",
        "`loss_fn` is a mean over the samples of the micro-batch. In the mean over all N samples, a micro-batch of n "
        "samples has the share n / N: multiply its loss by that before `backward()`.",
        "`optimizer.zero_grad()`; then for each piece with at least one sample: `share = len(piece_x) / len(x)`, "
        "`loss = share * loss_fn(net(piece_x), piece_y)`, `loss.backward()`, add `loss.item()` to a total; after the "
        "loop `optimizer.step()`. A mean over no samples is nan, so skip empty pieces.",
    ),
)

_EMPTY: Final = "This is nan. With N < M some pieces are empty, and a mean over no samples is 0 / 0: skip them."
_FEW: Final = "M may be larger than N: some pieces are empty then, and the others make up the step."
_NAN: Final = "This is nan, though no piece is empty: was something divided by zero?"


def examine(examiner: Examiner, rng: Random) -> Success:
    """Ragged, even and tiny batches, with and without old gradients; then an epoch of digits beside a pipeline."""
    cases = [(8, 4, False), (10, 4, False), (10, 4, True), (3, 5, False), (7, 1, True)]
    cases += [(rng.randint(2, 24), rng.randint(1, 8), rng.random() < 0.5) for _ in range(4)]
    for N, M, old in cases:
        _one(examiner, rng, N, M, old)
    return _digits(examiner, rng)


def _one(examiner: Examiner, rng: Random, N: int, M: int, old: bool) -> None:
    numbers = np.random.default_rng(rng.randrange(2**32))
    sizes = [5, 8, 4]
    layers = ref.mlp(sizes, activation="tanh", seed=rng.randrange(2**32))
    items = items_of(layers)

    def batch(n: int) -> tuple[Array, Array]:
        return numbers.normal(size=(n, sizes[0])), numbers.integers(0, sizes[-1], size=n)

    batches, leftover = [batch(N) for _ in range(3)], batch(6) if old else None
    call = f"train_step(net, loss_fn, optimizer, x, y, M={M}) with {N} samples"
    call += ", gradients left over from before" if old else ""
    traps = dict.fromkeys(("ValueError", "AssertionError"), ("few-samples", _FEW)) if M > N else {}
    steps = examiner.ask(call, traps, items=items, batches=batches, M=M, rate=0.5, leftover=leftover)
    optimizer = ref.SGD(layers, learning_rate=0.5, momentum=0.5)
    for index, ((x, y), given_step) in enumerate(zip(batches, steps, strict=True)):
        step = Step(*given_step)

        def wrong(slip: str, because: str, expected: str = "", came: str = "", where: str = f"step {index}") -> Wrong:
            return Wrong(Finding(slip, because, call, expected, came, where))

        judge_form(N, M, step, wrong)
        true_loss, grads = ref.train_sequential(layers, x, y)
        before = [in_numpy(item) for item in items_of(layers)]
        given = gradients(before, *leftover) if leftover and index == 0 else None
        optimizer.step(grads)
        off = distance(step.weights, arrays_of(layers))
        if not off < 1e-9:
            pairs = zip(arrays_of(before), step.weights, strict=True)
            moved = [(a - b) / 0.5 for a, b in pairs] if index == 0 else None
            raise _name(before, moved, pieces_of(x, y, M), M, given, off, wrong)
        if not _near(step.loss, true_loss):
            raise _name_loss(before, pieces_of(x, y, M), M, step.loss, true_loss, wrong)


def _name(
    layers: Sequence[ref.Layer],
    moved: list[Array] | None,
    pieces: Sequence[Piece],
    M: int,
    leftover: list[Array] | None,
    off: float,
    wrong: Blame,
) -> Wrong:
    """The misconception whose gradient moved the weights this way in the first step."""
    expected, came = "the weights of a step with the whole mini-batch", f"weights that are off by {_percent(off)}"
    if moved is None:
        because = (
            "The first step was right, a later one is not: gradients of one mini-batch must not count in the next. "
            "When is `.grad` emptied?"
        )
        return wrong("no-zero", because, expected, came)
    if not all(np.isfinite(part).all() for part in moved):
        return _nan(pieces, M, expected, wrong)
    if off < 1e-3:
        because = (
            "The weights are nearly right, and further off than rounding in double precision: were numbers turned into "
            "float32 or less on the way? Keep the types that you were given."
        )
        return wrong("rounded", because, expected, came)
    beliefs = about_gradients(layers, pieces, M, leftover)
    belief = belief_with(beliefs, lambda guess: distance(guess, moved) < 1e-6)
    if belief:
        return wrong(belief.slip, belief.because, expected, came)
    because = (
        "The gradient is not that of the mini-batch. Each micro-batch of n samples counts n / N of its own mean loss, "
        "and nothing else counts."
    )
    return wrong("other-gradient", because, expected, came)


def _name_loss(
    layers: Sequence[ref.Layer], pieces: Sequence[Piece], M: int, loss: float, truth: float, wrong: Blame
) -> Wrong:
    expected, came = f"the loss {truth:.6f}", f"{loss:.6f}"
    if not np.isfinite(loss):
        return _nan(pieces, M, expected, wrong)
    belief = belief_with(about_losses(layers, pieces), lambda guess: _near(loss, guess))
    if belief:
        return wrong(belief.slip, belief.because, expected, came)
    return wrong("other-loss", "The weights are right, the loss is not that of the mini-batch.", expected, came)


def _nan(pieces: Sequence[Piece], M: int, expected: str, wrong: Blame) -> Wrong:
    if len(pieces) < M:
        return wrong("empty-piece", _EMPTY, expected, "nan")
    return wrong("nan", _NAN, expected, "nan")


def _near(loss: float, truth: float) -> bool:
    """Whether losses agree in single precision, in which many a sum is kept."""
    return bool(abs(loss - truth) <= 1e-6 * max(1.0, abs(truth)))


def _percent(off: float) -> str:
    return f"{off:.1%}" if off >= 0.001 else f"{off:.0e} of the largest"


def _digits(examiner: Examiner, rng: Random) -> Success:
    """Ten steps on digits, in mini-batches of 65 that do not divide by 4, beside the pipeline engine."""
    data = digits()
    order = np.random.default_rng(rng.randrange(2**32)).permutation(len(data.x_train))[: 10 * 65].reshape(10, 65)
    batches = [(np.asarray(data.x_train[rows], dtype=float), np.asarray(data.y_train[rows])) for rows in order]
    sizes = [64, 24, 24, 24, 10]
    layers = ref.mlp(sizes, activation="tanh", seed=rng.randrange(2**32))
    call = "ten steps on the digits, 65 samples each, M=4"
    steps = examiner.ask(call, items=items_of(layers), batches=batches, M=4, rate=0.1, leftover=None)
    optimizer = ref.SGD(layers, learning_rate=0.1, momentum=0.5)
    off = 0.0
    for (x, y), step in zip(batches, steps, strict=True):
        optimizer.step(ref.train_pipeline(layers, x, y, gpipe(4, 4)).grads)
        off = max(off, distance(Step(*step).weights, arrays_of(layers)))
    if not off < 1e-9:
        because = "On the digits, your steps and those of a pipeline drift apart."
        raise Wrong(Finding("drift", because, call, "the pipeline's weights", f"off by {_percent(off)}"))
    words = (
        f"Then your function trained on 650 handwritten digits in PyTorch, and the pipeline below beside it, in NumPy: "
        f"after ten steps their weights differ by {off:.0e}, which is rounding. Each B adds its share to the "
        f"gradient; the black bar at the end is your one `optimizer.step()`."
    )
    return Success(words, (Chart("the pipeline beside you", str(gpipe(4, 4))),))
