"""What one device computes, and what is wrong with gradients that differ from it. In NumPy: no torch in the judge."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu import split_batch
from gpipe_edu.course.task import Blame, Wrong

Array = np.ndarray[Any, Any]


class Truth(NamedTuple):
    """One mini-batch on one device: gradients of the mean cross-entropy for every weight, and for x."""

    output: Array
    loss: float
    grads: list[Array]
    dx: Array


def one_device(layers: Sequence[ref.Layer], x: Array, y: Array) -> Truth:
    """Forward and backward of the whole mini-batch."""
    saved, output = [], x
    for layer in layers:
        output, kept = layer.forward(output)
        saved.append(kept)
    loss, dy = ref.cross_entropy(output, y)
    grads: list[Array] = []
    for layer, kept in zip(reversed(layers), reversed(saved), strict=True):
        dy, found = layer.backward(dy, kept)
        grads = [*found.values(), *grads]
    return Truth(output, loss, grads, dy)


def off(ours: Sequence[Array | None], theirs: Sequence[Array]) -> float:
    """The largest difference, relative to the largest number. Infinite for what is missing or of another shape."""
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a is None or np.shape(a) != np.shape(b):
            return float("inf")
        worst = max(worst, float(np.abs(a - b).max() / (np.abs(b).max() + 1e-300)))
    return worst if np.isfinite(worst) else float("inf")


def judge_gradients(
    ours: Sequence[Array | None],
    before: Sequence[Array],
    truth: Truth,
    layers: Sequence[ref.Layer],
    balance: Sequence[int],
    batch: tuple[Array, Array],
    M: int,
    checkpoint: str,
    wrong: Blame,
) -> float:
    """The largest relative error; `before` is what `.grad` held. Raises what is wrong with gradients that differ."""
    expected = [a + b for a, b in zip(before, truth.grads, strict=True)]
    error = off(ours, expected)
    if error < 1e-9:
        return error
    raise _name(ours, before, truth.grads, layers, balance, batch, M, checkpoint, error, wrong)


def _name(
    ours: Sequence[Array | None],
    before: Sequence[Array],
    exact: Sequence[Array],
    layers: Sequence[ref.Layer],
    balance: Sequence[int],
    batch: tuple[Array, Array],
    M: int,
    checkpoint: str,
    error: float,
    wrong: Blame,
) -> Wrong:
    words = "the gradients of one device"
    came = f"gradients that are off by {error:.1%}" if np.isfinite(error) else "some gradients are missing"
    ends = list(accumulate(balance))
    # Per weight the stage it is on: every layer with weights has two of them.
    places = [place for place, layer in enumerate(layers) for _ in layer.params]
    stages = [next(k for k, end in enumerate(ends) if place < end) for place in places]
    empty = {k for k, part in zip(stages, ours, strict=True) if part is None or not np.any(part)}
    if empty and checkpoint == "never" and any(np.any(part) for part in before):
        return wrong("replaced", _REPLACED, words, came)
    if empty == set(stages):
        because = "The weights of `net` got no gradient at all, although the output has a graph. What does it lead to?"
        return wrong("no-gradients", because, words, "none")
    reentrant = (
        "With checkpoint the first stage learns nothing from what is recomputed. The old variant of checkpoint looks "
        "only at the input, and that of stage 0 needs no gradient: give `use_reentrant=False`."
    )
    if empty:
        which = ", ".join(map(str, sorted(empty)))
        if checkpoint != "never":
            return wrong("reentrant", reentrant, words, f"none on stage {which}")
        because = (
            "The graph is cut at a boundary, so nothing gets back to the stages in front of it. `detach` is right only "
            "if somebody carries the gradient across; here `backward()` has to find its way through all stages."
        )
        return wrong("detached", because, words, f"none on stage {which}")
    found = [part - old for part, old in zip((p for p in ours if p is not None), before, strict=True)]
    if any(np.any(part) for part in before) and off(list(ours), list(exact)) < 1e-9:
        return wrong("replaced", _REPLACED, words, came)
    for index, parts in enumerate(_parts(layers, batch, M)):
        if M > 1 and any(off([a], [b]) < 1e-9 for a, b in zip(found, parts, strict=True)):
            if checkpoint != "never":
                return wrong("reentrant", reentrant, words, came)
            because = "Only one micro-batch's part of the gradient is there. The output has to depend on all of them."
            return wrong("one-micro-batch", because, words, f"only that of micro-batch {index}")
    ratio = float(np.sum(found[-1] * exact[-1]) / np.sum(exact[-1] ** 2))
    if off([part / ratio for part in found], list(exact)) < 1e-9 and ratio:
        because = (
            "All gradients are too large or too small by the same factor. The loss is taken of the joined output, so "
            "its mean is already the mean over all samples: nothing has to be divided by M, or multiplied."
        )
        return wrong("scaled", because, words, f"{ratio:.3g} times that")
    return wrong("other-gradient", "The output is right, and the gradients are not those of one device.", words, came)


_REPLACED = (
    "The gradients of a second mini-batch took the place of the first one's. `backward()` adds to `.grad`; emptying it "
    "is up to the optimizer."
)


def _parts(layers: Sequence[ref.Layer], batch: tuple[Array, Array], M: int) -> list[list[Array]]:
    """Each micro-batch's share of the gradient."""
    pieces = [piece for piece in split_batch(batch, M) if len(piece[0])]
    return [[len(x) / len(batch[0]) * part for part in one_device(layers, x, y).grads] for x, y in pieces]
