"""Whether the losses of micro-batches may be averaged as an engine does, seen in the losses themselves.

A loss that compares samples with each other gives something else for half of them: pairs that a cut tears apart, a
contrast with all others, a rank in the batch. Nothing fails, and the weights are off. So the loss of two micro-batches
joined is compared with what their two losses make.

A loss may also average over fewer things than samples, as cross entropy does over the targets that it does not ignore.
The engines know what `cross_entropy` itself counts (`losses.py`), but inside of a function nobody can tell before the
step. There we watch what it averages over.

Both in steps 1, 2, 4, 8, ..., since what is wrong may show in some steps only, where more is padded in one sample than
in another.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from . import torch_private
from .trial import as_before
from .values import differentiable


class LossChecks:
    """The checks of one pipe, over all of its steps; none if not `enabled`. instead: what else one can do."""

    def __init__(self, enabled: bool, instead: str = "") -> None:
        self._looks, self._instead = enabled, instead
        self._steps = 0
        self._step: weakref.ref[StepChecks] | None = None
        """Weak, so that nothing is kept of a step that fails."""

    def of_step(self, loss_fn: Callable[..., Any], weights: Sequence[float], named: str | None) -> StepChecks | None:
        """Those of the next step, whose micro-batches have these weights; None where nothing is to be looked at."""
        self._steps += 1
        self._step = None
        if not (self._looks and named and len(weights) > 1 and self._steps & (self._steps - 1) == 0):
            return None
        step = StepChecks(loss_fn, weights, named == "mean")
        self._step = weakref.ref(step)
        return step

    def tell(self) -> None:
        """Warn, once, of what the step has found."""
        step = None if self._step is None else self._step()
        self._step = None
        if step is not None and (found := step.found()):
            self._looks = False
            warnings.warn(f"{found}{self._instead}; check_loss=False says that you know", stacklevel=4)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_step": None}


class StepChecks:
    """The checks of one step, in which micro-batch m counts `weights[m]`. means: whether losses are means."""

    def __init__(self, loss_fn: Callable[..., Any], weights: Sequence[float], means: bool) -> None:
        self._loss_fn, self._weights, self._means = loss_fn, weights, means
        self._plain: Any = getattr(loss_fn, "_orig_mod", getattr(loss_fn, "_torchdynamo_orig_callable", loss_fn))
        """Without torch.compile, which would compile it anew for two micro-batches."""
        self._counted: dict[int, list[Tensor]] = {}
        """By micro-batch, what each call of cross entropy averaged over."""
        self._shares: list[_Share] = []
        """The first two micro-batches."""

    def loss(self, m: int, output: Any, target: Any) -> Any:
        """The loss of micro-batch m, noted if this is its first call: a recompute makes another.

        It is looked at when the step is over, so that the time of no op has that in it.
        """
        if m in self._counted:
            return self._loss_fn(output, target)
        if (
            self._plain is not self._loss_fn or torch_private.disabled_torch_function is None
        ):  # a compiler would see the watch, too
            self._counted[m] = []
            loss = self._loss_fn(output, target)
        else:
            with _Counts() as counts:
                loss = self._loss_fn(output, target)
            self._counted[m] = counts.found
        if len(self._shares) < 2 and isinstance(loss, Tensor) and loss.numel() == 1 and loss.is_floating_point():
            self._shares.append(_Share(_each(Tensor.detach, output), target, loss.detach(), self._weights[m]))
        return loss

    def found(self) -> str:
        """What is wrong, "" if nothing is. What was kept for that is dropped."""
        found = self._uneven() or self._apart()
        self._shares.clear()
        return found

    def _uneven(self) -> str:
        """What is wrong where cross entropy averaged over something else than micro-batches are weighted by; "" if
        nothing."""
        calls = [self._counted[m] for m in sorted(self._counted)]
        if not self._means or len({len(one) for one in calls}) != 1 or len(calls) != len(self._weights):
            return ""
        for counts in zip(*calls, strict=True):
            numbers = torch.stack([one.double().cpu() for one in counts]).tolist()
            shares = [number / sum(numbers) if sum(numbers) else math.nan for number in numbers]
            whole = sum(self._weights)
            if any(abs(share - weight / whole) > 1e-6 for share, weight in zip(shares, self._weights, strict=True)):
                shown = ", ".join(f"{number:g}" for number in numbers[:4]) + (", ..." if len(numbers) > 4 else "")
                return (
                    f"cross entropy inside of loss_fn averaged over {shown} targets, or weights of classes, in the "
                    "micro-batches, which count by their samples, so that step() computes another loss than one device "
                    "does; as loss_fn give nn.CrossEntropyLoss(...) or functools.partial(F.cross_entropy, ...), whose "
                    "targets are counted, or sum, divide by the number of targets in the mini-batch, and say "
                    'reduction="sum"'
                )
        return ""

    def _apart(self) -> str:
        """What is wrong where the loss does not separate; "" if nothing is."""
        if len(self._shares) < 2 or not all(math.isfinite(float(share.loss)) for share in self._shares):
            return ""
        one, other = self._shares
        total = one.weight + other.weight if self._means else 1
        parts = float(one.loss) * one.weight, float(other.loss) * other.weight
        cuda = [one.loss.device] if one.loss.device.type == "cuda" else []
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=cuda), as_before(self._plain):
                joined = float(self._plain(_joined(one.output, other.output), _joined(one.target, other.target)))
                if _close(sum(parts), joined * total, parts, 0.03, one) or self._is_noise(one, other, total):
                    return ""
        except Exception:  # it may count on the size of a micro-batch
            return ""
        what = "average to" if self._means else "add up to"
        return (
            f"loss_fn does not separate over samples: for two micro-batches it gives {float(one.loss):.6g} and "
            f"{float(other.loss):.6g}, which {what} {sum(parts) / total:.6g}, and {joined:.6g} for both joined, so "
            "that step() computes another loss than one device does. If it compares only some samples with each other, "
            "such as pairs, keep these next to each other in the mini-batch, in one micro-batch"
        )

    def _is_noise(self, one: _Share, other: _Share, total: float) -> bool:
        """Whether a difference is one of rounding, which is gone with double precision, or of random numbers or of
        what a loss keeps from call to call, which is there for one micro-batch called twice."""
        first, second = (
            share._replace(output=_double(share.output), target=_double(share.target)) for share in (one, other)
        )
        try:
            values = [self._plain(share.output, share.target) for share in (first, second, second)]
            joined = self._plain(_joined(first.output, second.output), _joined(first.target, second.target))
        except Exception:  # it may have weights of another type
            values = [one.loss, other.loss, self._plain(other.output, other.target)]
            joined = self._plain(_joined(one.output, other.output), _joined(one.target, other.target))
        parts = float(values[0]) * one.weight, float(values[1]) * other.weight
        of_one_kind = one._replace(loss=values[0])
        again = _close(parts[1], float(values[2]) * other.weight, parts, 0.3, of_one_kind)
        return not again or _close(sum(parts), float(joined) * total, parts, 0.3, of_one_kind)


class _Share(NamedTuple):
    """A micro-batch's output, without a graph, with its target, loss, and the weight of that."""

    output: Any
    target: Any
    loss: Tensor
    weight: float


