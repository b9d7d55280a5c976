"""Our schedules in the form that PyTorch's runtime reads: the same ops in the same order, a list for each rank.

PyTorch itself adds sends and receives, in an order that cannot deadlock.
"""

from __future__ import annotations

from typing import Any, Final

from gpipe_edu.schedule import Op, Schedule

from .torch_private import Action

_TORCH: Final = {"F": "F", "B": "B", "C": "B", "I": "I", "W": "W"}
"""Our kinds in PyTorch's letters; a C is a backward whose stage recomputes, see `stage.py`."""


def lower(schedule: Schedule) -> dict[int, list[Any]]:
    """PyTorch's actions for each device of `schedule`, which becomes a rank.

    Raises ScheduleError for a schedule that can't run, ValueError for one with an R, which PyTorch's engine can't run.
    """
    schedule.check()
    for device, row in enumerate(schedule.rows):
        early = next((op for op in row if op.kind == "R"), None)
        if early is not None:
            raise ValueError(
                f"the schedule has {early} on device {device}: PyTorch's engine recomputes when the gradient is there, "
                'not before. Take gpipe(K, M, recompute="late"), or --checkpoint always'
            )
    return {device: [_action(op) for op in row] for device, row in enumerate(schedule.rows)}


def _action(op: Op) -> Any:
    return Action.from_str(f"{op.stage}{_TORCH[op.kind]}{op.micro_batch}")
