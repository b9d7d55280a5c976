"""Gradients of several weights as one message: for each weight whether it has one, and then the numbers of all.

In 32 bits at least, whatever type a rank has: one that has no gradients could not know in which type the others send.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor


def pack(weights: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> Tensor:
    """The message for `gradients` of `weights`; zeros for a weight that has none."""
    kind = reduce(torch.promote_types, (weight.dtype for weight in weights), torch.float32)
    there = torch.tensor([gradient is not None for gradient in gradients], device=weights[0].device)
    parts = (_dense(weight, gradient) for weight, gradient in zip(weights, gradients, strict=True))
    return torch.cat([there.to(kind), *(part.reshape(-1).to(kind) for part in parts)])


def unpack(weights: Sequence[Tensor], message: Tensor) -> list[Tensor | None]:
    """The gradients in a message, or in the sum of several."""
    there, *parts = torch.split(message, [len(weights), *(weight.numel() for weight in weights)])
    shaped = (part.view_as(weight) for part, weight in zip(parts, weights, strict=True))
    return [part if some else None for part, some in zip(shaped, there.tolist(), strict=True)]


def _dense(weight: Tensor, gradient: Tensor | None) -> Tensor:
    if gradient is None:
        return torch.zeros_like(weight)
    return gradient.to_dense() if gradient.is_sparse else gradient  # that of an embedding may be
