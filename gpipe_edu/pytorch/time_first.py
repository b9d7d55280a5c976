"""Layers that take time in front of the samples, as PyTorch's recurrent and attention layers do by default.

A pipeline cuts the first dimension of a mini-batch. Where that is time, each piece has all samples and a part of every
sequence: the layers compute other numbers, and nothing fails. A net whose own layers transpose before and behind is
right, so it can't be told from `batch_first` alone; the shapes that arrive say it.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from .compiled import is_compiled

_KINDS = (nn.RNNBase, nn.MultiheadAttention)


@contextmanager
def samples_are_first(net: nn.Module, sizes: Collection[int], where: str = "") -> Iterator[None]:
    """Around forwards of micro-batches of so many samples, by the layers of `net`. where: what a message adds to the
    name that a layer has in `net`.

    A recurrent or attention layer then raises ValueError if what it gets has time where the samples were cut. It warns
    if it has as many steps in time as samples, so that this can't be told. Compiled layers are not looked at: their
    hooks would be compiled with them.
    """
    with ExitStack() as around:
        for index, layer in net._modules.items():
            if layer is None:
                continue
            found = [(name, one) for name, one in layer.named_modules(prefix=index) if isinstance(one, _KINDS)]
            if not found or is_compiled(layer):  # the second takes longer
                continue
            for name, module in found:
                look = partial(_look, f"the {type(module).__name__} {name!r}{where}", sizes)
                around.callback(module.register_forward_pre_hook(look, with_kwargs=True).remove)
        yield


def _look(who: str, sizes: Collection[int], layer: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    x = next(iter((*given, *named.values())), None)
    if not isinstance(x, Tensor) or x.is_nested or x.dim() not in (2, 3) or x.shape[0] not in sizes:
        return
    if x.dim() == 3 and layer.batch_first:
        return
    shape = tuple(x.shape)
    if x.dim() == 2:
        raise ValueError(
            f"{who} got a micro-batch of shape {shape}, which it takes as one sequence, and a pipeline has cut it "
            f"along time; give it three dimensions, such as {(shape[0], 1, shape[1])} for samples of one step each"
        )
    what = f"{who} takes time first (batch_first=False) and got shape {shape} in a micro-batch of {shape[0]} samples"
    do = "give it batch_first=True, and x and y with the samples first: x.transpose(0, 1)"
    if shape[1] not in sizes:
        raise ValueError(f"{what}, so the pipeline has cut time and not the samples; {do}")
    warnings.warn(f"{what}; where the first {shape[0]} is time, that is right, and otherwise {do}", stacklevel=2)
