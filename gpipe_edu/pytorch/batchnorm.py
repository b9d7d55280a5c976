"""Batch normalization under micro-batches: what the running statistics see.

Training always normalizes by the statistics of a micro-batch, so gradients equal those of one device that cuts the
batch likewise, not those of the whole batch: no pipeline can change that without waiting for all micro-batches in
every layer.
The running statistics, used in evaluation, can be exact: deferred, they are updated once per mini-batch from sums
over all of its samples. They then equal those of a full-batch forward wherever the input of the batch normalization
does: after another one it does not, since that one has normalized per micro-batch. Either way a recompute must not
count a micro-batch twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from . import torch_private


class BufferState(NamedTuple):
    """A buffer as a forward found it."""

    buffer: Tensor
    version: int
    copy: Tensor


Buffers = dict[tuple[nn.Module, str], BufferState]
"""By module and name."""


class BatchNorms:
    """The running statistics of the layers of one stage, while the engine runs them.

    read: modules whose buffers are only read, also by other threads, so that they are left in their places.
    """

    def __init__(self, layers: nn.Module, deferred: bool, read: Collection[nn.Module] = ()) -> None:
        self._layers, self._deferred, self._read = layers, deferred, read
        # Any module with buffers may update them in a forward, not only PyTorch's batch normalizations.
        self.keeps_statistics = any(module._buffers for module in self._writing())
        self._moments: dict[Any, Tensor] = {}  # per module: rows samples, mean and sum of squared deviations
        self._latest: Buffers = {}

    def _writing(self) -> Iterator[nn.Module]:
        return (module for module in self._layers.modules() if module not in self._read)

    @torch.no_grad()
    def snapshot(self) -> Buffers:
        """The layers' buffers as they are now, for a recompute. A buffer that has not changed is not copied again."""
        if self.keeps_statistics:
            self._latest = {
                (module, name): _copy(buffer, self._latest.get((module, name)))
                for module in self._writing()
                # In training, a batch normalization does not look at its running statistics.
                if not (isinstance(module, torch_private.BatchNorm) and module.training)
                for name, buffer in module._buffers.items()
                if buffer is not None and not buffer.requires_grad
            }
        return self._latest

    @contextmanager
    def forward(self, first: bool, seen: Buffers) -> Iterator[None]:
        """Around a forward: `first` is False for a recompute, which leaves all statistics as they are.

        seen: the buffers as they were before the forward that this one repeats.
        """
        norms = [module for module in self._layers.modules() if isinstance(module, torch_private.BatchNorm)]
        norms = [norm for norm in norms if norm.training and norm.track_running_stats]
        hooks = []
        if first and self._deferred:
            hooks = [norm.register_forward_pre_hook(self._note) for norm in norms]
        spared: list[nn.Module] = list(self._writing()) if not first else [*norms] if self._deferred else []
        # Layers update copies, which are then dropped. Undoing updates in place would disturb autograd.
        kept = [(module, dict(module._buffers)) for module in spared if module._buffers]
        for module, buffers in kept:
            for name, buffer in buffers.items():
                then = seen[module, name].copy if (module, name) in seen else buffer
                module._buffers[name] = None if then is None else then.clone()
        try:
            yield
        finally:
            for module, buffers in kept:
                module._buffers.update(buffers)
            for hook in hooks:
                hook.remove()

    @torch.no_grad()
    def _note(self, module: nn.Module, inputs: Sequence[Any]) -> None:
        x = inputs[0].detach().transpose(0, 1).flatten(1).double()  # features first, in float64 for the sums
        mean = x.mean(1)
        row = torch.stack([torch.full_like(mean, x.shape[1]), mean, ((x - mean[:, None]) ** 2).sum(1)])
        self._moments[module] = _together(self._moments[module], row) if module in self._moments else row

    @torch.no_grad()
    def commit(self) -> None:
        """At the end of a mini-batch: update the running statistics as one forward of the whole batch would."""
        for module, (count, mean, deviations) in self._moments.items():
            module.num_batches_tracked += 1
            share = 1.0 / float(module.num_batches_tracked) if module.momentum is None else module.momentum
            for running, value in ((module.running_mean, mean), (module.running_var, deviations / (count - 1))):
                running += share * (value - running)
        self.forget()

    def forget(self) -> None:
        """At the end of a step, failed or not: drop what was noted."""
        self._moments.clear()
        self._latest = {}


def _copy(buffer: Tensor, before: BufferState | None) -> BufferState:
    """`before` if `buffer` has not changed. A change through `.data` shows only in values, not compared on a GPU."""
    same = before is not None and before.buffer is buffer and before.version == buffer._version
    if before is not None and same and (buffer.device.type != "cpu" or torch.equal(before.copy, buffer)):
        return before
    return BufferState(buffer, buffer._version, buffer.clone())


def _together(one: Tensor, other: Tensor) -> Tensor:
    """The moments of the union of two sets of samples (Chan et al. 1979); sums of squares lose digits far from zero."""
    count = one[0] + other[0]
    apart = other[1] - one[1]
    mean = one[1] + apart * other[0] / count
    return torch.stack([count, mean, one[2] + other[2] + apart**2 * one[0] * other[0] / count])
