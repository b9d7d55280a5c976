"""What every layer is: functions from arrays to arrays, and a dict of parameters.

A layer keeps no state between calls. What backward needs of forward is returned as `saved` and handed back by the
caller, so re-materialization is nothing special: do not keep `saved`, call `forward` again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Saved = tuple[NDArray[Any], ...]
Params = dict[str, Array]


class Layer:
    """Base of all layers. x and y have shape (n, ...) with n samples; gradients have the shape of what they are of.

    `params` maps names to arrays, in float64; gradients come as a dict with the same names and shapes.
    """

    params: Params

    def __init__(self) -> None:
        self.params = {}

    def forward(self, x: Array) -> tuple[Array, Saved]:
        """The output y, and what the two gradient functions need to know about this call."""
        raise NotImplementedError

    def input_gradient(self, dy: Array, saved: Saved) -> Array:
        """The gradient of the loss with respect to x, given the one with respect to y."""
        raise NotImplementedError

    def weight_gradient(self, dy: Array, saved: Saved) -> Params:
        """The gradients of the loss with respect to the parameters, summed over the samples."""
        return {}

    def backward(self, dy: Array, saved: Saved) -> tuple[Array, Params]:
        """Both gradients: (dx, grads)."""
        return self.input_gradient(dy, saved), self.weight_gradient(dy, saved)

    def at(self, first: int, step: int) -> Layer:
        """This layer for a micro-batch that begins with sample `first` of its mini-batch, in training step `step`.

        Only layers that draw random numbers depend on these.
        """
        return self

    def statistics(self, saved: Saved) -> Params:
        """Sums over the samples of one forward, for evaluation; those of all micro-batches can be added up."""
        return {}

    def evaluate(self, x: Array) -> Array:
        """The output outside training."""
        return self.forward(x)[0]

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in self.params.items())
        return f"{type(self).__name__}({shapes})"
