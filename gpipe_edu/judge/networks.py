"""Networks for questions, and what one device computes with them.

The judge computes the truth in NumPy, which shares no line with what PyTorch does in the learner's process.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.data import digits
from gpipe_edu.judge.guest.networks import Array, Item
from gpipe_edu.reference.stage import Stage


def draw_digits(rng: Random, N: int) -> tuple[Array, Array]:
    """N digits in a row, from anywhere in the training set: images in double precision, and labels."""
    data, first = digits(), rng.randrange(1000)
    chosen = slice(first, first + N)
    return np.asarray(data.x_train[chosen], dtype=float), np.asarray(data.y_train[chosen])


def draw_digit_batches(rng: Random, count: int, N: int) -> list[tuple[Array, Array]]:
    """Mini-batches of N digits of the training set, no digit twice."""
    data = digits()
    order = np.random.default_rng(rng.randrange(2**32)).permutation(len(data.x_train))[: count * N].reshape(count, N)
    return [(np.asarray(data.x_train[rows], dtype=float), np.asarray(data.y_train[rows])) for rows in order]


def items_of(layers: Sequence[ref.Layer]) -> list[Item]:
    """Layers of the reference engine as they travel, with their present weights: Linear, and Tanh between."""
    return [(layer.params["weight"].copy(), layer.params["bias"].copy()) if layer.params else None for layer in layers]


def arrays_of(layers: Sequence[ref.Layer]) -> list[Array]:
    """All weights and biases as they are now."""
    return [value.copy() for layer in layers for value in layer.params.values()]


def arrays_of_items(items: Sequence[Item]) -> list[Array]:
    """The same for layers as they travel."""
    return [value for item in items if isinstance(item, tuple) for value in item]


class Truth(NamedTuple):
    """One forward and backward on one device: gradients for every weight and bias in order, and for x."""

    output: Array
    loss: float
    grads: list[Array]
    dx: Array


def one_device(layers: Sequence[ref.Layer], x: Array, y: Array | None = None, dy: Array | None = None) -> Truth:
    """The truth for the mean cross-entropy with labels `y`; or for `dy`, the gradient of some loss at the output."""
    stage = Stage(layers, lambda m: layers, keeps=lambda m: True)
    output, loss = stage.forward(0, x), 0.0
    if dy is None:
        loss, dy = ref.cross_entropy(output, np.asarray(y))
    dx = stage.backward(0, dy)
    return Truth(output, loss, [value for grads in stage.grads for value in grads.values()], dx)


def gradients(layers: Sequence[ref.Layer], x: Array, y: Array) -> list[Array]:
    """Those of the cross-entropy on one device, for all weights and biases."""
    return one_device(layers, x, y).grads
