"""Training on one device, in the simplest way: every pipeline must give the same results.

So this file also says how far gradients are from those of one device, and makes the update, once per mini-batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .layers import Array, Layer, Params
from .losses import Loss, find_loss


def train_sequential(
    layers: Sequence[Layer],
    x: Array,
    y: Any,
    loss: str | Loss = "cross_entropy",
    *,
    reduction: str = "mean",
    step: int = 0,
) -> tuple[float, list[Params]]:
    """Loss and gradients of one mini-batch: forward through all layers, then backward through all layers.

    x has shape (N, ...), y (N, ...); loss, reduction and step are those of `train_pipeline`. Returns the loss and one
    dict of gradients per layer. Raises ValueError for shapes that do not fit or an unknown loss, TypeError for x or y
    without samples.
    """
    check_samples(x=x, y=y)
    x, saved = np.asarray(x, dtype=np.float64), []
    layers = [layer.at(0, step) for layer in layers]
    for layer in layers:
        x, kept = layer.forward(x)
        saved.append(kept)
    value, dy = find_loss(loss, reduction)(x, y)
    grads: list[Params] = []
    for layer, kept in zip(reversed(layers), reversed(saved), strict=True):
        dy, grad = layer.backward(dy, kept)
        grads.append(grad)
    return value, grads[::-1]


def predict(layers: Sequence[Layer], x: Array) -> Array:
    """The model's output (N, ...) outside training: no dropout, batch normalization by its moving averages."""
    x = np.asarray(x, dtype=np.float64)
    for layer in layers:
        x = layer.evaluate(x)
    return x


Grads: TypeAlias = Sequence[Any] | Sequence[Mapping[str, Any]]
"""Arrays, or a dict of arrays for each layer."""


def gradient_difference(found: Grads, expected: Grads) -> float:
    """The largest difference of any value, as a share of the largest expected one.

    Infinite if a gradient is missing (None), has NaN or another shape, or is not zero where only zeros are expected.
    """
    ours, theirs = _flat(found), _flat(expected)
    if list(map(np.shape, ours)) != list(map(np.shape, theirs)):
        return float("inf")
    worst = max((float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True) if np.size(b)), default=0.0)
    largest = max((float(np.abs(b).max()) for b in theirs if np.size(b)), default=0.0)
    if not largest:
        return float("inf") if worst else 0.0
    return worst / largest if np.isfinite(worst) else float("inf")


def _flat(grads: Grads) -> list[Any]:
    return [part for layer in grads for part in (layer.values() if isinstance(layer, Mapping) else [layer])]


class SGD:
    """params -= learning_rate * velocity, where velocity = momentum * velocity + gradient.

    Raises ValueError for a learning rate that is not positive or a momentum outside 0 <= momentum < 1.
    """

    def __init__(self, layers: Sequence[Layer], learning_rate: float, momentum: float = 0.0) -> None:
        if not learning_rate > 0:
            raise ValueError(f"learning_rate is {learning_rate}; it must be positive")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum is {momentum}; it must be at least 0 and less than 1")
        self.layers, self.learning_rate, self.momentum = layers, learning_rate, momentum
        self.velocity = [{name: np.zeros_like(value) for name, value in layer.params.items()} for layer in layers]

    def step(self, grads: Sequence[Params]) -> None:
        """Update all parameters in place. `grads` has one dict of arrays per layer."""
        for layer, velocity, grad in zip(self.layers, self.velocity, grads, strict=True):
            for name, value in layer.params.items():
                velocity[name] = self.momentum * velocity[name] + grad[name]
                value -= self.learning_rate * velocity[name]


def accumulate_grads(total: Sequence[Params], more: Sequence[Params]) -> list[Params]:
    """The sum of two sets of gradients, layer by layer: for an update after several steps."""
    return [{name: a[name] + b[name] for name in a} for a, b in zip(total, more, strict=True)]


def check_samples(**arrays: Any) -> None:
    """Raises TypeError, with its name, for what has no first axis, along which samples could lie."""
    for name, given in arrays.items():
        if np.ndim(given) == 0:
            raise TypeError(f"{name} is {given!r}; it must be an array with samples along its first axis")
