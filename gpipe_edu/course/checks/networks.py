"""A network that travels between judge and learner, in NumPy and in PyTorch, and how far two sets of numbers are apart.

The judge computes the truth in NumPy, which shares no line with what PyTorch does in the learner's process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.reference.difference import largest_difference

Array = np.ndarray[Any, Any]

Item = tuple[Array, Array] | float | None
"""One layer: weight and bias of a Linear as NumPy has them, the p of a Dropout, or None for a Tanh."""


def in_torch(items: Sequence[Item]) -> Any:
    """The layers as nn.Sequential, in double precision."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    layers: list[nn.Module] = []
    for item in items:
        if item is None:
            layers.append(nn.Tanh())
        elif isinstance(item, float):
            layers.append(nn.Dropout(item))
        else:
            linear = nn.Linear(*item[0].shape).double()
            with torch.no_grad():
                linear.weight.copy_(torch.from_numpy(item[0].T.copy()))
                linear.bias.copy_(torch.from_numpy(item[1]))
            layers.append(linear)
    return nn.Sequential(*layers)


def as_numpy(tensor: Any) -> Array | None:
    """A weight, a bias or their gradient from PyTorch as NumPy's layers have it; None stays None."""
    if tensor is None:
        return None
    values: Array = tensor.detach().numpy()
    return values.T.copy() if values.ndim == 2 else values.copy()


class Masked(ref.Layer):
    """Dropout with a mask that is known."""

    def __init__(self, mask: Array) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, x: Array) -> tuple[Array, Any]:
        """x times the mask."""
        return x * self.mask, ()

    def input_gradient(self, dy: Array, saved: Any) -> Array:
        """dy times the mask."""
        return dy * self.mask


def in_numpy(item: Item, mask: Array | None = None) -> ref.Layer:
    """The layer as the reference engine's; a Dropout draws `mask`, or nothing."""
    if item is None:
        return ref.Tanh()
    if isinstance(item, float):
        return Masked(np.ones(1) if mask is None else mask)
    layer = ref.Linear(*item[0].shape)
    layer.params = {"weight": item[0].copy(), "bias": item[1].copy()}
    return layer


def train(layers: Sequence[ref.Layer], x: Array, dy: Array) -> tuple[Array, list[Array], Array]:
    """The output, the gradients of all weights and biases in order, and the input's, for the output's gradient `dy`."""
    saved, grads = [], []
    for layer in layers:
        x, kept = layer.forward(x)
        saved.append(kept)
    for layer, kept in zip(reversed(layers), reversed(saved), strict=True):
        dy, found = layer.backward(dy, kept)
        grads += list(found.values())[::-1]
    return x, grads[::-1], dy


def items_of(layers: Sequence[ref.Layer]) -> list[Item]:
    """Layers of the reference engine on their way, with their weights of now: Linear, and Tanh between."""
    return [(layer.params["weight"].copy(), layer.params["bias"].copy()) if layer.params else None for layer in layers]


def arrays_of(layers: Sequence[ref.Layer]) -> list[Array]:
    """All weights and biases of now."""
    return [value.copy() for layer in layers for value in layer.params.values()]


def gradients(layers: Sequence[ref.Layer], x: Array, y: Array) -> list[Array]:
    """Of the cross-entropy on one device, for all weights and biases."""
    return [value for grads in ref.train_sequential(layers, x, y)[1] for value in grads.values()]


def distance(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """As `largest_difference`; nan, other shapes, and anything from nothing but zeros are infinitely far."""
    if [np.shape(a) for a in ours] != [np.shape(b) for b in theirs]:
        return float("inf")
    if not any(np.any(b) for b in theirs):
        return float("inf") if any(np.any(a) for a in ours) else 0.0
    far = largest_difference(zip(ours, theirs, strict=True))
    return far if np.isfinite(far) else float("inf")
