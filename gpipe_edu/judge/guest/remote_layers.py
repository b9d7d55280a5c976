"""Layers of PyTorch whose weights only the judge has: it computes for them, and so it knows what ran, and on what.

An answer's process has other weights of the same form, which get gradients like any others. No output and no gradient
of a layer's input can be had there without asking.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from gpipe_edu.process.asking import ask_judge

from .networks import Array, Item, build_network


class AskedLinear(nn.Linear):
    """The layer at its `place` in the network, by which the judge knows it."""

    def __init__(self, linear: nn.Linear, place: int) -> None:
        super().__init__(linear.in_features, linear.out_features)
        self.weight, self.bias, self.place = linear.weight, linear.bias, place

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs) -> (n, outputs)."""
        super().forward(x)  # raises if something does not fit
        seen = torch.is_grad_enabled(), type_of(self.weight), type_of(x)
        asked: Tensor = _Ask.apply(x, self.weight, self.bias, self.place, seen)  # type: ignore[no-untyped-call]
        return asked


class _Ask(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, place: int, seen: Any) -> Tensor:
        ctx.place = place
        ctx.run, y = ask_judge(("F", place, _array(x), seen))
        ctx.save_for_backward(x)
        return torch.from_numpy(y).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        dx, grads = ask_judge(("B", ctx.place, ctx.run, _array(dy), (_array(x),)))
        return *(torch.from_numpy(value).to(x.dtype) for value in (dx, grads["weight"].T, grads["bias"])), None, None


def build_asked(items: Iterable[Item]) -> nn.Sequential:
    """The layers of `build_network`; those with weights ask."""
    net = build_network(items)
    return nn.Sequential(
        *(AskedLinear(layer, place) if isinstance(layer, nn.Linear) else layer for place, layer in enumerate(net))
    )


def _array(x: Tensor) -> Array:
    x = x.detach()
    found: Array = (x if x.dtype == torch.float64 else x.float()).numpy()
    return found


def type_of(tensor: Tensor) -> str:
    """Its dtype, in words."""
    return str(tensor.dtype).removeprefix("torch.")
