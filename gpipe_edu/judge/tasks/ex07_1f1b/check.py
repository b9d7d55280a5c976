"""1F1B, judged by what it promises: it alternates, holds few micro-batches, and takes no longer (with even stages).

These promises, for every K and M and for several ratios of F and B, leave one schedule; how to make it is left open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from gpipe_edu import Costs, Op, Schedule, formulas, gpipe, simulate
from gpipe_edu.base.words import join_words
from gpipe_edu.judge.case import Exam, Sign
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.schedules import Proposal, about_homes, about_rules, about_size, judge_schedule, train_with


def examine(exam: Exam, rng: Random) -> Success:
    """Small sizes with M below and above K, random ones; then digits are trained."""
    sizes = [(3, 5), (4, 2), (1, 3), (3, 1), (2, 2), (4, 8), (1, 1)]
    sizes += [(rng.randint(1, 7), rng.randint(1, 12)) for _ in range(15)]
    error = train_with(exam, lambda K, M: judge(exam, K, M), sizes, rng)
    schedule = judge(exam, 4, 8)
    charts = Chart("your 1F1B", str(schedule)), Chart("F-then-B", str(gpipe(4, 8)))
    return exam.success(*charts, error=error, held=join_words(simulate(schedule).peak_in_flight))


def judge(exam: Exam, K: int, M: int) -> Schedule:
    """Judge one size; returns the schedule."""
    traps = dict.fromkeys(("ValueError", "IndexError", "StopIteration"), "few-micro-batches") if M < K else None
    return judge_schedule(exam, _rule(K, M), "1F1B", _signs, traps, any_order=False)


def _rule(K: int, M: int) -> Schedule:
    """The schedule that the promises leave, for charts and differences."""
    rows = []
    for k in range(K):
        row, forwards, backwards = [], 0, 0
        while backwards < M:
            ahead = forwards - backwards
            if forwards < M and ahead < K - k:
                row.append(Op("F", forwards, k))
                forwards += 1
            else:
                row.append(Op("B", backwards, k))
                backwards += 1
        rows.append(row)
    return Schedule(rows)


def _signs(mine: Proposal) -> Iterator[Sign]:
    yield from _beliefs_about_the_end(mine)
    yield from about_size(mine)
    yield from _belief_about_direction(mine)
    yield from about_rules(mine)
    yield from about_homes(mine)
    others = sorted({op.kind for op in mine.ops} - set("FB"))
    yield Sign("other-kinds", any(set(row) != {"F", "B"} for row in mine.kinds), words={"others": join_words(others)})
    yield from _beliefs_about_memory(mine)
    yield from _beliefs_about_order(mine)
    yield from _beliefs_about_pace(mine)


def _beliefs_about_the_end(mine: Proposal) -> Iterator[Sign]:
    """A loop that goes on too long, or stops when the forwards do."""
    K, M = mine.K, mine.M
    if mine.schedule.devices == K:
        named = {op.micro_batch for op in mine.ops}
        yield Sign("beyond-M", max(named, default=0) >= M and named != set(range(1, M + 1)))
        drained = [list(range(M - min(M, K - 1 - k))) for k in range(K)]
        yield Sign("no-drain", K > 1 and [mine.order(k, "B") for k in range(K)] == drained)


def _warm_ups(mine: Proposal) -> list[int]:
    """How many forwards each row starts with."""
    return [len(row) - len(row.lstrip("F")) for row in mine.kinds]


def _belief_about_direction(mine: Proposal) -> Iterator[Sign]:
    stuck = any(problem.code == "deadlock" for problem in mine.schedule.problems()[:1])
    yield Sign("reversed", stuck and _warm_ups(mine) == [min(mine.M, k + 1) for k in range(mine.K)])


def _beliefs_about_memory(mine: Proposal) -> Iterator[Sign]:
    K, M, kinds, ahead = mine.K, mine.M, mine.kinds, _warm_ups(mine)
    peaks = simulate(mine.schedule).peak_in_flight
    allowed = [min(M, K - k) for k in range(K)]
    for k in [k for k in range(K) if peaks[k] > allowed[k]][:1]:
        first = f"device {k} holds up to {peaks[k]} micro-batches instead of {allowed[k]}"
        yield Sign("f-then-b", not any("BF" in row for row in kinds), difference=first)
        yield Sign("blocks", "BBF" in kinds[k], difference=first)
        yield Sign("round-trip", K > 1 and ahead == [min(M, 2 * (K - k) - 1) for k in range(K)], difference=first)
        yield Sign("one-more", ahead == [min(M, K - k + 1) for k in range(K)], difference=first)
        yield Sign("same-warm-up", K > 1 and len(set(ahead)) == 1, difference=first)
        yield Sign("holds-too-much", difference=first)


def _beliefs_about_order(mine: Proposal) -> Iterator[Sign]:
    for device, row in enumerate(mine.rows):
        back = join_words((f"B{m}" for m in mine.order(device, "B")), mine.M)
        yield Sign("newest-first", _is_stack(row), difference=f"device {device} goes back in the order {back}")
    in_order = list(range(mine.M))
    yield Sign("out-of-turn", any(mine.order(k, kind) != in_order for k in range(mine.K) for kind in "FB"))


def _is_stack(row: Sequence[Op]) -> bool:
    """Whether each backward takes the newest micro-batch there is, at least once out of several."""
    held: list[int] = []
    several = False
    for op in row:
        if op.kind == "F":
            held.append(op.micro_batch)
        elif held.pop() != op.micro_batch:
            return False
        else:
            several = several or bool(held)
    return several


def _beliefs_about_pace(mine: Proposal) -> Iterator[Sign]:
    K, M, ahead = mine.K, mine.M, _warm_ups(mine)
    for F, B in ((1, 2), (1, 1), (2, 1)):
        makespan, best = simulate(mine.schedule, Costs(F=F, B=B)).makespan, formulas.makespan(K, M, F, B)
        if makespan > best:
            first = f"makespan {makespan:g} instead of {best:g} (F = {F}, B = {B})"
            yield Sign("no-warm-up", all(row == "FB" * M for row in mine.kinds), difference=first)
            yield Sign("one-less", ahead == [min(M, max(1, K - k - 1)) for k in range(K)], difference=first)
            yield Sign("too-slow", difference=first)
