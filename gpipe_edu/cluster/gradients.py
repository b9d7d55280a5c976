"""A step's gradients: they are added up over replicas and over stages that share a weight, and reach each weight once.

While a step runs, the layers hold the step's own weights (`gpipe_edu.pytorch.weights`). So a hook on a weight is called
once for a mini-batch, with the gradient of all its micro-batches and replicas, as on one device. Until then the
gradient of a 16-bit weight is in fp32, also on its way between replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from gpipe_edu.pytorch.weights import Weights, add, hand_over

from .gradient_message import pack, unpack
from .ties import Ties


class Gradients:
    """The gradients of the weights in `layers`, of which each rank of the group `replicas` has a copy.

    ties: which of these weights other ranks of the same pipeline have, too. experts: gives those of which replicas have
    no copies, and whose gradients are not added up.
    """

    def __init__(
        self,
        layers: nn.Module,
        replicas: Any,
        ties: Ties,
        experts: Callable[[], Set[Tensor]],
        *,
        accumulate_in_fp32: bool,
    ) -> None:
        self._accumulate_in_fp32 = accumulate_in_fp32
        self._layers, self._replicas, self._ties, self._experts = layers, replicas, ties, experts
        self._replica_count = 1 if replicas is None else dist.get_world_size(replicas)
        self._own = False
        """Whether `.grad` has gradients of this rank alone, not yet added up."""

    @contextmanager
    def of_step(self, reduce: bool) -> Iterator[None]:
        """Around all that runs layers. Then the step's gradients are added to `.grad`, unless the step fails.

        reduce: whether those of replicas are added up now; the same on all ranks. Without replicas nothing is put off.
        """
        weights = Weights([self._layers], accumulate_in_fp32=self._accumulate_in_fp32)
        held = [weight.grad for weight in weights.given]
        for weight in weights.given:
            weight.grad = None
        try:
            with weights.in_place():
                yield
            # A layer with a second reference to a weight adds to the weight itself.
            found = [add(ours, weight.grad) for ours, weight in zip(weights.gradients(), weights.given, strict=True)]
        finally:
            for weight, grad in zip(weights.given, held, strict=True):
                weight.grad = grad
        if self._replica_count > 1 or self._ties:
            found = self._of_all(weights.given, found, reduce or self._replica_count == 1)
        hand_over(weights.given, found)

    def _of_all(self, weights: Sequence[Tensor], found: list[Tensor | None], now: bool) -> list[Tensor | None]:
        """The gradients of all ranks, if they are to be added up now."""
        experts = self._experts()
        if now:
            if self._own:
                found = [add(own, weight.grad) for own, weight in zip(found, weights, strict=True)]
                for weight in weights:
                    weight.grad = None
            self._own = False
            found = self._ties.collect(weights, found)
            if self._replica_count > 1:
                # The others that hold a tied weight get the sum afterwards: in another message, among other weights,
                # replicas may be added up in another order.
                shared = (i for i, weight in enumerate(weights) if weight not in experts)
                here = [i for i in shared if self._ties.counts_here(weights[i])]
                totals = self._add_up([weights[i] for i in here], [found[i] for i in here])
                for i, total in zip(here, totals, strict=True):
                    found[i] = total
            return self._ties.spread(weights, found)
        if not self._own:
            # All ranks have the same in `.grad`, which is then added up with the new gradients.
            for weight in weights:
                if weight.grad is not None:
                    holders = 1 if weight in experts else self._replica_count
                    weight.grad /= holders * self._ties.copies(weight)
        self._own = True
        return found

    def _add_up(self, weights: Sequence[Tensor], found: Sequence[Tensor | None]) -> list[Tensor | None]:
        """The sums over the replicas, in one message for all weights, after the last micro-batch: one for each of the
        M micro-batches would be just as large."""
        if not weights:
            return []
        message = pack(weights, found)
        dist.all_reduce(message, group=self._replicas)
        # A weight that this replica's samples did not reach may have a gradient on another one.
        return unpack(weights, message)
