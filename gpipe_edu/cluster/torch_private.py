"""PyTorch's private names that our schedules need, in one place, so that a release that changes them is noticed.

`torch.distributed.pipelining` has public names for its own schedules. A schedule written by hand needs its runtime,
whose names begin with an underscore: a release may change them without notice. So they are imported only here, and
`missing()` says which are gone.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from torch.distributed.pipelining import PipelineStage, schedules

from gpipe_edu.pytorch.torch_private import changed

TESTED: Final = ("2.12", "2.13")
"""Releases of PyTorch on which this ran with gradients equal to those of one device."""

_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "_Action": ("from_str",),
    "_PipelineScheduleRuntime": (
        "_prepare_schedule_with_comms",
        "_step_microbatches",
        "_split_inputs",
        "_maybe_compute_loss",
        "_maybe_get_loss",
        "_update_losses",
    ),
}
_STAGE: Final = (
    "get_fwd_recv_ops",
    "get_bwd_recv_ops",
    "forward_one_chunk",
    "forward_maybe_with_nosync",
    "backward_one_chunk",
    "backward_weight_one_chunk",
    "backward_maybe_with_nosync",
    "clear_runtime_states",
    "_create_grad_send_info",
    "_validate_stage_tensors",  # 2.11 checks each shape, with no way to avoid that, and sends only what has a gradient
)

_ARGUMENTS: Final = {
    "_maybe_compute_loss": ("stage", "output", "target_mbs", "mb_index"),
    "_maybe_get_loss": ("stage", "mb_index"),
    "_update_losses": ("stages", "losses"),
    "_split_inputs": ("args", "kwargs"),
    "_step_microbatches": ("arg_mbs", "kwarg_mbs", "target_mbs", "losses"),
}
"""The parameters, in this order, of the methods that we override or call; a release may add more after them."""


def missing(found: Any = schedules) -> list[str]:
    """The names that this PyTorch lacks, to search for; [] if our schedules can run on it."""
    lacking = []
    for name, methods in _NEEDED.items():
        kind = getattr(found, name, None)
        if kind is None:
            lacking.append(name)
            continue
        for method in methods:
            if not hasattr(kind, method):
                lacking.append(f"{name}.{method}")
            elif method in _ARGUMENTS:
                given = tuple(inspect.signature(getattr(kind, method)).parameters)[1:]
                if given[: len(_ARGUMENTS[method])] != _ARGUMENTS[method]:
                    lacking.append(f"{name}.{method}({', '.join(_ARGUMENTS[method])})")
    lacking += [f"PipelineStage.{method}" for method in _STAGE if not hasattr(PipelineStage, method)]
    return lacking


def check() -> None:
    """Raises ImportError, naming what is gone, if this PyTorch can't run schedules of ours."""
    if lacking := missing():
        raise changed("our schedules need of torch.distributed.pipelining", lacking, TESTED, "run on one machine")


check()

Action: Any = schedules._Action
Runtime: Any = schedules._PipelineScheduleRuntime
