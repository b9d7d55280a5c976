"""Interleaved 1F1B, judged by what it promises: where stages are, how much a device holds, and its makespan."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

from gpipe_edu import Costs, Op, Schedule, formulas, simulate
from gpipe_edu import interleaved as recipe
from gpipe_edu.base.words import join_words
from gpipe_edu.judge.case import Exam, Sign
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.schedules import Proposal, about_counts, about_rules, gradient_error, in_short, read, show, stop_of


def examine(exam: Exam, rng: Random) -> Success:
    """Small sizes, V = 1 too, random ones, a large V, large K and M; digits are trained, the idle time is told."""
    sizes = [(3, 6, 2), (4, 8, 2), (2, 2, 2), (2, 4, 3), (3, 3, 1), (1, 2, 2), (1, 1, 1), (4, 4, 4)]
    for _ in range(9):
        K = rng.randint(1, 5)
        sizes.append((K, K * rng.randint(1, 4), rng.randint(1, 4)))
    schedules = [judge(exam, *size) for size in sizes]
    small = [schedule for schedule in schedules if schedule.stages * schedule.micro_batches <= 24]
    error = max(gradient_error(schedule, rng) for schedule in small)
    V = rng.randint(5, 8)
    with exam.blame_on("small-V", V=V):
        judge(exam, 3, 6, V)
    K = rng.randint(9, 12)
    with exam.blame_on("only-small", K=K, M=4 * K):
        judge(exam, K, 4 * K, 4)
    mine = {V: judge(exam, 4, 8, V) for V in (1, 2, 4)}
    idle = [simulate(schedule, Costs(F=1 / V, B=2 / V)).idle(0) for V, schedule in mine.items()]
    return exam.success(Chart("yours, V = 2", str(mine[2])), error=error, idle=join_words(f"{time:g}" for time in idle))


def judge(exam: Exam, K: int, M: int, V: int) -> Schedule:
    """Judge one size; returns the schedule."""
    right = recipe(K, M, V)
    case = exam.case(f"interleaved(K={K}, M={M}, V={V})", in_short(right, K * M * V))
    by_the_rule = 2 * (K - 1) + (V - 1) * K
    case.words = {"ahead": by_the_rule, "all": M * V}
    traps = dict.fromkeys(("ValueError", "IndexError"), "few-forwards") if by_the_rule > M * V else None
    schedule = read(case, case.ask(traps, K=K, M=M, V=V))
    case.words = {"stop": stop_of(schedule)}
    proposal = Proposal(schedule, right, K, M * V, "interleaved")
    show(case, proposal)
    case.judge(_signs(proposal, K, M, V))
    return schedule


def _signs(mine: Proposal, K: int, M: int, V: int) -> Iterator[Sign]:
    yield from _about_size(mine, K, M, V)
    yield from _about_homes(mine, K, V)
    done = [mine.order(k, "B") for k in range(K)]
    drained = all(0 < len(row) < M * V for row in done)
    yield Sign("no-drain", drained and [len(mine.order(k, "F")) for k in range(K)] == [M * V] * K)
    yield Sign("backward-order", V > 1 and bool(mine.schedule.problems()) and _goes_back_upwards(mine, K, M, V))
    if mine.schedule.problems():
        yield Sign("breadth-first", V > 1 and K < M and _all_at_once(mine))
        yield Sign("one-at-a-time", V > 1 and M > 1 and _one_by_one(mine))
        yield from _about_short_warm_ups(mine, K, M, V)
    others = sorted({op.kind for op in mine.ops} - set("FB"))
    yield Sign("other-kinds", bool(others), words={"others": join_words(others)})
    yield from about_rules(mine)
    yield from _about_memory(mine, K, M, V)
    yield from _about_pace(mine, K, M, V)


def _about_size(mine: Proposal, K: int, M: int, V: int) -> Iterator[Sign]:
    rows = mine.rows
    yield Sign("row-per-stage", len(rows) == K * V != K)
    last = rows[-K:]
    full = len(rows) > K and {op.stage for row in last for op in row} == set(range(K * V))
    yield Sign("left-over", full and not Schedule(last).problems(), words={"K": K})
    exchanged = [{(op.kind, op.stage, op.micro_batch) for op in row} for row in rows]
    whole = [{(kind, m, v * K + k) for kind in "FB" for m in range(M) for v in range(V)} for k in range(K)]
    yield Sign("swapped", K > 1 and exchanged == whole)
    yield from about_counts(mine, K, M)
    stages = sorted({int(op.stage) for op in mine.ops})
    words = {"last": K * V - 1, "named": join_words(stages, len(stages))}
    yield Sign("one-round", V > 1 and stages == list(range(K)), words=words)
    alike = all({op.stage for op in row} == set(range(V)) for row in rows)
    yield Sign("stage-per-device", K > 1 and alike, words=words)
    yield Sign("other-stages", all(rows) and stages != list(range(K * V)), words=words)


def _about_homes(mine: Proposal, K: int, V: int) -> Iterator[Sign]:
    homes = [{int(op.stage) for op in row} for row in mine.rows]
    several = K > 1 and V > 1
    yield Sign("contiguous", several and homes == [set(range(k * V, k * V + V)) for k in range(K)])
    shape = [{v * K + (K - 1 - k if v % 2 else k) for v in range(V)} for k in range(K)]
    yield Sign("v-shape", several and homes == shape)
    strangers = [(op, device) for device, row in enumerate(mine.rows) for op in row if op.stage % K != device]
    for op, device in strangers[:1]:
        yield Sign("other-homes", words={"op": op, "device": device})


def _goes_back_upwards(mine: Proposal, K: int, M: int, V: int) -> bool:
    """Whether the backwards of some device begin with its first stage and end with its last."""
    backs = ([op.stage // K for op in row if op.kind == "B"] for row in mine.rows)
    return any(row[:1] == [0] and row[-1:] == [V - 1] for row in backs)


def _ahead(K: int, M: int, V: int, k: int) -> int:
    """The forwards of the warm-up of device k."""
    return min(M * V, 2 * (K - 1 - k) + (V - 1) * K)


def _begins(row: str) -> int:
    """How many forwards it starts with."""
    return len(row) - len(row.lstrip("F"))


def _all_at_once(mine: Proposal) -> bool:
    """Whether each device runs all forwards of one stage before those of the next."""
    stages = [[op.stage for op in row if op.kind == "F"] for row in mine.rows]
    return all(row == sorted(row) for row in stages)


def _one_by_one(mine: Proposal) -> bool:
    """Whether each micro-batch runs forward on all stages of a device before the next one does."""
    return all(order == sorted(order) for order in (mine.order(k, "F") for k in range(mine.K)))


def _about_short_warm_ups(mine: Proposal, K: int, M: int, V: int) -> Iterator[Sign]:
    """For a schedule that cannot run: whether its warm-ups are the reason, and not one forward that comes too late."""
    for k, row in enumerate(mine.kinds):
        needed = min(M * V, K - 1 - k + (V - 1) * K)
        yield Sign("too-few-ahead", _begins(row) < needed, words={"device": k, "ahead": _begins(row) - 1})


def _about_memory(mine: Proposal, K: int, M: int, V: int) -> Iterator[Sign]:
    peaks = simulate(mine.schedule).peak_in_flight
    for k in range(K):
        allowed = min(M * V, _ahead(K, M, V, k) + 1)
        if peaks[k] > allowed:
            sign = partial(Sign, difference=f"device {k} holds up to {peaks[k]} instead of {allowed}")
            words = {"device": k, "held": peaks[k], "ahead": _begins(mine.kinds[k]) - 1}
            yield sign("breadth-first", V > 1 and K < M and _all_at_once(mine))
            yield sign("f-then-b", not any("BF" in row for row in mine.kinds))
            in_turn = "BBF" not in mine.kinds[k]  # else it begins with forwards that belong to no warm-up
            yield sign("deeper-than-allowed", in_turn and _begins(mine.kinds[k]) > allowed, words=words)
            yield sign("holds-too-much", words=words)


def _about_pace(mine: Proposal, K: int, M: int, V: int) -> Iterator[Sign]:
    for F, B in ((1, 2), (1, 1), (2, 1)):
        makespan, best = simulate(mine.schedule, Costs(F=F, B=B)).makespan, formulas.makespan_interleaved(K, M, V, F, B)
        if makespan > best:
            sign = partial(Sign, difference=f"makespan {makespan:g} instead of {best:g} (F = {F}, B = {B})")
            yield sign("one-at-a-time", V > 1 and not _in_groups(mine, K))
            for k, row in enumerate(mine.kinds):
                ahead = _begins(row) - 1
                short = ahead < min(M * V - 1, K - 1 - k + (V - 1) * K)
                yield sign("too-few-ahead", short, words={"device": k, "ahead": ahead})
            yield sign("too-slow")


def _in_groups(mine: Proposal, K: int) -> bool:
    """Whether each device runs K forwards on one stage before it begins with the next."""

    def forwards(row: tuple[Op, ...]) -> list[int]:
        return [op.stage for op in row if op.kind == "F"]

    return all(len(set(found[:K])) == 1 for found in map(forwards, mine.rows))
