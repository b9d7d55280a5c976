"""Ready-made models: lists of layers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from gpipe_edu.base.validate import whole

from .layer import Layer
from .layers import BatchNorm, Dropout, LayerNorm, Linear, ReLU, Tanh

_ACTIVATIONS: dict[str, tuple[type[Layer], float]] = {"relu": (ReLU, math.sqrt(2)), "tanh": (Tanh, 1.0)}
"""Activation and the gain that keeps the variance of its outputs (He et al. 2015, Glorot & Bengio 2010)."""

_NORMS: dict[str, type[LayerNorm]] = {"layer": LayerNorm, "batch": BatchNorm}


def mlp(
    sizes: Sequence[int], activation: str = "relu", seed: int = 0, *, norm: str | None = None, dropout: float = 0.0
) -> list[Layer]:
    """A multi-layer perceptron: between sizes[i] and sizes[i+1] a Linear, and behind each but the last, in this order,
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
