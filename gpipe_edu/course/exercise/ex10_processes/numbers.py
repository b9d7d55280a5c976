"""Exercise 10: the misconception behind a loss or gradients that are not those of one device."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.course.task import Blame
from gpipe_edu.reference.difference import largest_difference
from gpipe_edu.split import split_batch

from .processes_words import ERRORS

_ROUNDED: Final = (
    "Numbers were rounded on the way: float32 keeps about 7 digits. Here all numbers are `torch.float64`, those in "
    "messages and buffers as well."
)


def judge_weights(after: Any, layers: Any, cuts: list[int], wrong: Blame) -> None:
    """The step left the weights as they were."""
    for k, (a, b) in enumerate(pairwise(cuts)):
        before = [value for layer in layers[a:b] for value in layer.params.values()]
        change = _error(after[k], before)
        if change > 0:
            because = (
                "The weights were changed. This function only leaves gradients in `.grad`: the update is the "
                "optimizer's, once all micro-batches have gone backward with the weights of their forward."
            )
            raise wrong("weights-changed", because, f"process {k}: the weights as they were", _off(change, "changed"))


def judge_loss(value: Any, truth: float, layers: Any, x: Any, y: Any, M: int, wrong: Blame) -> None:
    """The last process gave back the mini-batch's mean loss."""
    expected = f"the last process returns {truth:.6f}"
    if value is None:
        raise wrong("no-return", "The last process has to give back the mini-batch's mean loss.", expected, "None")
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise wrong("no-loss", "The loss is one number, a mean over all N samples.", expected, repr(value)[:60])
    if abs(value - truth) < 1e-9:
        return
    came = f"{value:.6f}"
    parts = [ref.train_sequential(layers, *piece)[0] for piece in split_batch((x, y), M)]
    if abs(value - sum(parts)) < 1e-9:
        because = "The micro-batches' mean losses were added up. Each counts n / N, with the N of the mini-batch."
        raise wrong("no-weights", because, expected, came)
    if abs(value - float(np.mean(parts))) < 1e-9:
        because = "The micro-batches' losses count all alike, but they are of different size: each counts n / N."
        raise wrong("mean-of-means", because, expected, came)
    if abs(value - parts[-1]) < 1e-9 or abs(value - parts[-1] * len(split_batch(y, M)[-1]) / len(y)) < 1e-9:
        because = "This is the loss of the last micro-batch alone. Add them up, each with its share n / N."
        raise wrong("loss-of-the-last", because, expected, came)
    if abs(value - truth) < 1e-6:
        raise wrong("rounded", _ROUNDED, expected, _off(abs(value - truth)))
    raise wrong("other-loss", "This is not the mean loss of the mini-batch.", expected, came)


def judge_gradients(
    found: Any, layers: Any, exact: Any, x: Any, y: Any, M: int, cuts: list[int], wrong: Blame
) -> float:
    """Gradients equal those of one device; the last stage first, because errors travel with the gradients."""
    worst = 0.0
    pieces = split_batch((x, y), M)
    shares = [len(a) / len(x) for a, _ in pieces]
    parts = [ref.train_sequential(layers, *piece)[1] for piece in pieces]
    for k, (a, b) in reversed(list(enumerate(pairwise(cuts)))):
        ours, theirs = found["grads"][k], _flat(exact[a:b])
        error = _error(ours, theirs)
        worst = max(worst, error)
        if error < 1e-10:
            continue
        expected, came = f"process {k}: the gradients of one device", _off(error)
        if all(grad is None or not np.any(grad) for grad in ours):
            because = "When the function ends, the weights of this stage have no gradient, or zeros."
            because += " What came back from the next process?" if k < len(cuts) - 2 else ""
            raise wrong("zero", because, expected, "none")
        if error < 1e-6:
            raise wrong("rounded", _ROUNDED, expected, came)
        if M > 1:
            _guess(ours, [_flat(part[a:b]) for part in parts], shares, expected, came, wrong)
        if _memory_used_twice(found["diaries"][k]):
            raise wrong("one-buffer", _because("one-buffer"), expected, came)
        factor = _factor(ours, theirs)
        if factor:
            because = (
                "All gradients of this stage were scaled by one factor, as clipping does. The mini-batch's gradients "
                "are asked for as they are."
            )
            raise wrong("scaled", because, expected, f"{factor:.3g} times these")
        because = "The gradients of this stage are wrong, those of the stages behind it are right. What was sent back?"
        if k == len(cuts) - 2:
            because = "The gradients of the last stage are wrong, though the loss is right. What went backward?"
            if M > 1:
                because = "The gradients of the last stage are wrong: each micro-batch counts n / N of its mean loss."
        raise wrong("other-gradient", because, expected, came)
    return worst


def _guess(ours: Any, parts: Any, shares: list[float], expected: str, came: str, wrong: Blame) -> None:
    M = len(shares)

    def total(weights: Sequence[float]) -> list[Any]:
        columns = zip(*parts, strict=True)
        return [sum(w * g for w, g in zip(weights, column, strict=True)) for column in columns]

    added = "The micro-batches' gradients of a mean loss were added up. Each has to count n / N."
    alike = "Divided by M, a sample of a small micro-batch counts more than one of a large one."
    twice = "The share n / N was applied twice. It is in the loss, and so in every gradient that comes from it."
    again = "The gradients were divided by M on top of the shares n / N, which add up to 1 already."
    guesses = [
        ("no-weights", added, [1.0] * M),
        ("mean-of-means", alike, [1 / M] * M),
        ("divided-twice", twice, [share * share for share in shares]),
        ("divided-twice", again, [share / M for share in shares]),
    ]
    for m in range(M):
        alone = [0.0] * M
        because = "Only one micro-batch's gradient is left. Gradients of all have to add up in `.grad`."
        for weight in (shares[m], 1.0):
            alone[m] = weight
            guesses.append(("only-one", because, list(alone)))
    for slip, because, weights in guesses:
        if _error(ours, total(weights)) < 1e-8:
            raise wrong(slip, because, expected, came)


def _memory_used_twice(diary: Any) -> bool:
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


def _factor(ours: Any, theirs: Any) -> float:
    """c, if our gradients are c times theirs, and 0 if they are not."""
    if any(np.shape(mine) != np.shape(exact) for mine, exact in zip(ours, theirs, strict=True)):
        return 0.0
    mine, exact = (np.concatenate([np.ravel(array) for array in arrays]) for arrays in (ours, theirs))
    factor = float(mine @ exact / (exact @ exact))
    return factor if _error([mine], [factor * exact]) < 1e-8 else 0.0


def _off(error: float, words: str = "off") -> str:
    return f"{words} by {error:.1%}" if error >= 1e-3 else f"{words} by {error:.0e}"


def _because(slip: str) -> str:
    return next(because for name, _, because in ERRORS if name == slip)


def _flat(grads: Any) -> list[Any]:
    return [value for layer in grads for value in layer.values()]


def _error(ours: Any, theirs: Any) -> float:
    """The largest difference, relative to the largest number; missing values and other shapes are infinitely far."""
    if [np.shape(array) for array in ours] != [np.shape(array) for array in theirs]:
        return float("inf")
    error = largest_difference(zip(ours, theirs, strict=True))
    return error if np.isfinite(error) else float("inf")
