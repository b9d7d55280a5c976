"""The same layers in PyTorch, with the same weights, to compare the engines.

NumPy's Linear has its weight as (inputs, outputs), PyTorch's as (outputs, inputs).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .layers import Array, Dropout, Layer, Linear, ReLU, Tanh

if TYPE_CHECKING:
    from torch import Tensor, nn


def in_torch(layers: Sequence[Layer]) -> nn.Sequential:
    """The layers as nn.Sequential, in double precision. Raises TypeError for a layer that has no twin here."""
    from torch import nn  # late: PyTorch may not be installed

    return nn.Sequential(*map(_module, layers))


def as_arrays(tensors: Iterable[Tensor | None]) -> list[Array | None]:
    """Weights, biases or their gradients from PyTorch, as copies in the layout of NumPy's layers; None stays None."""
    return [None if tensor is None else tensor.detach().cpu().numpy().T.copy() for tensor in tensors]


def _module(layer: Layer) -> nn.Module:
    import torch
    from torch import nn

    if isinstance(layer, Linear):
        inputs, outputs = layer.params["weight"].shape
        linear = nn.Linear(inputs, outputs, dtype=torch.float64)
        with torch.no_grad():
            for name, tensor in linear.named_parameters():
                tensor.copy_(torch.from_numpy(np.array(layer.params[name].T)))
        return linear
    if isinstance(layer, Dropout):
        return nn.Dropout(layer.p)
    for ours, theirs in ((Tanh, nn.Tanh), (ReLU, nn.ReLU)):
        if isinstance(layer, ours):
            return theirs()
    raise TypeError(f"{layer!r} has no twin in PyTorch here; there are Linear, Dropout, Tanh and ReLU")
