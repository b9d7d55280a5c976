"""The weight of a micro-batch's loss in that of its mini-batch, and the loss that a step returns.

The mini-batch's mean is the mean of the micro-batches' means only if each is weighted by what it averages over: usually
its samples, sometimes the targets that are not ignored, or the weights of their classes. Both the engine of one process
and that of several (`gpipe_edu.cluster`) use this. What a step returns is a number, whose `backward()` says that the
step has run it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gpipe_edu.split import split_batch

from . import torch_private
from .guards import is_a_loss, is_a_target, setting
from .loss_checks import LossChecks
from .place import move
from .stage import Head
from .values import Value, change, shown, sizes_of, tensors

LossFunction = Callable[[Any, Any], Tensor]


def make_heads(
    loss_fn: LossFunction,
    y: Any,
    reduction: str | Sequence[float],
    sizes: Sequence[int],
    device: torch.device,
    mean_over: Callable[[float], float] = float,
    *,
    checks: LossChecks,
) -> list[Head]:
    """For every micro-batch, of so many samples, the function from the last stage's output to its share of the loss.

    mean_over: turns the total that the means of y's micro-batches are taken over into that of the whole mini-batch,
    where y is only a part of it. checks: look at the losses of this step.

    Raises TypeError if loss_fn is no loss, ValueError for a reduction that is unknown or not loss_fn's, or if there is
    not one weight per micro-batch.
    """
    is_a_loss(loss_fn, reduction)
    is_a_target(y)
    M, N = len(sizes), sum(sizes)
    targets = split_batch(y, M)
    if sizes_of(targets) != list(sizes):
        raise ValueError(
            f"x has {N} samples and y has {sum(sizes_of(targets))}; give the same number of both, those of the whole "
            "mini-batch, which is cut into micro-batches here"
        )
    named = reduction if isinstance(reduction, str) else None
    if named == "mean":
        counts: Sequence[float] = target_counts(loss_fn, y, targets) or sizes
        total = mean_over(sum(counts))
        weights = [count / total if total else math.nan for count in counts]
    elif named == "sum":
        weights = [1.0] * M
    elif hasattr(reduction, "__len__") and len(reduction) == M and not any(isinstance(w, str) for w in reduction):
        weights = [float(weight) for weight in reduction]
    else:
        raise ValueError(
            f'reduction is {shown(reduction)}; it must be "mean", "sum", or {M} weights, one per micro-batch'
        )

    step = checks.of_step(loss_fn, weights, named)

    def head(m: int, target: Any, weight: float, output: Value) -> Tensor:
        if weight == 0 and named == "mean":  # a mean over nothing is nan, and so is 0 times it
            return torch.stack([part.sum() * 0 for part in tensors(output)]).sum()
        loss = loss_fn(output, target) if step is None else step.loss(m, output, target)
        if not isinstance(loss, Tensor) or loss.numel() != 1 or loss.is_complex():
            got = f"a {loss.dtype} of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise TypeError(f"loss_fn returned {got}; it must return a tensor with one value, a real number")
        return loss.reshape(()) * weight

    moved = [change(lambda part: move(part, device), target) for target in targets]
    return [partial(head, m, target, weight) for m, (target, weight) in enumerate(zip(moved, weights, strict=True))]


def target_counts(loss_fn: LossFunction, y: Value, targets: Sequence[Value]) -> list[float]:
    """What each micro-batch's mean is taken over, if not its samples: cross entropy leaves out ignored targets, and may
    weight classes. Empty for other losses."""
    loss_fn = getattr(loss_fn, "_orig_mod", loss_fn)  # what torch.compile has wrapped
    function = loss_fn.func if isinstance(loss_fn, partial) else loss_fn
    of_class = function in (F.cross_entropy, F.nll_loss) or isinstance(function, (nn.CrossEntropyLoss, nn.NLLLoss))
    if not of_class or tensors(y)[0].is_floating_point():
        return []
    ignored, weight = setting(loss_fn, "ignore_index", -100), setting(loss_fn, "weight")
    if weight is None and not (tensors(y)[0] == ignored).any():
        return []
    kept = [classes[classes != ignored] for classes in (tensors(target)[0] for target in targets)]
    return [float(part.numel() if weight is None else weight[part.to(weight.device)].sum()) for part in kept]


def as_step_loss(loss: Tensor) -> Tensor:
    """`loss` as a StepLoss. One of the user's own class stays as it is, as do all where the private name is gone."""
    known = type(loss) is Tensor and torch_private.disabled_torch_function is not None
    return loss.as_subclass(StepLoss) if known else loss


class StepLoss(Tensor):
    """Like a detached tensor; what is computed from it, a copy of it and what is saved of it are plain tensors."""

    __torch_function__ = torch_private.disabled_torch_function

    def backward(self, *args: Any, **named: Any) -> NoReturn:
        """Raises RuntimeError: there is nothing left to do."""
        raise RuntimeError(
            "this loss is that of a step, which has run the backward already, and the gradients are in .grad; leave "
            "loss.backward() out, or call the pipe for an output with a graph: loss_fn(pipe(x), y).backward()"
        )

    def _plain(self) -> Tensor:
        return self.as_subclass(Tensor)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return repr(self._plain())

    def __format__(self, spec: str) -> str:
        return format(self._plain(), spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return copy.deepcopy(self._plain(), memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._plain().__reduce_ex__(protocol)  # type: ignore[no-untyped-call]
