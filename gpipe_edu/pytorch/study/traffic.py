"""What a cut sends: every value that crosses a stage boundary, with its size, found by running one micro-batch.

Skips are the reason to look: they go straight from the stage that stashes to the stage that takes, past all stages in
between, so the layers on both sides of a cut do not tell what crosses it. To compare, `carry_skips` makes a net that
sends skips as an engine without them must: every stage on the way takes them along.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gpipe_edu.pytorch.cut_net import cut_net
from gpipe_edu.pytorch.skip import Stash, Take, shelf, skip_ways
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
    groups = cut_net(copy.deepcopy(net), len(balance), balance)
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


Carried = Tensor | tuple[Tensor, ...]
"""What a layer works on or, if skips are on their way, a tuple of that and of the skips, the last one stashed first."""


def carry_skips(net: nn.Sequential) -> nn.Sequential:
    """`net`, layer by layer, with its skips in a tuple (x, skip, ...) that each layer hands on to the next.

    It uses the layers of `net` themselves, not copies. Raises ValueError for a skip wired wrongly, as `GPipe` does, and
    for one with a single end inside a layer.
    """
    skip_ways([list(net)])
    on_the_way: list[str] = []
    layers: list[nn.Module] = []
    for layer in net:
        match layer:
            case Stash():
                on_the_way.insert(0, layer.name)
                layers.append(_Push(layer.keep))
            case Take():
                place = on_the_way.index(layer.name)
                on_the_way.remove(layer.name)
                layers.append(_Pop(layer.combine, place))
            case _:
                stashed, taken = (
                    {part.name for part in layer.modules() if isinstance(part, end)} for end in (Stash, Take)
                )
                for name in stashed ^ taken:
                    raise ValueError(
                        f'the skip "{name}" has one end inside a {type(layer).__name__}; it can be carried if both '
                        "ends are in there, or if both are layers of the nn.Sequential itself"
                    )
                layers.append(_Beside(layer))
    return nn.Sequential(*layers)


class _Beside(nn.Module):
    """A layer that passes the skips beside its input on unchanged."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, value: Carried) -> Carried:
        x, skips = _apart(value)
        return _together(self.layer(x), skips)


class _Push(nn.Module):
    def __init__(self, keep: nn.Module | None) -> None:
        super().__init__()
        self.keep = keep

    def forward(self, value: Carried) -> Carried:
        x, skips = _apart(value)
        return (x, x if self.keep is None else self.keep(x), *skips)


class _Pop(nn.Module):
    def __init__(self, combine: Callable[[Tensor, Tensor], Tensor], place: int) -> None:
        super().__init__()
        self.combine, self.place = combine, place

    def forward(self, value: Carried) -> Carried:
        x, skips = _apart(value)
        rest = (*skips[: self.place], *skips[self.place + 1 :])
        return _together(self.combine(x, skips[self.place]), rest)


def _apart(value: Carried) -> tuple[Tensor, tuple[Tensor, ...]]:
    return (value[0], value[1:]) if isinstance(value, tuple) else (value, ())


def _together(x: Tensor, skips: tuple[Tensor, ...]) -> Carried:
    return (x, *skips) if skips else x
