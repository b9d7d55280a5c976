"""How people weight micro-batches: the gradient, and the loss, that each belief would have given.

Right is n / N for a micro-batch of n samples, once, on top of its own mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu import split_batch

from .beliefs import Belief
from .networks import Array, gradients

Piece = tuple[Array, Array]


def pieces_of(x: Array, y: Array, M: int) -> list[Piece]:
    """The micro-batches that have a sample."""
    return [(a, b) for a, b in split_batch((x, y), M) if len(a)]


def about_gradients(
    layers: Sequence[ref.Layer], pieces: Sequence[Piece], M: int, leftover: list[Array] | None
) -> list[Belief]:
    """Variants are gradients; leftover: those that were there before the step."""
    N, parts = sum(len(a) for a, _ in pieces), [gradients(layers, *piece) for piece in pieces]
    shares = [len(a) / N for a, _ in pieces]

    def total(weights: Sequence[float]) -> list[Array]:
        columns = zip(*parts, strict=True)
        return [sum(w * g for w, g in zip(weights, column, strict=True)) for column in columns]

    zeros = [0.0] * (len(parts) - 1)
    twice = ([s / M for s in shares], [s / N for s in shares], [s * s for s in shares])
    return [
        Belief(
            "no-division",
            "Every micro-batch's loss is a mean, and these means were added up: the gradient is M times too large.",
            (total([1.0] * len(parts)),),
        ),
        Belief(
            "mean-of-means",
            "Dividing by M is right only if all micro-batches are equally large. A sample of a small one counts more "
            "here than a sample of a large one.",
            (total([1 / M] * len(parts)),),
        ),
        Belief(
            "zero-inside",
            "Only the last micro-batch counts: `zero_grad()` in the loop throws away what the earlier ones have added.",
            tuple(total([*zeros, weight]) for weight in (shares[-1], 1.0, 1 / M)),
        ),
        Belief(
            "only-first",
            "Only the first micro-batch counts. Every piece has to call `backward()`.",
            tuple(total([weight, *zeros]) for weight in (shares[0], 1.0, 1 / M)),
        ),
        Belief(
            "divided-twice",
            "The share was applied twice: once by you, once more by a division. Weights n / N add up to 1, and that is "
            "all.",
            tuple(map(total, twice)),
        ),
        Belief(
            "not-divided",
            "The losses were multiplied by their number of samples, but never divided by N.",
            (total([s * N for s in shares]),),
        ),
        Belief(
            "zero-late",
            "Gradients from before the step count in it. `.grad` must be empty before the first micro-batch; "
            "emptied after the step, it is right from the second step on only.",
            ([a + b for a, b in zip(total(shares), leftover, strict=True)],) if leftover else (),
        ),
        Belief(
            "uphill",
            "The weights moved the wrong way, up the gradient.",
            ([-part for part in total(shares)],),
        ),
    ]


def about_losses(layers: Sequence[ref.Layer], pieces: Sequence[Piece]) -> list[Belief]:
    """Variants are losses."""
    means = [ref.train_sequential(layers, *piece)[0] for piece in pieces]
    share = len(pieces[-1][0]) / sum(len(a) for a, _ in pieces)
    return [
        Belief(
            "loss-of-the-last",
            "The weights are right. The loss given back is that of the last micro-batch, not of the mini-batch.",
            (means[-1], means[-1] * share),
        ),
        Belief(
            "loss-mean-of-means",
            "The weights are right. The loss is a mean of means: give each micro-batch its share n / N there, too.",
            (float(np.mean(means)),),
        ),
        Belief(
            "loss-added-up",
            "The weights are right. The loss is the sum of the micro-batches' means: each counts its share n / N only.",
            (sum(means),),
        ),
    ]
