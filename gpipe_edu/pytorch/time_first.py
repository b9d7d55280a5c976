"""Layers that take time as the first dimension, as PyTorch's recurrent and attention layers do by default.

A pipeline cuts the first dimension of a mini-batch. Where that is time, each piece has all samples and a part of every
sequence: the layers compute other numbers, and nothing fails. A net whose own layers transpose before and after is
right, so `batch_first` alone does not tell; the shapes that arrive do, unless there are as many steps as samples in a
micro-batch.
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

Shapes = Collection[tuple[int, ...]]


class TimeIsCut(ValueError):
    """A layer takes time where the samples were cut."""


@contextmanager
def samples_are_first(net: nn.Module, given: Shapes, where: str = "", *, refuse_doubts: bool = False) -> Iterator[None]:
    """Around forwards of micro-batches, by the layers of `net`. given: the shapes of their tensors, as they go in.
    where: what a message adds to the name that a layer has in `net`.

    A recurrent or attention layer then raises TimeIsCut if what it gets has time where the samples were cut. It warns
    where a right layer may get the same, unless it is to `refuse_doubts`, too. Compiled layers are not looked at: their
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
                look = partial(_look, f"the {type(module).__name__} {name!r}{where}", given, refuse_doubts)
                around.callback(module.register_forward_pre_hook(look, with_kwargs=True).remove)
        yield


def _look(
    who: str, given: Shapes, refuse_doubts: bool, layer: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    x = next(iter((*args, *named.values())), None)
    sizes = {shape[0] for shape in given}
    if not isinstance(x, Tensor) or x.is_nested or x.dim() not in (2, 3) or x.shape[0] not in sizes:
        return
    if x.dim() == 3 and layer.batch_first:
        return
    shape, n = tuple(x.shape), x.shape[0]
    behind = {one[1] for one in given if one[0] == n and len(one) > 1}
    if x.dim() == 2:
        doubtful = n in behind  # the steps of one sample, of a layer that takes one after another
        what = f"{who} got shape {shape} in a micro-batch of {n} samples, and takes that as one sequence"
        do = (
            f"give it three dimensions, such as {(n, 1, shape[1])} with batch_first=True for samples of one step each, "
            f"or {(1, *shape)} for a sequence that is not made of samples"
        )
    else:
        # Right layers may bring the samples together with another dimension, or take one sample after another.
        together = shape[1] == 1 or any(shape[1] % size == 0 for size in sizes)
        doubtful = shape[1] in sizes or (together and shape[1] not in behind)
        what = f"{who} takes time first (batch_first=False) and got shape {shape} in a micro-batch of {n} samples"
        do = "give it batch_first=True, and x and y with the samples first: x.transpose(0, 1)"
    if refuse_doubts or not doubtful:
        raise TimeIsCut(f"{what}, so the pipeline has cut time and not the samples; {do}")
    warnings.warn(f"{what}; where the first {n} is time, that is right, and otherwise {do}", stacklevel=2)
