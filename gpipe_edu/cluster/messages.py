"""Messages from rank to rank that are posted at once and awaited later.

They are awaited in this file alone, which tells the watch that a rank waits for others (`ranks.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch.distributed as dist
from torch import Tensor


def send(tensor: Tensor, rank: int, group: Any) -> Any:
    """Post `tensor` to `rank` of `group`; it must stay as it is until this message is awaited."""
    return dist.isend(tensor, group=group, group_dst=rank)


def receive(tensor: Tensor, rank: int, group: Any) -> Any:
    """Post a receive from `rank` of `group` into `tensor`, whose numbers are there when this has been awaited."""
    return dist.irecv(tensor, group=group, group_src=rank)


def wait(messages: Iterable[Any]) -> None:
    """Wait until all are through."""
    for message in messages:
        message.wait()
