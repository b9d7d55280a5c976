"""The two links that a process has in a ring: it sends to its right neighbour and receives from its left one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .diary import NoNeighbour

Send = Callable[[Any], None]
Receive = Callable[[Any], Any]


@contextmanager
def ring_links(rank: int, D: int) -> Iterator[tuple[Send, Receive]]:
    """For process `rank` of D: `send(array)` and `receive(like)`, on arrays of NumPy.

    `send` copies the array and does not wait. `receive` waits for an array from the left neighbour, of the shape
    and type of `like`, which stays as it is. At the end of the `with`, waits until all that was sent has been received.
    """
    import torch
    import torch.distributed as dist

    handles: list[Any] = []

    def check() -> None:
        if D == 1:
            raise NoNeighbour("process 0 has no neighbour: it is the only one")

    def send(array: Any) -> None:
        check()
        handles.append(dist.isend(torch.from_numpy(np.array(array, order="C")), (rank + 1) % D))

    def receive(like: Any) -> Any:
        check()
        buffer = torch.from_numpy(np.empty_like(np.asarray(like), order="C"))
        dist.recv(buffer, (rank - 1) % D)
        return buffer.numpy()

    yield send, receive
    for handle in handles:
        handle.wait()
