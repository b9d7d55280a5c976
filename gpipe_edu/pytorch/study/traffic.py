"""What a cut sends: every value that crosses a stage boundary, with its size, found by running one micro-batch.

Skips are the reason to look: they go straight from the stage that stashes to the stage that takes, past all stages in
between, so the layers on both sides of a cut do not tell what crosses it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from gpipe_edu.pytorch.cut import cut
from gpipe_edu.pytorch.skip import shelf, skip_ways
from gpipe_edu.pytorch.stage import MAIN
from gpipe_edu.pytorch.values import Value, check, tensors


class Crossing(NamedTuple):
    """A value that goes from stage `source` to stage `target` once per micro-batch; its gradient comes back.

    name: of the skip, or "" for what a layer hands to the next one.
    """

    name: str
    source: int
    target: int
    bytes: int


def traffic(net: nn.Sequential, sample: Value, balance: Sequence[int]) -> list[Crossing]:
    """All that `net`, cut into stages of `balance` layers, sends forward for the micro-batch `sample`.

    The layers are copied first, so nothing of `net` changes. Raises TypeError or ValueError as `GPipe` does.
    """
    groups = cut(copy.deepcopy(net), len(balance), balance)
    ways = skip_ways(groups)
    sent = []
    value = check(sample, "the sample")
    gpus = sorted({part.device.index for part in tensors(value) if part.is_cuda})
    with torch.no_grad(), torch.random.fork_rng(gpus), shelf({}) as kept:
        for k, layers in enumerate(groups):
            for layer in layers:
                value = layer(value)
            if k + 1 < len(groups):
                sent.append(Crossing(MAIN, k, k + 1, _size(check(value, "the output of a stage"))))
            sent += [Crossing(*way, _size(kept[way.name])) for way in ways if way.source == k]
    return sent


def _size(value: Value) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(value))
