"""A step's gradients: they are added up over the replicas, and reach each weight once.

While a step runs, the layers hold weights of its own (`gpipe_edu.pytorch.weights`). So a hook on a weight is called
once for a mini-batch, with the gradient of all its micro-batches and replicas, as on one device. Until then that of a
16-bit weight is in fp32, also on its way between replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gpipe_edu.pytorch.weights import Weights, hand_over, has_hooks


class Gradients:
    """Those of the weights in `layers`, of which each rank of the group `replicas` has a copy."""

    def __init__(self, layers: nn.Module, replicas: Any, *, accumulate_in_fp32: bool) -> None:
        self._accumulate_in_fp32 = accumulate_in_fp32
        self._layers, self._replicas = layers, replicas
        self._copies = 1 if replicas is None else dist.get_world_size(replicas)
        self._own = False
        """Whether `.grad` has gradients of this replica alone, not yet added up."""

    @contextmanager
    def of_step(self, reduce: bool) -> Iterator[None]:
        """Around all that runs layers. Then the step's gradients are added to `.grad`, unless the step fails."""
        weights = Weights([self._layers], accumulate_in_fp32=self._accumulate_in_fp32)
        held = [weight.grad for weight in weights.given]
        for weight in weights.given:
            weight.grad = None
        try:
            with weights.in_place():
                yield
            # A layer with a second reference to a weight adds to the weight itself.
            found = [_sum(ours, weight.grad) for ours, weight in zip(weights.gradients(), weights.given, strict=True)]
        finally:
            for weight, grad in zip(weights.given, held, strict=True):
                weight.grad = grad
        if self._copies > 1:
            found = self._of_all(weights.given, found, reduce)
        hand_over(weights.given, found)

    def _of_all(self, weights: Sequence[Tensor], found: list[Tensor | None], reduce: bool) -> list[Tensor | None]:
        """Those of all replicas, if they are to be added up now."""
        if reduce or any(map(has_hooks, weights)):  # a hook is to see the whole gradient
            if self._own:
                found = [_sum(own, weight.grad) for own, weight in zip(found, weights, strict=True)]
                for weight in weights:
                    weight.grad = None
            self._own = False
            return self._add_up(weights, found)
        if not self._own:
            # All replicas have the same in `.grad`, which is then added up with the new gradients.
            for weight in weights:
                if weight.grad is not None:
                    weight.grad /= self._copies
        self._own = True
        return found

    def _add_up(self, weights: Sequence[Tensor], found: Sequence[Tensor | None]) -> list[Tensor | None]:
        """One message for all of them, after the last micro-batch: a message for each of M would be as large."""
        if not weights:
            return []
        # A weight that this replica's samples did not reach may have a gradient on another one.
        there = torch.tensor([own is not None for own in found], device=weights[0].device)
        parts = [torch.zeros_like(w) if own is None else own for own, w in zip(found, weights, strict=True)]
        flat = torch.cat([there, *(part.reshape(-1) for part in parts)])
        dist.all_reduce(flat, group=self._replicas)
        reached, *totals = torch.split(flat, [len(parts), *(part.numel() for part in parts)])
        for part, total in zip(parts, totals, strict=True):
            part.copy_(total.view_as(part))
        return [part if some else None for part, some in zip(parts, reached.tolist(), strict=True)]


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other
