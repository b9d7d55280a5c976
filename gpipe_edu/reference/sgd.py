"""Stochastic gradient descent: one update per mini-batch, after all its micro-batches are done."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .layer import Layer, Params


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
