"""Every forward, then every backward, as a schedule that runs.

Any order of the backwards that does not make the step longer is right: the paper's, the opposite one, or another.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from gpipe_edu import Costs, Schedule, formulas, gpipe, simulate
from gpipe_edu.judge.case import Exam, Sign
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.schedules import Proposal, about_homes, about_rules, about_size, judge_schedule, train_with


def examine(exam: Exam, rng: Random) -> Success:
    """Small and random sizes; then the digits are trained with some of them."""
    sizes = [(3, 4), (2, 3), (1, 2), (4, 1), (1, 1), (4, 2)]
    sizes += [(rng.randint(1, 6), rng.randint(1, 8)) for _ in range(15)]
    error = train_with(exam, lambda K, M: judge(exam, K, M), sizes, rng)
    return exam.success(Chart("your F-then-B", str(judge(exam, 4, 6))), error=error)


def judge(exam: Exam, K: int, M: int) -> Schedule:
    """Judge one size; returns the schedule."""
    return judge_schedule(exam, gpipe(K, M), "F-then-B", _signs)


def _signs(mine: Proposal) -> Iterator[Sign]:
    yield from about_size(mine)
    yield from _beliefs_about_going_back(mine)
    yield from about_rules(mine)
    yield from about_homes(mine)
    yield Sign("other-kinds", any(set(row) != {"F", "B"} for row in mine.kinds))
    back_too_soon = ["BF" in row for row in mine.kinds]
    yield Sign("last-at-once", back_too_soon[-1] and not any(back_too_soon[:-1]))
    yield Sign("naive", any(back_too_soon) and all(row == "FB" * mine.M for row in mine.kinds))
    yield Sign("mixed-order", any(back_too_soon))
    yield from _beliefs_about_orders(mine)


def _beliefs_about_going_back(mine: Proposal) -> Iterator[Sign]:
    """What is wrong in every row alike says more than the first rule that it breaks."""
    K, M = mine.K, mine.M
    if K > 1:
        homes = [{op.stage for op in row if op.kind == kind} for kind in "FB" for row in mine.rows]
        yield Sign("mirrored", homes == [{k} for k in range(K)] + [{K - 1 - k} for k in range(K)])
        lacking = {(m, k) for m in range(M) for k in range(K)} - mine.cells("B")
        yield Sign("stops-at-one", M > 1 and lacking == {(0, k) for k in range(K)})


def _beliefs_about_orders(mine: Proposal) -> Iterator[Sign]:
    """Devices that agree neither on the order of their forwards nor on that of their backwards wait for each other."""
    makespan, best = _makespan(mine.schedule), formulas.makespan(mine.K, mine.M, 1, 2)
    in_order = Schedule([sorted(row[: mine.M]) + list(row[mine.M :]) for row in mine.rows])
    words = {"makespan": makespan, "best": best}
    yield Sign("forward-orders", makespan > best and _makespan(in_order) < makespan, words=words)
    yield Sign("backward-orders", makespan > best, words=words)


def _makespan(schedule: Schedule) -> float:
    return simulate(schedule, Costs(F=1, B=2)).makespan
