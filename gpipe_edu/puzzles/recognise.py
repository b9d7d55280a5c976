"""What the schedule you built is called, if it is a known one.

Only schedules that equal a recipe's, op by op, get its name. Small boards often equal several at once; then all are
named, because at that size they are the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpipe_edu.schedule import Op, Schedule, gpipe, interleaved, naive, one_f_one_b, zero_bubble
from gpipe_edu.schedule.recompute import with_kinds, with_recompute

_RECOMPUTE = {"always": "with early recompute", "except_last": "with early recompute of all but the last micro-batch"}


def recognise(schedule: Schedule) -> tuple[str, ...]:
    """Every name of `schedule`; () if it has none."""
    return tuple(dict.fromkeys(name for name, known in _known(schedule) if known == schedule))


def _known(schedule: Schedule) -> Iterator[tuple[str, Schedule]]:
    """All known schedules of the same size, by name."""
    D, K, M = schedule.devices, schedule.stages, schedule.micro_batches
    plain: list[tuple[str, Schedule]] = []
    if D == K:
        plain = [
            ("model parallelism without a pipeline", naive(K, M)),
            ("GPipe", gpipe(K, M)),
            ("GPipe with its backwards in first-in-first-out order", _first_in_first_out(gpipe(K, M))),
            ("1F1B", one_f_one_b(K, M)),
            ("ZB-H1 (zero bubble)", zero_bubble(K, M)),
        ]
        plain += [
            (f"GPipe, {size} micro-batches at a time", _in_groups(gpipe(K, size), M))
            for size in range(2, M)
            if M % size == 0
        ]
    elif K % D == 0:
        plain = [(f"interleaved 1F1B with {K // D} stages per device", interleaved(D, M, K // D))]
    yield from plain
    for name, known in plain:
        variants = [(f"{name} {words}", with_recompute(known, checkpoint)) for checkpoint, words in _RECOMPUTE.items()]
        variants.append((f"{name} with late recompute", with_kinds(known, {"B": "C"})))
        variants.append((f"{name} with every backward divided, W right after I", with_kinds(known, {"B": "IW"})))
        # A variant that changes nothing, such as recomputing all but the last of one micro-batch, is skipped.
        yield from ((words, variant) for words, variant in variants if variant != known)


def _first_in_first_out(schedule: Schedule) -> Schedule:
    """GPipe with the backwards of each device in the order of its forwards."""
    return Schedule([sorted(row, key=lambda op: (op.kind != "F", op.micro_batch)) for row in schedule.rows])


def _in_groups(group: Schedule, M: int) -> Schedule:
    """`group` again and again, until M micro-batches are done."""
    size = group.micro_batches
    return Schedule(
        [
            [Op(op.kind, op.micro_batch + first, op.stage) for first in range(0, M, size) for op in row]
            for row in group.rows
        ]
    )
