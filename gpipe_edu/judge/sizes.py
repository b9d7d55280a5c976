"""Schedules of a wrong size: which number was counted or taken wrongly.

What is wrong in every row alike says more than the first rule that it breaks, so this is asked before whether the
schedule can run.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpipe_edu import Op, Schedule
from gpipe_edu.base.words import join_words, plural

from .case import Sign
from .schedules import Proposal, about_rules


def about_size(mine: Proposal) -> Iterator[Sign]:
    """Another number of rows or micro-batches, or a stage that does not exist."""
    yield from _rows_counted_wrongly(mine)
    yield from _stages_named_wrongly(mine)
    yield from about_counts(mine, mine.K, mine.M)
    for op in mine.ops:
        yield Sign("other-K", op.stage >= mine.K, words={"K": mine.K, "last": mine.K - 1, "op": op, "stage": op.stage})


def about_counts(mine: Proposal, K: int, M: int) -> Iterator[Sign]:
    """Other than K rows, no ops at all, or other micro-batches than 0 to M - 1."""
    rows = mine.rows
    words = {"rows": plural(len(rows), "row"), "devices": plural(K, "device"), "M": M, "last": M - 1}
    yield Sign("rows", len(rows) != K, words=words)
    if not mine.ops:
        yield from about_rules(mine)
    named = sorted({int(op.micro_batch) for op in mine.ops})
    yield Sign("from-one", all(rows) and named == list(range(1, M + 1)), words=words)
    yield Sign("other-M", all(rows) and named != list(range(M)), words=words | {"named": join_words(named, len(named))})


def _rows_counted_wrongly(mine: Proposal) -> Iterator[Sign]:
    K, M, rows = mine.K, mine.M, mine.rows
    a_row_each = len(rows) == M != K
    yield Sign("by-micro-batch", a_row_each and all(len({op.micro_batch for op in row}) == 1 for row in rows))
    yield Sign("exchanged", a_row_each and _size(rows) == (M, K), words={"K": K, "M": M})
    last = rows[-K:]
    yield Sign(
        "left-over",
        len(rows) > K and _size(last) == (K, M) and _can_run(last) and _can_run(rows[:-K]),
        words={"K": K},
    )


def _stages_named_wrongly(mine: Proposal) -> Iterator[Sign]:
    K, M, rows = mine.K, mine.M, mine.rows
    if len(rows) == K > 1:
        yield Sign("stage-zero", all(rows) and {op.stage for op in mine.ops} == {0})
        by_row = all(op.micro_batch == device for device, row in enumerate(rows) for op in row)
        yield Sign("swapped", mine.schedule.stages == M and by_row)


def _size(rows: tuple[tuple[Op, ...], ...]) -> tuple[int, int]:
    """How many rows there are, and how many micro-batches, if row k holds stage k; else (0, 0)."""
    homes = [{op.stage for op in row} for row in rows]
    named = {op.micro_batch for row in rows for op in row}
    fits = homes == [{k} for k in range(len(rows))] and named == set(range(len(named)))
    return (len(rows), len(named)) if fits else (0, 0)


def _can_run(rows: tuple[tuple[Op, ...], ...]) -> bool:
    return not Schedule(rows).problems()
