"""Re-materialization as a property of the schedule: which micro-batches recompute, and when."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from .op import Op
from .schedule import Schedule

CHECKPOINTS: Final = ("always", "except_last", "never")


def with_recompute(schedule: Schedule, checkpoint: str) -> Schedule:
    """`schedule` with an R before the backward of every micro-batch ("always"), of all but the last, or of none.

    The recompute stands right before its backward, so a device does it while the gradient is on its way. Raises
    ValueError for an unknown mode or a schedule that recomputes already.
    """
    if checkpoint not in CHECKPOINTS:
        raise ValueError(f"checkpoint is {checkpoint!r}; it must be one of {', '.join(CHECKPOINTS)}")
    if checkpoint == "never":
        return schedule
    if any(op.kind in "RC" for row in schedule.rows for op in row):
        raise ValueError(
            f"checkpoint is {checkpoint!r}, but the schedule says by R or C ops what is recomputed; leave one out"
        )
    chosen = range(schedule.micro_batches - (checkpoint == "except_last"))
    return add_recompute(schedule, chosen, f"{schedule.name}, checkpoint {checkpoint}")


def add_recompute(schedule: Schedule, micro_batches: Container[int], name: str) -> Schedule:
    """`schedule`, under another name, with an R right before the backward of these micro-batches, on every stage, or
    before the block in which that backward runs."""
    backward_of, in_blocks = dict(schedule.pairs), {backward for _, backward in schedule.pairs}
    rows: list[list[Op]] = []
    for row in schedule.rows:
        ops: list[Op] = []
        for op in row:
            backward = backward_of.get(op, op)
            if backward.kind in "BI" and backward.micro_batch in micro_batches and op not in in_blocks:
                ops.append(Op("R", backward.micro_batch, backward.stage))
            ops.append(op)
        rows.append(ops)
    return Schedule(rows, name, schedule.pairs)


def with_kinds(schedule: Schedule, kinds: Mapping[str, str]) -> Schedule:
    """`schedule` with other ops in the place of some kinds: {"B": "C"}, {"B": "IW"}, or {"R": ""} to leave R out.

    A pair stays one where each of its ops is still one op.
    """

    def ops(op: Op) -> list[Op]:
        return [Op(kind, op.micro_batch, op.stage) for kind in kinds.get(op.kind, op.kind)]

    rows = [[new for op in row for new in ops(op)] for row in schedule.rows]
    pairs = [tuple(ops(forward) + ops(backward)) for forward, backward in schedule.pairs]
    return Schedule(rows, schedule.name, [(pair[0], pair[1]) for pair in pairs if len(pair) == 2])
