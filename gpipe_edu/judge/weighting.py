"""How people weight micro-batches: the gradient, and the loss, that each belief would have given.

Right is n / N for a micro-batch of n samples, once, on top of its own mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu import split_batch
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.reference.losses import Loss

from .case import Belief

OTHER_TARGETS: Final = "ValueError: Expected input batch_size"
"""What PyTorch's cross-entropy says of more or fewer targets than outputs."""


@dataclass(frozen=True)
class Parts:
    """Each micro-batch alone, in the order in which they went backward: its samples, mean loss and gradients.

    M: how many micro-batches there are, including those without samples.
    """

    M: int
    counts: Sequence[int]
    losses: Sequence[float]
    grads: Sequence[Sequence[Array]]

    @property
    def shares(self) -> list[float]:
        """The weight of each in the mini-batch: n / N."""
        return [n / sum(self.counts) for n in self.counts]

    def total(self, weights: Sequence[float]) -> list[Array]:
        """The sum of all gradients, weighted."""
        columns = zip(*self.grads, strict=True)
        return [sum(w * g for w, g in zip(weights, column, strict=True)) for column in columns]


def parts_of(
    layers: Sequence[ref.Layer],
    x: Array,
    y: Array,
    M: int,
    *,
    loss: str | Loss = "cross_entropy",
    stage: slice = slice(None),
    order: Sequence[int] | None = None,
) -> Parts:
    """The micro-batches that have a sample, on one device. stage: the layers whose gradients are asked for."""
    pieces = split_batch((x, y), M)
    ran = [pieces[m] for m in order or range(M) if len(pieces[m][0])]
    alone = [ref.train_sequential(layers, a, b, loss=loss) for a, b in ran]
    return Parts(M, [len(a) for a, _ in ran], [value for value, _ in alone], [flat(grads[stage]) for _, grads in alone])


def flat(grads: Sequence[Mapping[str, Array]]) -> list[Array]:
    """The arrays of all layers in one row."""
    return [value for layer in grads for value in layer.values()]


def beliefs_about_gradients(parts: Parts, before: Sequence[Array] | None = None) -> list[Belief]:
    """Variants are gradients. before: those that were there before the step."""
    shares, M, N = parts.shares, parts.M, sum(parts.counts)
    right = parts.total(shares)
    others = [0.0] * (len(shares) - 1)
    twice = ([s / M for s in shares], [s / N for s in shares], [s * s for s in shares])
    return [
        Belief("no-division", (parts.total([1.0] * len(shares)),)),
        Belief("mean-of-means", (parts.total([1 / M] * len(shares)),)),
        Belief("zero-inside", tuple(parts.total([*others, weight]) for weight in (shares[-1], 1.0, 1 / M))),
        Belief("only-first", tuple(parts.total([weight, *others]) for weight in (shares[0], 1.0, 1 / M))),
        Belief("divided-twice", tuple(map(parts.total, twice))),
        Belief("not-divided", (parts.total(parts.counts),)),
        Belief("zero-late", ([a + b for a, b in zip(right, before, strict=True)],) if before else ()),
        Belief("uphill", ([-part for part in right],)),
    ]


def beliefs_about_losses(parts: Parts) -> list[Belief]:
    """Variants are losses."""
    last = parts.losses[-1]
    return [
        Belief("loss-of-the-last", (last, last * parts.shares[-1])),
        Belief("loss-mean-of-means", (float(np.mean(parts.losses)),)),
        Belief("loss-added-up", (sum(parts.losses),)),
    ]


def factor_of(ours: Sequence[Array | None], theirs: Sequence[Array]) -> float:
    """c, if our gradients are c times theirs, and 0 if they are not."""
    arrays = [array for array in ours if array is not None]
    if [array.shape for array in arrays] != [array.shape for array in theirs]:
        return 0.0
    mine, exact = (np.concatenate([array.ravel() for array in each]) for each in (arrays, theirs))
    factor = float(mine @ exact / (exact @ exact))
    return factor if ref.gradient_difference([mine], [factor * exact]) < 1e-6 else 0.0
