"""What an optimizer or a clip would compute from the weights of one rank, as if they were all.

Neither knows of other ranks, so nothing fails: each rank takes steps of a different length. Both are noticed before an
optimizer's step. LBFGS, which has one step length for all weights, is refused. So is a GradScaler, which leaves out a
step that overflows, on that rank alone; PyTorch has another one, which asks the others. `nn.utils.clip_grad_norm_`
leaves a trace: all gradients of the rank are multiplied by one factor, a new one each time, and then always have the
same norm. That is a warning only, since somebody may want it.

We look for the trace rather than for a call of the function: a clip by a library, or one that users write themselves,
leaves it as well, while a call may be for the norm alone, or for one layer. Whether gradients have changed
(`grad._version`) would not tell: unscaling and clips by value change them, too.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Set
from functools import partial
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim import LBFGS, Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gpipe_edu.pytorch.compiled import outside_of_graphs
from gpipe_edu.pytorch.stage import Head

from .schedulers_and_scalers import SCALERS

_ONE_RANKS_SCALER: Final = (
    "a GradScaler sees the gradients of one rank, and would leave out a step there that the other ranks make; take "
    "ShardedGradScaler of torch.distributed.fsdp.sharded_grad_scaler, which asks all ranks, let every rank call its "
    "scale(torch.zeros((), device=...)) once, since only the last one has a loss, and unscale_(optimizer) before step"
)
"""What is said of a GradScaler that knows no other ranks."""

_SAMPLES: Final = 16
"""Numbers of a gradient that are kept to see whether it was multiplied."""
_TIMES: Final = 3
"""How often a norm must be the same: twice may be chance."""


class _Scaled(NamedTuple):
    """By which factor the gradients were multiplied, and their norm then."""

    factor: float
    norm: float


class Settings(NamedTuple):
    """How a weight was stepped. place: of its group in the optimizer. values: by name, what the group says."""

    place: int
    values: dict[str, str]


class OptimizerChecks:
    """Checks on the optimizers of this rank's `weights`, while this object lives. experts: gives those of which other
    replicas have no copies."""

    def __init__(self, weights: Iterable[Tensor], experts: Callable[[], Set[Tensor]] = frozenset) -> None:
        self._weights, self._experts = list(weights), experts
        self.settings: dict[Tensor, Settings] = {}
        """Of each weight that an optimizer has stepped, as it was stepped last."""
        self._noted: list[tuple[Tensor, Tensor]] = []
        self._scaled: list[_Scaled] = []
        self._warned = False
        known = weakref.ref(self)

        @outside_of_graphs
        def before_step(optimizer: Optimizer, arguments: Any, named: Any) -> None:
            if (checks := known()) is not None:
                checks._check(optimizer)

        weakref.finalize(self, register_optimizer_step_pre_hook(before_step).remove)

    def note(self, look: bool) -> None:
        """Keep some numbers of the gradients as they are now, after a step or a clip of ours, if we are to `look`."""
        self._noted = []
        if look and not self._warned:
            self._noted = [
                (weight, _some(weight.grad).clone())
                for weight in self._weights
                if weight.grad is not None and not weight.grad.is_sparse
            ]

    def _check(self, optimizer: Optimizer) -> None:
        ours = set(map(id, self._weights))
        if all(id(weight) not in ours for group in optimizer.param_groups for weight in group["params"]):
            return
        if isinstance(optimizer, LBFGS):
            raise ValueError(
                "LBFGS computes one step length from all weights, and here has those of this rank only, so each rank "
                "would go another way; take an optimizer that looks at each weight by itself, such as Adam or SGD"
            )
        experts = self._experts() if hasattr(optimizer, "optim") else ()
        if any(weight in experts for group in optimizer.param_groups for weight in group["params"]):
            raise ValueError(
                "ZeroRedundancyOptimizer steps each weight on one replica and copies it to the others, but an expert "
                "is on one replica alone: step experts with a plain optimizer, such as Adam"
            )
        # A fused optimizer is given the scale, and looks for an overflow by itself, unless gradients are unscaled.
        if (scaler := _scaler_at_work()) and (_alone(scaler) or getattr(optimizer, "grad_scale", None) is not None):
            raise ValueError(_ONE_RANKS_SCALER)
        kind = type(getattr(optimizer, "optim", optimizer)).__name__  # of PyTorch's ZeRO, the one inside
        for place, group in enumerate(optimizer.param_groups):
            known = {name: _shown(value) for name, value in group.items() if name not in ("params", "param_names")}
            settings = Settings(place, {"optimizer": kind, **known})
            self.settings.update({weight: settings for weight in group["params"] if id(weight) in ours})
        noted, self._noted = self._noted, []
        if (now := _scaled(noted)) is None:
            return
        # A clip computes the norm in the type of the gradients, in 16 bits to two digits.
        off = 0.01 if any(then.element_size() == 2 for _, then in noted) else 0.001
        alike = [one for one in self._scaled if abs(one.norm - now.norm) < off * now.norm]
        self._scaled.append(now)
        if len({round(one.factor / now.factor, 2) for one in (*alike, now)}) >= _TIMES:
            self._warned = True
            warnings.warn(
                f"the gradients of this rank were scaled to a norm of {now.norm:.2g} again and again: "
                "torch.nn.utils.clip_grad_norm_ knows the weights of one rank only, so each rank takes steps of "
                f"another length. Call pipeline.clip_grad_norm({now.norm:.2g}) instead, on all ranks",
                stacklevel=5,
            )


def without_scaler_of_one_rank(heads: Iterable[Head]) -> list[Head]:
    """`heads` that raise ValueError if one is the first to use a GradScaler that knows no other ranks: the others would
    find no scale in theirs."""
    unused = [scaler for scaler in SCALERS if _alone(scaler) and not _used(scaler)]

    def checked(head: Head, output: Any) -> Tensor:
        loss = head(output)
        if any(map(_used, unused)):
            raise ValueError(_ONE_RANKS_SCALER)
        return loss

    return [partial(checked, head) for head in heads]


def _shown(value: object) -> str:
    return repr(value.tolist() if isinstance(value, Tensor) else value)


def _used(scaler: GradScaler) -> bool:
    return scaler._scale is not None


def _alone(scaler: GradScaler) -> bool:
    return scaler.is_enabled() and not hasattr(scaler, "process_group")  # which PyTorch's for several ranks has


def _scaler_at_work() -> GradScaler | None:
    """The one that called the optimizer's step."""
    frame: Any = sys._getframe()
    while frame is not None and frame.f_code is not GradScaler.step.__code__:
        frame = frame.f_back
    return None if frame is None else frame.f_locals["self"]


def _some(gradient: Tensor) -> Tensor:
    return gradient.detach().reshape(-1)[:: max(1, gradient.numel() // _SAMPLES)]


def _scaled(noted: Iterable[tuple[Tensor, Tensor]]) -> _Scaled | None:
    """How the gradients were multiplied since then; None if they were not, or not all by one factor."""
    found = [(then, weight.grad) for weight, then in noted if weight.grad is not None]
    if not found:
        return None
    then = torch.cat([one.abs().double().cpu() for one, _ in found])
    now = torch.cat([_some(gradient).abs().double().cpu() for _, gradient in found])
    factors = now[then > 0] / then[then > 0]
    if len(factors) < _TIMES:
        return None
    factor = float(factors.median())
    # One percent, since 16-bit numbers have two digits.
    if abs(factor - 1) < 0.01 or not bool((factors - factor).abs().max() < 0.01 * factor):
        return None
    return _Scaled(factor, float(sum(gradient.abs().double().square().sum() for _, gradient in found)) ** 0.5)
