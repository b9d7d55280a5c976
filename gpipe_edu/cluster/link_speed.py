"""The link between two ranks: its latency and its bandwidth."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Any, Final, NamedTuple

import torch
import torch.distributed as dist

_ROUNDS: Final = 9
LARGE: Final = 4 << 20
"""Bytes: enough that the latency hardly matters, few enough for a slow link."""


class Link(NamedTuple):
    """latency: seconds until an empty message arrives. bandwidth: bytes per second."""

    latency: float
    bandwidth: float

    def seconds(self, size: int) -> float:
        """How long `size` bytes keep the link busy."""
        return size / self.bandwidth


def measure(one: int, other: int, group: Any, device: torch.device) -> Link | None:
    """The link from rank `one` of `group` to rank `other`, the median of some round trips; None on other ranks.

    Both must call this at the same time, and no other messages should be under way.
    """
    rank = dist.get_rank(group)
    if rank not in (one, other):
        return None
    small = median(_half_a_round(one, other, group, torch.zeros(1, device=device)) for _ in range(_ROUNDS))
    large = median(_half_a_round(one, other, group, torch.zeros(LARGE // 4, device=device)) for _ in range(_ROUNDS))
    return Link(small, LARGE / max(large - small, 1e-9))


def _half_a_round(one: int, other: int, group: Any, value: torch.Tensor) -> float:
    started = perf_counter()
    if dist.get_rank(group) == one:
        dist.send(value, group=group, group_dst=other)
        dist.recv(value, group=group, group_src=other)
    else:
        dist.recv(value, group=group, group_src=one)
        dist.send(value, group=group, group_dst=one)
    if value.is_cuda:
        torch.cuda.synchronize()
    return (perf_counter() - started) / 2
