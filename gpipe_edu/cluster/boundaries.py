"""What crosses each boundary between stages, found on PyTorch's device "meta", whose tensors hold no numbers.

Each layer is called once that way, with hooks and all, but its weights, buffers and random numbers stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

_ROWS = 2
"""BatchNorm refuses to train on one sample."""


class Boundary(NamedTuple):
    """shape: of one sample. dtype: of its numbers."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def empty(self, samples: int, device: torch.device, grad: bool = False) -> Tensor:
        """An uninitialized tensor for so many samples."""
        return torch.empty((samples, *self.shape), dtype=self.dtype, device=device, requires_grad=grad)

    def bytes(self, samples: int) -> int:
        """The size of so many samples."""
        return samples * self.dtype.itemsize * int(torch.Size(self.shape).numel())


def boundaries(stages: Sequence[nn.Sequential], example: Tensor) -> list[Boundary]:
    """What goes into stage 0, 1, ... and what comes out of the last one.

    Raises ValueError for a stage that changes the number of samples, or gives back anything but one tensor.
    """
    value = torch.empty((_ROWS, *example.shape[1:]), dtype=example.dtype, device="meta")
    found = [Boundary(tuple(value.shape[1:]), value.dtype)]
    for k, stage in enumerate(stages):
        state = {name: tensor.to("meta") for name, tensor in [*stage.named_parameters(), *stage.named_buffers()]}
        value = functional_call(stage, state, (value,))
        if not isinstance(value, Tensor) or value.ndim == 0 or len(value) != _ROWS:
            shown = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(
                f"stage {k} makes {shown} of {_ROWS} samples; between ranks goes one tensor whose first dimension is "
                "the samples"
            )
        found.append(Boundary(tuple(value.shape[1:]), value.dtype))
    return found
