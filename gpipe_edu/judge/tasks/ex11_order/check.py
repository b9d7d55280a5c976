"""ZB-H1, judged by what it promises: I and W apart, no more micro-batches than device 0 of 1F1B, and its makespan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

from gpipe_edu import Costs, Op, Schedule, Timeline, formulas, one_f_one_b, simulate, zero_bubble
from gpipe_edu.base.words import join_words, plural
from gpipe_edu.judge.case import Exam, Sign
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.schedules import Proposal, about_homes, about_rules, about_size, judge_schedule, train_with


def examine(exam: Exam, rng: Random) -> Success:
    """Small sizes with M at least K, random ones; then digits are trained."""
    sizes = [(3, 5), (4, 8), (1, 3), (2, 2), (3, 3), (1, 1)]
    for _ in range(8):
        K = rng.randint(1, 6)
        sizes.append((K, rng.randint(K, 12)))
    error = train_with(exam, lambda K, M: judge(exam, K, M), sizes, rng)
    schedule = judge(exam, 4, 8)
    timeline = simulate(schedule)
    charts = Chart("your ZB-H1", str(schedule)), Chart("1F1B", str(one_f_one_b(4, 8)))
    return exam.success(*charts, error=error, idle=timeline.idle(0), held=max(timeline.peak_in_flight))


def judge(exam: Exam, K: int, M: int) -> Schedule:
    """Judge one size; returns the schedule."""
    return judge_schedule(exam, zero_bubble(K, M), "ZB-H1", _signs, any_order=False)


def _signs(mine: Proposal) -> Iterator[Sign]:
    yield from about_size(mine)
    letters = {op.kind for op in mine.ops}
    yield Sign("not-split", "B" in letters)
    yield Sign("no-w", "I" in letters and "W" not in letters)
    stuck = any(problem.code == "deadlock" for problem in mine.schedule.problems()[:1])
    yield Sign("reversed-warm-up", stuck and _warm_ups(mine) == [min(mine.M, k + 1) for k in range(mine.K)])
    yield from about_rules(mine)
    yield from about_homes(mine)
    others = sorted(letters - set("FIW"))
    yield Sign("other-kinds", bool(others), words={"others": join_words(others)})
    yield from _beliefs_about_memory(mine)
    yield from _beliefs_about_pace(mine)


def _warm_ups(mine: Proposal) -> list[int]:
    """How many forwards each row starts with."""
    return [len(row) - len(row.lstrip("F")) for row in mine.kinds]


def _delay(row: Sequence[Op]) -> int:
    """By how many micro-batches the row is late with its W's, at most."""
    waiting, most = 0, 0
    for op in row:
        waiting += (op.kind == "I") - (op.kind == "W")
        most = max(most, waiting)
    return most - 1


def _beliefs_about_memory(mine: Proposal) -> Iterator[Sign]:
    K, M = mine.K, mine.M
    peaks, cap, ahead = simulate(mine.schedule).peak_in_flight, min(mine.M, mine.K), _warm_ups(mine)
    delays = list(map(_delay, mine.rows))
    expected_ahead = [min(M, K - k) for k in range(K)]
    for k in [k for k in range(K) if peaks[k] > cap][:1]:
        first = f"device {k} holds up to {peaks[k]} micro-batches instead of {cap}"
        words = {"device": k, "held": peaks[k], "cap": cap, "delay": max(delays)}
        goes_back_late = K > 1 and all(row.startswith("F" * M) for row in mine.kinds)
        yield Sign("f-then-b", goes_back_late, difference=first)
        yield Sign("all-w-last", all(row.endswith("W" * M) for row in mine.kinds), difference=first)
        h2 = [min(M, 2 * (K - 1 - k) + 1) for k in range(K)]
        yield Sign("h2", K > 1 and ahead == h2 and delays == [min(M - 1, 2 * k) for k in range(K)], difference=first)
        at_pace = ahead == expected_ahead
        alike = K > 1 and at_pace and len(set(delays)) == 1 and delays[0] > 0
        yield Sign("same-delay", alike, difference=first, words=words)
        reverse = [min(M - 1, K - 1 - k) for k in range(K)]
        yield Sign("reversed-delay", K > 1 and at_pace and delays == reverse, difference=first)
        yield Sign("w-behind-f", at_pace and any("IFW" in row for row in mine.kinds), difference=first)
        words |= {"ahead": ahead[k], "right": expected_ahead[k]}
        yield Sign("more-ahead", ahead[k] > expected_ahead[k], difference=first, words=words)
        late = {"late": plural(delays[k], "micro-batch"), "room": k}
        yield Sign("too-late", at_pace and delays[k] > k, difference=first, words={**words, **late})
        yield Sign("holds-too-much", difference=first, words=words)


def _beliefs_about_pace(mine: Proposal) -> Iterator[Sign]:
    K, M = mine.K, mine.M
    for F, I, W in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (3, 3, 2)):  # noqa: E741
        costs = Costs(F=F, B=I + W, I=I, W=W)
        timeline = simulate(mine.schedule, costs)
        makespan = timeline.makespan
        best = formulas.makespan_zero_bubble(K, M, F, I, W)
        if makespan > best:
            first = f"makespan {makespan:g} instead of {best:g} (F = {F}, I = {I}, W = {W})"
            yield Sign("no-warm-up", all(row.startswith("FI") for row in mine.kinds), difference=first)
            at_once = all(row.count("IW") == M for row in mine.kinds)
            for k, ahead in enumerate(_warm_ups(mine)):
                words = {"device": k, "ahead": plural(ahead, "forward"), "right": K - k}
                yield Sign("fewer-ahead", ahead < min(M, K - k), difference=first, words=words)
            yield Sign("w-at-once", at_once, difference=first)
            yield Sign("w-before-i", _is_faster_with_i_first(mine, costs, makespan), difference=first)
            for k, held in enumerate(timeline.peak_in_flight):
                words = {"device": k, "held": held, "cap": K}
                yield Sign("w-too-early", held < K, difference=first, words=words)
            for k in range(K):
                for words in _waits_beside_a_w(timeline, k):
                    yield Sign("w-too-late", difference=first, words=words)
            yield Sign("too-slow", difference=first)


def _is_faster_with_i_first(mine: Proposal, costs: Costs, makespan: float) -> bool:
    """Whether the step is shorter if a W that follows an F or a W lets the I behind it go first."""
    rows = [list(row) for row in mine.rows]
    for row in rows:
        while match := re.search("(?<=[FW])WI", "".join(op.kind for op in row)):
            row[slice(*match.span())] = reversed(row[slice(*match.span())])
    i_first = Schedule(rows)
    return not i_first.problems() and simulate(i_first, costs).makespan < makespan


def _waits_beside_a_w(timeline: Timeline, device: int) -> Iterator[dict[str, object]]:
    """The gaps of a device that a W whose turn comes later could fill."""
    bars = timeline.row(device)
    for bar, following in pairwise(bars):
        done, rest = ([one for one in bars if (one.start < following.start) == early] for early in (True, False))
        waiting = {one.op.micro_batch for one in done if one.op.kind == "I"}
        late = [one.op.micro_batch for one in rest if one.op.kind == "W" and one.op.micro_batch in waiting]
        if late and following.start > bar.end:
            yield {"device": device, "start": f"{bar.end:g}", "end": f"{following.start:g}", "m": late[0]}
