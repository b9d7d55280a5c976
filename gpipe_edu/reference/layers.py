"""Layers: functions from arrays to arrays, with a dict of parameters; and a model made of them.

A layer keeps no state between calls. What backward needs of forward is returned as `saved` and handed back by the
caller, so re-materialization is nothing special: do not keep `saved`, call `forward` again. The gradients with respect
to the input and to the weights are two functions, as zero-bubble schedules need them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpipe_edu.base.validate import whole

Array = NDArray[np.float64]
Saved = tuple[NDArray[Any], ...]
Params = dict[str, Array]


class Layer:
    """Base of all layers. x and y have shape (n, ...) with n samples; a gradient has the shape of what it belongs to.

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


class Linear(Layer):
    """y = x W + b, with x of shape (n, inputs) and W of shape (inputs, outputs).

    W starts normal with standard deviation gain / sqrt(inputs), b at zero.
    """

    def __init__(self, inputs: int, outputs: int, *, seed: int | np.random.Generator = 0, gain: float = 1.0) -> None:
        if inputs < 1 or outputs < 1:
            raise ValueError(f"Linear({inputs}, {outputs}): both sizes must be at least 1")
        scale = gain / math.sqrt(inputs)
        weight = np.random.default_rng(seed).normal(0.0, scale, (inputs, outputs))
        self.params = {"weight": weight, "bias": np.zeros(outputs)}

    def forward(self, x: Array) -> tuple[Array, Saved]:
        inputs, outputs = self.params["weight"].shape
        if x.ndim != 2 or x.shape[1] != inputs:
            raise ValueError(f"Linear({inputs}, {outputs}) takes an input of shape (n, {inputs}), but got {x.shape}")
        return x @ self.params["weight"] + self.params["bias"], (x,)

    def input_gradient(self, dy: Array, saved: Saved) -> Array:
        return np.asarray(dy @ self.params["weight"].T)

    def weight_gradient(self, dy: Array, saved: Saved) -> Params:
        (x,) = saved
        return {"weight": x.T @ dy, "bias": dy.sum(axis=0)}


class ReLU(Layer):
    """y = max(x, 0). It keeps y, which the next layer keeps anyway, so it costs no memory of its own."""

    def forward(self, x: Array) -> tuple[Array, Saved]:
        y = np.maximum(x, 0.0)
        return y, (y,)

    def input_gradient(self, dy: Array, saved: Saved) -> Array:
        (y,) = saved
        return np.asarray(dy * (y > 0))


class Tanh(Layer):
    """y = tanh(x), with gradient 1 - y**2."""

    def forward(self, x: Array) -> tuple[Array, Saved]:
        y = np.tanh(x)
        return y, (y,)

    def input_gradient(self, dy: Array, saved: Saved) -> Array:
        (y,) = saved
        return np.asarray(dy * (1.0 - y * y))


class Dropout(Layer):
    """During training, each value is zeroed with probability p and the others are divided by 1-p.

    Which ones depends only on seed, training step and the sample's number in its mini-batch. So a sample meets the
    same mask however the batch is cut, and a recomputed forward meets the mask of the first one. Give each Dropout
    of a model its own seed.
    """

    def __init__(self, p: float = 0.5, *, seed: int = 0, first: int = 0, step: int = 0) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"Dropout p is {p}; the share of values to drop is at least 0 and less than 1")
        self.p, self.seed, self.first, self.step = p, seed, first, step

    def at(self, first: int, step: int) -> Dropout:
        return Dropout(self.p, seed=self.seed, first=first, step=step)

    def forward(self, x: Array) -> tuple[Array, Saved]:
        # Drawn for all samples from 0 on, in order, and then cut, so sample i gets the same row however they are cut.
        draws = np.random.default_rng([self.seed, self.step]).random((self.first + len(x), *x.shape[1:]))
        kept = draws[self.first :] >= self.p
        return self._scale(x, kept), (kept,)

    def input_gradient(self, dy: Array, saved: Saved) -> Array:
        (kept,) = saved
        return self._scale(dy, kept)

    def evaluate(self, x: Array) -> Array:
        return x

    def _scale(self, x: Array, kept: np.ndarray) -> Array:
        return np.asarray(x * kept / (1.0 - self.p))


