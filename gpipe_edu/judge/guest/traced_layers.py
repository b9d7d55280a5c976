"""Layers of PyTorch whose every run is stamped by the judge, so that what ran, and on what, cannot be made up.

A sample carries a stamp in one more column. A layer computes on the other columns and hands the stamps of its input to
the judge, which gives new ones for the output. Autograd keeps the output; when a gradient comes back, the stamps of
what it kept go to the judge, too. So the judge knows each run, where its input came from, and which run a backward
relied on: that of the forward, or the one that was repeated.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gpipe_edu.process.asking import ask_judge


class Stamped(nn.Module):
    """One layer at its `place`, by which the judge knows it."""

    def __init__(self, layer: nn.Module, place: Any) -> None:
        super().__init__()
        self.layer, self.place = layer, place

    def forward(self, x: Tensor) -> Tensor:
        """(n, ..., features + 1) -> (n, ..., outputs + 1)."""
        if not isinstance(x, Tensor):
            raise TypeError(f"a layer was called with a {type(x).__name__}; it takes a tensor of shape (n, ...)")
        y = self.layer(x[..., :-1])
        stamped: Tensor = _Stamp.apply(y, x[..., -1:], self.place, self.seen(y))  # type: ignore[no-untyped-call]
        return stamped

    def seen(self, y: Tensor) -> tuple[Any, ...]:
        """What the judge is told of a run besides its stamps; y is the output without them."""
        return ()


class _Stamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, old: Tensor, place: Any, seen: Any) -> Tensor:
        given = ask_judge(("F", place, stamps_of(old), *seen))
        new = torch.from_numpy(given).to(y.dtype).reshape(-1, *[1] * (y.dim() - 1)).expand(*y.shape[:-1], 1)
        stamped = torch.cat([y, new], -1)
        ctx.place = place
        ctx.save_for_backward(stamped)
        return stamped

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        ask_judge(("B", ctx.place, stamps_of(ctx.saved_tensors[0])))
        return dy[..., :-1], None, None, None


def stamps_of(x: Tensor) -> Any:
    """One for each sample, whatever its shape."""
    stamps = x.detach()[..., -1]
    while stamps.dim() > 1:
        stamps = stamps[..., 0]
    return stamps.numpy().copy()
