"""Schedules of a wrong size: which number was counted or taken wrongly.

What is wrong in every row alike says more than the first rule that it breaks, so this is asked before whether the
schedule can run.
"""

from __future__ import annotations

from gpipe_edu import Op, Schedule

from .schedules import Answer, judge_legal


def judge_size(answer: Answer) -> None:
    """Raise Wrong for another number of rows or micro-batches, or for a stage that does not exist."""
    schedule, K, M = answer.schedule, answer.K, answer.M
    _judge_rows(answer)
    _judge_stages(answer)
    if schedule.devices != K:
        raise answer.wrong("rows", f"There are {schedule.devices} rows, but {K} device{'s' * (K != 1)}.")
    if not answer.ops:
        judge_legal(answer)
    named = sorted({int(op.micro_batch) for op in answer.ops})
    if all(schedule.rows) and named != list(range(M)):
        if named == list(range(1, M + 1)):
            because = f"Micro-batches are counted from 0 to M - 1, here from 0 to {M - 1}; yours go from 1 to {M}."
            raise answer.wrong("from-one", because)
        because = f"There are {M} micro-batches, 0 to {M - 1}; the ops name {', '.join(map(str, named))}."
        raise answer.wrong("other-M", because)
    beyond = next((op for op in answer.ops if op.stage >= K), None)
    if beyond:
        because = f"There are {K} stages, 0 to {K - 1}, one on each device; {beyond} names stage {beyond.stage}."
        raise answer.wrong("other-K", because)


def _judge_rows(answer: Answer) -> None:
    K, M, rows = answer.K, answer.M, answer.schedule.rows
    if len(rows) == M != K and all(len({op.micro_batch for op in row}) == 1 for row in rows):
        raise answer.wrong("by-micro-batch", "There is a row for each micro-batch. A row is what one *device* runs.")
    if len(rows) == M != K and _size(rows) == (M, K):
        because = f"This is a schedule for {M} devices and {K} micro-batches: K and M are the wrong way round."
        raise answer.wrong("exchanged", because)
    if len(rows) > K and _size(rows[-K:]) == (K, M) and _can_run(rows[-K:]) and _can_run(rows[:-K]):
        because = (
            f"The last {K} rows are those that were asked for, and there are others in front of them. A list that is "
            "made outside of the function keeps what earlier calls have put into it."
        )
        raise answer.wrong("left-over", because)


def _judge_stages(answer: Answer) -> None:
    K, M, ops, rows = answer.K, answer.M, answer.ops, answer.schedule.rows
    if len(rows) != K or K == 1:
        return
    if {op.stage for op in ops} == {0}:
        because = "Every op says stage 0. The third entry of an op is its stage, here the device's number."
        raise answer.wrong("stage-zero", because)
    if answer.schedule.stages == M and all(op.micro_batch == device for device, row in enumerate(rows) for op in row):
        because = "Micro-batch and stage are the wrong way round: `ge.Op(kind, micro_batch, stage)`."
        raise answer.wrong("swapped", because)


def _size(rows: tuple[tuple[Op, ...], ...]) -> tuple[int, int]:
    """How many rows there are, and how many micro-batches, if row k holds stage k; else (0, 0)."""
    homes = [{op.stage for op in row} for row in rows]
    named = {op.micro_batch for row in rows for op in row}
    fits = homes == [{k} for k in range(len(rows))] and named == set(range(len(named)))
    return (len(rows), len(named)) if fits else (0, 0)


def _can_run(rows: tuple[tuple[Op, ...], ...]) -> bool:
    return not Schedule(rows).problems()
