"""Batch normalization under micro-batches: what the running statistics see.

Training always normalizes by the statistics of a micro-batch, so gradients equal those of a device that cuts the batch
alike, not those of the whole batch: no pipeline can change that without waiting for all micro-batches in every layer.
The running statistics, used in evaluation, can be exact: deferred, they are updated once per mini-batch from sums
over all of its samples. They then equal those of a full-batch forward wherever the input of the batch normalization
does: behind another one it does not, since that one has normalized per micro-batch. Either way a recompute must not
count a micro-batch twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class BatchNorms:
    """The batch normalizations of one stage, while the engine runs it."""

    def __init__(self, layers: nn.Module, deferred: bool) -> None:
        self.modules = [module for module in layers.modules() if isinstance(module, _BatchNorm)]
        self.deferred = deferred
        self._sums: dict[Any, Tensor] = {}  # per module: rows samples, sum and sum of squares per feature

    @contextmanager
    def forward(self, first: bool) -> Iterator[None]:
        """Around a forward: `first` is False for a recompute, which leaves all statistics as they are."""
        active = [m for m in self.modules if m.training and m.track_running_stats]
        if not active or (first and not self.deferred):
            yield
            return
        hooks = [module.register_forward_pre_hook(self._note) for module in active] if first else []
        for module in active:
            module.track_running_stats = False
        try:
            yield
        finally:
            for module in active:
                module.track_running_stats = True
            for hook in hooks:
                hook.remove()

    @torch.no_grad()
    def _note(self, module: nn.Module, inputs: Sequence[Any]) -> None:
        x = inputs[0].detach().transpose(0, 1).flatten(1).double()  # features first, in float64 for the sums
        row = torch.stack([torch.full_like(x[:, 0], x.shape[1]), x.sum(1), (x * x).sum(1)])
        self._sums[module] = self._sums[module] + row if module in self._sums else row

    @torch.no_grad()
    def commit(self) -> None:
        """At the end of a mini-batch: update the running statistics as one forward of the whole batch would."""
        for module, (count, total, squares) in self._sums.items():
            mean = total / count
            variance = (squares / count - mean * mean) * count / (count - 1)
            module.num_batches_tracked += 1
            share = 1.0 / float(module.num_batches_tracked) if module.momentum is None else module.momentum
            for running, value in ((module.running_mean, mean), (module.running_var, variance)):
                running += share * (value - running)
        self._sums.clear()

    def forget(self) -> None:
        """After a failed step: drop what was noted."""
        self._sums.clear()
