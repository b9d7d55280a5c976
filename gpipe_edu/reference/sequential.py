"""Training on one device, in the simplest way: every pipeline must give the same results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .layer import Array, Layer, Params
from .losses import Loss, find_loss
from .samples import check_samples


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
