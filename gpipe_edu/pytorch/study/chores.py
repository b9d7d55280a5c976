"""Stages whose work is known, to study only a pipeline's timing: they do a chore instead of arithmetic.

A real layer's time depends on cores, caches and libraries. A stage that sleeps needs none, so its pipeline shows
what the schedule alone does, on any machine; one that counts in Python holds the GIL all the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Work = Callable[[], object]


def nap() -> None:
    """10 ms without using a core, like waiting for another device."""
    time.sleep(0.01)


def count() -> None:
    """A loop in plain Python: some milliseconds, holding the GIL all the time."""
    for _ in range(200_000):
        pass


class Chore(nn.Module):
    """Returns x times a weight of 1; does `work` once in a forward and twice in a backward, so that B = 2 F."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work, self.weight = work, nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        """The input, times the weight. Any shape."""
        done: Tensor = _Work.apply(x * self.weight, self.work)  # type: ignore[no-untyped-call]
        return done


class _Work(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, work: Work) -> Tensor:
        ctx.work = work
        work()
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        ctx.work()
        ctx.work()
        return gradients[0], None