class LayerNorm(Layer):
    """Every sample is shifted to mean 0 and scaled to variance 1 over its features, then y = x_hat w + b."""

    axis = -1

    def __init__(self, features: int, *, eps: float = 1e-5) -> None:
        if features < 1:
            raise ValueError(f"{type(self).__name__}({features}): the number of features must be at least 1")
        self.eps = eps
        self.params = {"weight": np.ones(features), "bias": np.zeros(features)}

    def forward(self, x: Array) -> tuple[Array, Saved]:
        features = self.params["weight"].size
        if x.ndim != 2 or x.shape[1] != features:
            name = type(self).__name__
            raise ValueError(f"{name}({features}) takes an input of shape (n, {features}), but got {x.shape}")
        mean, variance = x.mean(axis=self.axis, keepdims=True), x.var(axis=self.axis, keepdims=True)
        scale = 1.0 / np.sqrt(variance + self.eps)
        x_hat = (x - mean) * scale
        return x_hat * self.params["weight"] + self.params["bias"], (x_hat, scale, mean)

    def input_gradient(self, dy: Array, saved: Saved) -> Array:
        # x_hat depends on all values along the axis through their mean and variance: the two means below.
        x_hat, scale, _ = saved
        d_hat = dy * self.params["weight"]
        along = d_hat.mean(axis=self.axis, keepdims=True)
        across = (d_hat * x_hat).mean(axis=self.axis, keepdims=True)
        return np.asarray(scale * (d_hat - along - x_hat * across))

    def weight_gradient(self, dy: Array, saved: Saved) -> Params:
        x_hat, _, _ = saved
        return {"weight": (dy * x_hat).sum(axis=0), "bias": dy.sum(axis=0)}


class BatchNorm(LayerNorm):
    """Every feature is shifted to mean 0 and scaled to variance 1 over the samples of a micro-batch.

    So training depends on how the batch is cut, and gradients equal those of one device only if it cuts likewise. For
    evaluation there are moving averages over whole mini-batches in `running`, as in the GPipe paper; they change only
    when `update_running` is called.

    Raises ValueError for a micro-batch of one sample, whose variance says nothing.
    """

    axis = 0

    def __init__(self, features: int, *, eps: float = 1e-5) -> None:
        super().__init__(features, eps=eps)
        self.running: Params = {"mean": np.zeros(features), "variance": np.ones(features)}

    def forward(self, x: Array) -> tuple[Array, Saved]:
        if len(x) < 2:
            raise ValueError(
                f"BatchNorm got a micro-batch of {len(x)} sample; it needs 2 or more, so use fewer micro-batches, "
                f"a larger batch or LayerNorm"
            )
        return super().forward(x)

    def statistics(self, saved: Saved) -> Params:
        """Number of samples, and sums of x and x**2 over them; the sums of all micro-batches give the mini-batch's."""
        x_hat, scale, mean = saved
        n = len(x_hat)
        second = scale[0] ** -2 - self.eps + mean[0] ** 2
        return {"samples": np.array(float(n)), "sum": n * mean[0], "sum_of_squares": n * second}

    def update_running(self, statistics: Params, momentum: float = 0.1) -> None:
        """Move `running` by `momentum` towards mean and unbiased variance of the mini-batch in `statistics`."""
        n = float(statistics["samples"])
        mean = statistics["sum"] / n
        variance = (statistics["sum_of_squares"] / n - mean**2) * n / (n - 1)
        for name, value in (("mean", mean), ("variance", variance)):
            self.running[name] += momentum * (value - self.running[name])

    def evaluate(self, x: Array) -> Array:
        x_hat = (x - self.running["mean"]) / np.sqrt(self.running["variance"] + self.eps)
        return np.asarray(x_hat * self.params["weight"] + self.params["bias"])


_ACTIVATIONS: dict[str, tuple[type[Layer], float]] = {"relu": (ReLU, math.sqrt(2)), "tanh": (Tanh, 1.0)}
"""Activation and the gain that keeps the variance of its outputs (He et al. 2015, Glorot & Bengio 2010)."""

_NORMS: dict[str, type[LayerNorm]] = {"layer": LayerNorm, "batch": BatchNorm}


def mlp(
    sizes: Sequence[int], activation: str = "relu", seed: int = 0, *, norm: str | None = None, dropout: float = 0.0
) -> list[Layer]:
    """A multi-layer perceptron: between sizes[i] and sizes[i+1] a Linear, and after each but the last, in this order,
    the norm if any ("layer" or "batch"), the activation ("relu" or "tanh") and a Dropout if its share is not 0.

    Raises ValueError for fewer than two sizes, or an unknown activation or norm, TypeError for sizes that are no list
    of whole numbers.
    """
    if isinstance(sizes, str) or not isinstance(sizes, Iterable):
        raise TypeError(f"sizes is {sizes!r}; it must be a list of widths, such as [64, 128, 10]")
    sizes = [whole(f"sizes[{index}]", size, 1) for index, size in enumerate(sizes)]
    if len(sizes) < 2:
        raise ValueError(f"sizes is {sizes}; give at least two: features in and features out")
    if activation not in _ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; it must be one of {', '.join(_ACTIVATIONS)}")
    if norm is not None and norm not in _NORMS:
        raise ValueError(f"norm is {norm!r}; it must be None or one of {', '.join(_NORMS)}")
    act, gain = _ACTIVATIONS[activation]
    rng = np.random.default_rng(seed)
    layers: list[Layer] = []
    for index, (inputs, outputs) in enumerate(pairwise(sizes)):
        last = index == len(sizes) - 2
        layers.append(Linear(inputs, outputs, seed=rng, gain=1.0 if last else gain))
        if not last:
            layers += [_NORMS[norm](outputs)] if norm else []
            layers.append(act())
            layers += [Dropout(dropout, seed=seed + index)] if dropout else []
    return layers
