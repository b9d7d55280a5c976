"""Skips over more than one boundary go straight from the rank that stashes to the one that takes, and gradients back.

PyTorch's engine sends from a stage to its neighbours only, so these messages go beside its own, in two groups of their
own: one for messages to a higher rank, one for those to a lower one. Between two ranks each of the groups then has only
sends at one end and only receives at the other, in one order: that in which the sender runs its ops. So with NCCL, too,
no message queues behind one of another kind.

Nothing can wait in a circle: all receives are posted when a step begins, sends are awaited when it ends, and what an op
waits for in between has been sent by an op that it needs anyway. F of the stage that takes needs F of the one that
stashes, and the backward of the one that stashes needs that of the one that takes, by way of the stages between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gpipe_edu.pytorch.skip import Way
from gpipe_edu.pytorch.values import differentiable
from gpipe_edu.schedule import Op
from gpipe_edu.schedule.op import SENDS_GRADIENT

from .boundaries import Boundary
from .messages import receive, send, wait

_Key = tuple[str, int, bool]
"""A message: the skip's name, the micro-batch, and whether it is the gradient."""


def far(ways: Iterable[Way]) -> list[Way]:
    """The skips that do not end at the next stage, to which PyTorch's engine sends."""
    return [way for way in ways if way.target > way.source + 1]


class FarSkips:
    """The far skips of one form of mini-batch, on this rank.

    forms: by name, the tensors of a skip. rows: the ops of each rank. homes: the rank of each stage. sizes: the samples
    of each micro-batch.
    """

    def __init__(
        self,
        ways: Sequence[Way],
        forms: Mapping[str, Boundary],
        rows: Sequence[Sequence[Op]],
        homes: Mapping[int, int],
        sizes: Sequence[int],
        device: torch.device,
        group: Any,
        groups: Sequence[Any],
    ) -> None:
        self._ways, self._forms, self._homes, self._sizes, self._device = ways, forms, homes, sizes, device
        self._rank, self._groups = dist.get_rank(group), groups
        ranks = dist.get_process_group_ranks(group)
        self._peers = [dist.get_group_rank(groups[0], one) for one in ranks] if groups else []
        """The ranks of `group`, as they are numbered in `groups`."""
        self._expected = [
            (key, sender)
            for sender, row in enumerate(rows)
            for op in row
            for key, receiver in self._messages(op)
            if receiver == self._rank != sender
        ]
        self._arriving: dict[_Key, tuple[Sequence[Tensor], Sequence[Any]]] = {}
        self._sending: list[Any] = []
        self._given: dict[_Key, Sequence[Tensor]] = {}
        self._taken: dict[_Key, Sequence[Tensor]] = {}

    @contextmanager
    def of_step(self) -> Iterator[None]:
        """Around all ops."""
        for key, sender in self._expected:
            name, m, back = key
            parts = self._forms[name].empty(self._sizes[m], self._device)
            if back:
                parts = tuple(filter(differentiable, parts))
            source, group = self._peers[sender], self._groups[sender < self._rank]
            self._arriving[key] = parts, [receive(part, source, group) for part in parts]
        try:
            yield
            wait(self._sending)
        finally:
            for found in (self._arriving, self._sending, self._given, self._taken):
                found.clear()

    def take(self, stage: int, m: int) -> tuple[Tensor, ...]:
        """The tensors that `stage` takes, once they are there."""
        taken: list[Tensor] = []
        for way in self._ways:
            if way.target == stage:
                found = [one.detach() for one in self._receive((way.name, m, False))]
                if torch.is_grad_enabled():
                    found = [one.requires_grad_(differentiable(one)) for one in found]
                self._taken[way.name, m, False] = found
                taken += found
        return tuple(taken)

    def give(self, stage: int, m: int, parts: Sequence[Tensor]) -> None:
        """Send `parts`, which `stage` has stashed, one skip's after another's."""
        start = 0
        for way in self._ways:
            if way.source == stage:
                end = start + len(self._forms[way.name].parts)
                self._given[way.name, m, False] = parts[start:end]
                self._send((way.name, m, False), [one.detach() for one in parts[start:end]], way.target)
                start = end

    def given(self, stage: int, m: int) -> list[tuple[Tensor, Tensor]]:
        """What `stage` has given, with its gradients, once they are there."""
        pairs: list[tuple[Tensor, Tensor]] = []
        for way in self._ways:
            if way.source == stage:
                parts = filter(differentiable, self._given.pop((way.name, m, False)))
                pairs += zip(parts, self._receive((way.name, m, True)), strict=True)
        return pairs

    def taken(self, stage: int, m: int) -> list[Tensor]:
        """What `take` has returned."""
        return [one for way in self._ways if way.target == stage for one in self._taken[way.name, m, False]]

    def give_back(self, stage: int, m: int, gradients: Iterable[Tensor | None]) -> None:
        """Send the gradients of what `stage` has taken, one for each tensor, None for one that learns nothing."""
        found = iter(gradients)
        for way in self._ways:
            if way.target == stage:
                parts = [next(found) for _ in self._taken.pop((way.name, m, False))]
                self._send((way.name, m, True), [one for one in parts if one is not None], way.source)

    def _messages(self, op: Op) -> Iterator[tuple[_Key, int]]:
        """What `op` sends, in order, and to which rank."""
        for way in self._ways:
            if op.kind == "F" and op.stage == way.source:
                yield (way.name, op.micro_batch, False), self._homes[way.target]
            elif op.kind in SENDS_GRADIENT and op.stage == way.target:
                yield (way.name, op.micro_batch, True), self._homes[way.source]

    def _send(self, key: _Key, parts: Sequence[Tensor], stage: int) -> None:
        rank = self._homes[stage]
        if rank == self._rank:
            self._arriving[key] = parts, ()
        else:
            to, group = self._peers[rank], self._groups[rank > self._rank]
            self._sending += [send(one, to, group) for one in parts]

    def _receive(self, key: _Key) -> Sequence[Tensor]:
        parts, works = self._arriving.pop(key)
        wait(works)
        return parts


def own_groups(group: Any) -> list[Any]:
    """Two more groups of the ranks of `group`; all of them call this together."""
    ranks = dist.get_process_group_ranks(group)
    return [dist.new_group(ranks, use_local_synchronization=True) for _ in range(2)]
