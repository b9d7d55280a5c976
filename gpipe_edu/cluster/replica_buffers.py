"""Buffers of replicas, such as running means: those of the first replica count.

Each replica sees samples of its own, so what its layers write to a buffer is its own, too. As in
`DistributedDataParallel`, all begin with the first one's, so that there is one network in training, in evaluation and
on the disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@torch.no_grad()
def take_from_first(buffers: Iterable[Tensor], replicas: Any) -> None:
    """Give these buffers of this rank the numbers that the first rank of the group `replicas` has. All ranks of the
    group call this, with the same number of bytes."""
    held = list(buffers)
    if not held:
        return
    mine = torch.cat([_bytes(buffer) for buffer in held])
    theirs = mine.clone()
    dist.broadcast(theirs, group=replicas, group_src=0)
    sizes = [buffer.nbytes for buffer in held]
    for buffer, ours, first in zip(held, torch.split(mine, sizes), torch.split(theirs, sizes), strict=True):
        # A buffer that is only read is not written to: it may be a view that shows one number in several places.
        if not torch.equal(ours, first):
            buffer.copy_(first.clone().view(buffer.dtype).view(buffer.shape))


def _bytes(buffer: Tensor) -> Tensor:
    """The bytes of a buffer of any type, so that all travel in one message."""
    return buffer.detach().contiguous().reshape(-1).view(torch.uint8)
