"""Weights that stages on several ranks hold, as where an embedding and the head are one: each rank has a copy.

The copies stay equal to the last bit, because all get the very same gradient: the first of the ranks adds up what the
others send it, and sends them the sum. Were each to add up for itself, they could do so in another order and round
apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gpipe_edu.pytorch.weights import add

from .gradient_message import pack, unpack


def first_names(layers: Iterable[tuple[str, nn.Module]]) -> dict[Tensor, str]:
    """The name of each weight in the whole network; one that several layers hold has the name in the first of them."""
    names: dict[Tensor, str] = {}
    for name, layer in layers:
        for inner, weight in layer.named_parameters(name):
            names.setdefault(weight, inner)
    return names


def holders(stages: Sequence[Sequence[nn.Module]], rank_of_stage: Mapping[int, int]) -> dict[Tensor, list[int]]:
    """For each weight the ranks that hold it, in the order of their stages."""
    found: dict[Tensor, list[int]] = {}
    for k, layers in enumerate(stages):
        for weight in (weight for layer in layers for weight in layer.parameters()):
            ranks = found.setdefault(weight, [])
            if rank_of_stage[k] not in ranks:
                ranks.append(rank_of_stage[k])
    return found


class Ties:
    """What this rank shares with other ranks of `group`. held: for each of its weights all ranks that hold it."""

    def __init__(self, held: Mapping[Tensor, Sequence[int]], group: Any) -> None:
        self._held = {weight: tuple(ranks) for weight, ranks in held.items() if len(ranks) > 1}
        self._group, self._rank = group, dist.get_rank(group)

    def __bool__(self) -> bool:
        return bool(self._held)

    def copies(self, weight: Tensor) -> int:
        """How many ranks of the pipeline hold `weight`."""
        return len(self._held.get(weight, (0,)))

    def counts_here(self, weight: Tensor) -> bool:
        """Whether this is the first rank that holds `weight`: what is counted once is counted there."""
        return self._held.get(weight, (self._rank,))[0] == self._rank

    def collect(self, weights: Sequence[Tensor], found: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Where a weight counts its gradient becomes that of all ranks; elsewhere it becomes None."""
        gradients = dict(zip(weights, found, strict=True))
        for first, other, tied in self._messages(weights):
            if self._rank == other:
                dist.send(pack(tied, [gradients[weight] for weight in tied]), group=self._group, group_dst=first)
                gradients.update(dict.fromkeys(tied))
            else:
                theirs = self._receive(tied, other)
                gradients.update({weight: add(gradients[weight], theirs[weight]) for weight in tied})
        return [gradients[weight] for weight in weights]

    def spread(self, weights: Sequence[Tensor], found: Sequence[Tensor | None]) -> list[Tensor | None]:
        """The gradients that `collect` has brought together, given to all ranks that hold the weight."""
        gradients = dict(zip(weights, found, strict=True))
        for first, other, tied in self._messages(weights):
            if self._rank == first:
                dist.send(pack(tied, [gradients[weight] for weight in tied]), group=self._group, group_dst=other)
            else:
                gradients.update(self._receive(tied, first))
        return [gradients[weight] for weight in weights]

    def _messages(self, weights: Iterable[Tensor]) -> list[tuple[int, int, list[Tensor]]]:
        """The pairs of ranks with this one among them, and the weights they share, which travel in one message.

        In the same order everywhere: of all pairs that are left, the first one has both ends free.
        """
        pairs: dict[tuple[int, int], list[Tensor]] = {}
        for weight in weights:
            first, *others = self._held.get(weight, (self._rank,))
            for other in others:
                if self._rank in (first, other):
                    pairs.setdefault((first, other), []).append(weight)
        return [(*pair, tied) for pair, tied in sorted(pairs.items(), key=lambda entry: entry[0])]

    def _receive(self, tied: Sequence[Tensor], rank: int) -> dict[Tensor, Tensor | None]:
        message = torch.empty_like(pack(tied, [None] * len(tied)))
        dist.recv(message, group=self._group, group_src=rank)
        return dict(zip(tied, unpack(tied, message), strict=True))
