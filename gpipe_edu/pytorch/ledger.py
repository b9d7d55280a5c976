"""Bytes that a device holds: saved activations, counted tensor by tensor as autograd saves them, and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from gpipe_edu.schedule.needs import Cell

from . import torch_private


class Ledger:
    """What one device holds for its unfinished micro-batches; memory shared within a micro-batch counts once."""

    def __init__(self, weights: Iterable[Tensor]) -> None:
        self._weights = {weight.untyped_storage().data_ptr() for weight in weights}
        self._cells: dict[Cell, dict[int, int]] = {}  # cell -> address -> bytes
        self.held = self.peak = 0

    def add(self, cell: Cell, kept: Iterable[Tensor]) -> None:
        """Count the tensors `kept` for `cell`, except weights and views of them."""
        counted = self._cells.setdefault(cell, {})
        for tensor in kept:
            # A tensor's own bytes, not its storage's: a micro-batch is a view of the whole mini-batch.
            size = bytes_of(tensor)
            more = size - counted.get(tensor.data_ptr(), 0)
            if more > 0 and tensor.untyped_storage().data_ptr() not in self._weights:
                counted[tensor.data_ptr()] = size
                self.held += more
        self.peak = max(self.peak, self.held)

    def free(self, cell: Cell) -> None:
        """Nothing is held for `cell` any more."""
        self.held -= sum(self._cells.pop(cell, {}).values())

    @contextmanager
    def watch(self, cell: Cell) -> Iterator[None]:
        """Around a forward: count what autograd saves for `cell`. Hooks of the user's are called as before."""

        theirs = hooks_in_force()

        def pack(tensor: Tensor) -> Any:
            self.add(cell, [tensor])
            return theirs[0](tensor) if theirs else (tensor.detach(), tensor._version)

        def unpack(saved: Any) -> Tensor:
            if theirs:
                return theirs[1](saved)
            # Autograd does not check this where hooks keep its tensors.
            tensor: Tensor
            tensor, version = saved
            if tensor._version != version:
                raise RuntimeError(
                    f"one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"a tensor of shape {tuple(tensor.shape)} is at version {tensor._version}, and backward needs it "
                    f"at version {version}; use the out-of-place form of what changes it"
                )
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield


def bytes_of(tensor: Tensor) -> int:
    """The bytes of a tensor's own numbers; of a sparse one, those it has."""
    if tensor.layout == torch.sparse_coo:
        return bytes_of(tensor._indices()) + bytes_of(tensor._values())
    return tensor.numel() * tensor.element_size()


def hooks_in_force() -> tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]] | None:
    """The saved-tensor hooks that autograd calls in this thread: the innermost pair.

    Not those of a checkpoint: a pipe inside one keeps what it needs, as its own checkpoint mode says. Those hooks would
    call the pipe again in the middle of its own backward.
    """
    hooks = torch_private.saved_tensor_hooks(True)
    return None if hooks is None or hooks[0].__module__ == "torch.utils.checkpoint" else hooks


class Allocator:
    """On CUDA, what the allocator says: the most bytes of the GPU in use during the step beyond those before it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        torch.cuda.reset_peak_memory_stats(device)
        self._before = torch.cuda.memory_allocated(device)

    @property
    def peak(self) -> int:
        """The peak, in bytes."""
        return torch.cuda.max_memory_allocated(self._device) - self._before
