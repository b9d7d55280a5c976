"""F-then-B in which every micro-batch is recomputed, early and one at a time.

On the last device the last micro-batch goes back at once, so nothing of it was thrown away: it needs no recompute.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from gpipe_edu import Costs, Schedule, formulas, gpipe, simulate
from gpipe_edu.judge.case import Exam, Sign
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.schedules import Proposal, about_homes, about_rules, about_size, judge_schedule, train_with
from gpipe_edu.timeline import peak_memory


def examine(exam: Exam, rng: Random) -> Success:
    """Small and random sizes; the digits are trained with some of them."""
    sizes = [(3, 4), (2, 3), (4, 2), (1, 3), (3, 1), (1, 1)]
    sizes += [(rng.randint(1, 6), rng.randint(1, 8)) for _ in range(12)]
    error = train_with(exam, lambda K, M: judge(exam, K, M), sizes, rng)
    mine, late = judge(exam, 4, 6), gpipe(4, 6, "late")
    faster = mine.stages * mine.micro_batches > len(_recomputed(mine))
    charts = Chart("your early recompute", str(mine)), Chart("late recompute", str(late))
    return exam.success(
        *charts, error=error, early=simulate(mine).makespan, late=simulate(late).makespan, faster=_FASTER * faster
    )


_FASTER: Final = (
    " You leave one R out, that of the last micro-batch on the last device. It goes back as soon as it has come, with "
    "all its activations there: the step is one R shorter for it."
)


def _recomputed(schedule: Schedule) -> set[tuple[int, int]]:
    return {(op.micro_batch, op.stage) for row in schedule.rows for op in row if op.kind in "RC"}


def judge(exam: Exam, K: int, M: int) -> Schedule:
    """Judge one size; returns the schedule."""
    return judge_schedule(exam, gpipe(K, M, "early"), "early", _signs)


def _signs(mine: Proposal) -> Iterator[Sign]:
    yield from about_size(mine)
    yield from about_rules(mine)
    yield from _beliefs_about_recompute(mine)
    yield from about_homes(mine)
    yield Sign("mixed-order", any("BF" in row.replace("R", "").replace("C", "B") for row in mine.kinds))
    yield from _beliefs_about_memory(mine)
    for F, R, B in ((1, 1, 2), (2, 2, 1), (1, 3, 2)):
        makespan = simulate(mine.schedule, Costs(F=F, R=R, B=B)).makespan
        best = formulas.makespan_early(mine.K, mine.M, F, B, R)
        yield Sign("too-slow", makespan > best, difference=f"makespan {makespan:g} instead of {best:g}")


def _beliefs_about_recompute(mine: Proposal) -> Iterator[Sign]:
    """Every micro-batch is recomputed on every stage, by an op of its own, or all but the one that need not be."""
    K, M = mine.K, mine.M
    by_c = mine.cells("C")
    yield Sign("late", any(stage < K - 1 for _, stage in by_c))
    yield Sign("late-on-last", bool(by_c))
    again = _recomputed(mine.schedule)
    spared = mine.cells("F") - again
    if spared != {(M - 1, K - 1)}:
        yield Sign("no-recompute", not again)
        yield Sign("last-stage-spared", K > 1 and spared == {(m, K - 1) for m in range(M)})
        yield Sign("except-last", M > 1 and spared == {(M - 1, k) for k in range(K)})
        yield Sign("some-spared", spared & mine.cells("B") not in (set(), {(M - 1, K - 1)}))
    yield Sign("split-backward", bool(mine.cells("I") & mine.cells("W")))


def _beliefs_about_memory(mine: Proposal) -> Iterator[Sign]:
    M, held = mine.M, max(peak_memory(simulate(mine.schedule)))
    if held > 1:
        first = f"a device holds the activations of {held:g} micro-batches at once"
        yield Sign("at-once", all(row == "FR" * M + "B" * M for row in mine.kinds), difference=first)
        yield Sign("all-first", all(row == "F" * M + "R" * M + "B" * M for row in mine.kinds), difference=first)
        yield Sign("two-at-once", difference=first)
