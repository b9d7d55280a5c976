"""A network on its way from the judge to a learner's process, and what is built from it there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpipe_edu import reference as ref
from gpipe_edu.reference.twin import in_torch

Array: TypeAlias = NDArray[Any]


Item: TypeAlias = tuple[Array, Array] | float | None
"""One layer: weight and bias of a Linear as NumPy has them, the p of a Dropout, or None for a Tanh."""


class Masked(ref.Dropout):
    """Dropout with a known mask; without one it lets everything pass."""

    def __init__(self, p: float, mask: Array | None) -> None:
        super().__init__(p)
        self.mask = np.ones(1) if mask is None else mask

    def forward(self, x: Array) -> tuple[Array, Any]:
        """x times the mask."""
        return x * self.mask, ()

    def input_gradient(self, dy: Array, saved: Any) -> Array:
        """dy times the mask."""
        return dy * self.mask


def layer_of(item: Item, mask: Array | None = None) -> ref.Layer:
    """The layer as the reference engine's; a Dropout draws `mask`, or nothing."""
    if item is None:
        return ref.Tanh()
    if isinstance(item, float):
        return Masked(item, mask)
    layer = ref.Linear(*item[0].shape)
    layer.params = {"weight": item[0].copy(), "bias": item[1].copy()}
    return layer


def modes_of(*nets: Any) -> list[bool]:
    """Whether each module of the networks is in training mode."""
    return [module.training for net in nets for module in net.modules()]


def asks_of(net: Any) -> list[bool]:
    """Whether each weight asks for a gradient."""
    return [weight.requires_grad for weight in net.parameters()]


def build_network(items: Iterable[Item]) -> Any:
    """In the learner's process: the layers as nn.Sequential, in double precision and on one thread."""
    import torch

    torch.set_num_threads(1)
    return in_torch(list(map(layer_of, items)))