class _Counts(TorchFunctionMode):
    """Notes what cross entropy averages over."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in (F.cross_entropy, F.nll_loss):
            self._note(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _note(
        self,
        input: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        if reduction == "mean" and size_average is not False and reduce is not False and not differentiable(target):
            counts = target != ignore_index  # used so that no GPU is waited for
            self.found.append(counts.sum() if weight is None else (weight[target.where(counts, 0)] * counts).sum())


def _each(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    """`function` on every tensor of a value; the rest as it is."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple):
        return tuple(_each(function, one) for one in value)
    return {name: _each(function, one) for name, one in value.items()} if isinstance(value, dict) else value


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, tuple):
        return tuple(map(_joined, one, other))
    if isinstance(one, dict):
        return {name: _joined(part, other[name]) for name, part in one.items()}
    return torch.cat([one, other])


def _double(value: Any) -> Any:
    return _each(lambda part: part.double() if part.is_floating_point() else part, value)


def _close(one: float, other: float, parts: Sequence[float], factor: float, share: _Share) -> bool:
    """Whether two ways to compute a loss agree, as far as the coarsest type on the way tells."""
    kinds = [share.loss.dtype]
    if share.loss.dtype != torch.double:
        _each(lambda part: kinds.append(part.dtype) or part, share.output)  # type: ignore[func-returns-value]
    if torch.is_autocast_enabled(share.loss.device.type):
        kinds.append(torch.get_autocast_dtype(share.loss.device.type))
    eps = max(torch.finfo(kind).eps for kind in kinds if kind.is_floating_point)
    return abs(one - other) <= max(factor * math.sqrt(eps), 3 * eps) * max(map(abs, (*parts, one, other)))
