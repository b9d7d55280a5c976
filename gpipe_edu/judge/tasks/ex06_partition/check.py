"""Is this cut of layers into stages the one whose slowest stage is fastest?

Any of the best cuts is right. That no cut is better is shown for each answer by filling stages, which takes as few as
possible; so neither a table nor our own solution decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import balance_by_cost, balance_uniform, gpipe
from gpipe_edu import reference as ref
from gpipe_edu.base.words import join_words
from gpipe_edu.data import digits
from gpipe_edu.judge.case import Case, Exam, Sign, Traps, Wrong
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.guest.forms import describe, is_whole
from gpipe_edu.process.plain import a_name_of

from .cuts import Balance, Costs, beliefs_behind, can_be_faster, stage_costs

_PROBES: Final[tuple[tuple[list[float], int], ...]] = (
    ([5, 1, 1, 1, 1, 1, 1, 5], 3),
    ([1, 1, 3, 5, 1], 3),
    ([4, 0, 0, 6, 2, 0, 7, 3], 4),
    ([1, 1, 1, 9, 1, 1, 1], 3),
    ([2, 7, 1, 8, 2, 8, 1, 8], 4),
    ([9, 1, 8, 2, 7, 3], 3),
    ([5, 9, 3, 4, 7, 3, 3], 4),
    ([1, 9, 2, 0, 7, 2, 2, 3], 4),
    ([3, 5], 2),
    ([6, 2, 4], 1),
    ([0, 0, 5], 3),
)
"""Small enough to see on paper what would be better. Zeros are what activations cost."""

_CLOSE: Final[tuple[tuple[list[float], int], ...]] = (
    ([4444, 4444, 10000, 8887, 10000], 3),
    ([10000, 9331, 10000, 4666, 4666], 3),
    ([4444, 4444, 41112, 8887, 41113], 3),
    ([4444444, 4444444, 10000000, 8888887, 10000000], 3),
    ([10000000, 8888887, 10000000, 4444444, 4444444], 3),
    ([10000000, 9333331, 10000000, 4666666, 4666666], 3),
    ([200000000, 200000002, 299999999], 2),
    ([299999999, 100000001, 200000000, 200000002, 299999999], 3),
    ([16777217, 5, 16777216], 2),
    ([16777216, 7, 16777217], 2),
)
"""The second best cut is worse by 1. Fewer digits reverse that: 8887 is less than 4444 + 4444, 8.9 is more than
4.4 + 4.4; and 9331 is less than 4666 + 4666, 9.3 is more than 4.6 + 4.6."""

_UNITS: Final = (
    (0.001, "0.001", "whole-numbers"),
    (2.0**-40, "2**-40", "fixed-unit"),
    (2.0**40, "2**40", "not-infinite"),
)
"""factor, how it is written, slip. The powers of two change no digit of a sum."""


def examine(exam: Exam, rng: Random) -> Success:
    """Small lists that tell the beliefs apart, other units, large and random ones, refusals, and a real network."""
    drawn = [([rng.randint(0, 9) + 0.0 for _ in range(rng.randint(5, 8))], rng.randint(2, 4)) for _ in range(6)]
    _judge_together(exam, [*_PROBES, *drawn])
    for factor, written, slip in _UNITS:
        with exam.blame_on(slip):
            for costs, K in _PROBES[:5]:
                call = f"partition([cost * {written} for cost in {_write_costs(costs)}], K={K})"
                _judge(exam, [cost * factor for cost in costs], K, call, {"stopped": slip})
    with exam.blame_on("nearly-best"):
        for costs, K in _CLOSE:
            _judge(exam, costs, K)
    with exam.blame_on("too-large"):
        _judge(exam, [3_000_000_000, 2_000_000_000, 1], 2)
    with exam.blame_on("remembers"):
        for costs, before in (([9.0, 1.0, 1.0], None), ([1.0, 1.0, 9.0], [9.0, 1.0, 1.0]), ([1.0, 9.0, 1.0], None)):
            _judge(exam, costs, 2, before=before)
    with exam.blame_on("long-runs"):
        for K in (1, 2):
            _judge(exam, [1.0] * 64, K)
    with exam.blame_on("all-zero"):
        _ask(exam, [0, 0, 0, 0], 2)
    for _ in range(12):
        L = rng.randint(1, 12)
        _judge(exam, [rng.choice([0.0, rng.random()]) for _ in range(L)], rng.randint(1, L))
    for K, L, slip in (
        (4, 3, "more-stages-than-layers"),
        (0, 3, "no-stages"),
        (-1, 3, "no-stages"),
        (1, 0, "no-layers"),
    ):
        costs = [float(rng.randint(1, 9)) for _ in range(L)]
        case = exam.case(f"partition({_write_costs(costs)}, K={K})")
        case.refuses(Sign(slip, words={"K": K}), lambda value: describe(value[0], 120), costs=costs, K=K)
    for L, K in ((60, 6), (200, 16)):
        _judge(exam, [rng.randint(1, 1000) / 8 for _ in range(L)], K)
    with exam.blame_on("near-even-cuts"):
        for L, K in ((60, 6), (200, 16)):
            _judge(exam, [float(rng.randint(1, 8) * 1.1**layer // 1) for layer in range(L)], K)
    with exam.blame_on("many-stages"):
        _judge(exam, [rng.randint(1, 1000) / 8 for _ in range(100)], 40)
    return _train(exam, rng)


def _ask(
    exam: Exam,
    costs: Costs,
    K: int,
    call: str = "",
    traps: Traps | None = None,
    before: list[float] | None = None,
) -> tuple[Case, Balance]:
    """Ask, and judge all but whether the cut is a good one."""
    L, slow = len(costs), {"stopped": "every-cut"} if len(costs) > 20 else {}
    call = call or f"partition({_write_costs(costs)}, K={K})"
    case = exam.case(call, f"a list of {K} whole numbers that add up to {L}")
    value, after = case.ask({"ValueError": "refused", **slow, **(traps or {})}, costs=costs, K=K, before=before)
    case.came = describe(value, 120)
    case.judge(_form(value, costs, K))
    case.judge([Sign("input-changed", list(costs) != after)])
    return case, Balance(costs, K, tuple(map(int, value)))


def _form(value: Any, costs: Costs, K: int) -> Iterator[Sign]:
    """Does it tell how many layers each stage has? What people hand back instead has a name each."""
    L = len(costs)
    yield Sign("no-return", value is None, came="None")
    yield Sign("not-a-list", not isinstance(value, list), words={"kind": a_name_of(value)})
    yield Sign("groups", any(isinstance(item, list | tuple | np.ndarray) for item in value))
    yield Sign("not-counts", not all(is_whole(item) or isinstance(item, float | np.floating) for item in value))
    total, bounds = sum(value), f"the counts must add up to {L}"
    is_the_cost = len(value) == K and total != L and any(value) and np.isclose(float(total), sum(costs))
    yield Sign("stage-costs", bool(is_the_cost))
    yield Sign("fractions", not all(map(is_whole, value)))
    rising = bool(value) and all(a < b for a, b in pairwise(value))
    ends = rising and total != L and (value[0] == 0 or value[-1] == L or len(value) == K - 1)
    yield Sign("places", ends, difference=bounds)
    yield Sign("fewer-stages", len(value) < K, difference=f"{len(value)} instead of {K}")
    yield Sign("more-stages", len(value) > K, difference=f"{len(value)} stages instead of {K}")
    for k, count in enumerate(value):
        yield Sign("empty-stage", count < 1, difference=f"stage {k} has {count}")
    yield Sign("layers-lost", total < L, difference=f"{total} of {L}")
    yield Sign("layers-twice", total > L, difference=bounds)


def _judge_together(exam: Exam, probes: list[tuple[list[float], int]]) -> None:
    """Ask all, then name the belief that explains all answers, at the first that is not best."""
    asked: list[tuple[Case, Balance]] = []
    try:
        for costs, K in probes:
            asked.append(_ask(exam, costs, K))
    except Wrong:
        if not any(_too_slow(balance) for _, balance in asked):
            raise
    for case, balance in asked:
        if _too_slow(balance):
            _show(case, balance)
            case.judge(beliefs_behind([balance for _, balance in asked]))
            case.judge([Sign("not-best")])


def _judge(
    exam: Exam,
    costs: list[float],
    K: int,
    call: str = "",
    traps: Traps | None = None,
    before: list[float] | None = None,
) -> Balance:
    case, balance = _ask(exam, costs, K, call, traps, before)
    _show(case, balance)
    case.judge([Sign("not-best", _too_slow(balance))])
    return balance


def _too_slow(balance: Balance) -> bool:
    return can_be_faster(balance.costs, balance.K, max(stage_costs(balance.costs, balance.counts)))


def _show(case: Case, balance: Balance) -> None:
    """Let the case show a best cut beside the learner's."""
    best = balance_by_cost(balance.costs, balance.K)
    ours, theirs = stage_costs(balance.costs, balance.counts), stage_costs(balance.costs, best)
    case.difference = (
        f"stage {ours.index(max(ours))} costs {max(ours):.10g}; no stage needs more than {max(theirs):.10g}"
    )
    if max(ours) > 1.01 * max(theirs):  # else it can't be seen
        case.charts = _chart("your cut", ours), _chart("a best cut", theirs)
    case.expected = f"{list(best)}, for instance: stage costs {_write_costs(theirs)}"
    case.came = f"{list(balance.counts)}: stage costs {_write_costs(ours)}"


def _chart(name: str, times: list[float], M: int = 4) -> Chart:
    return Chart(name, str(gpipe(len(times), M)), F=times, B=[2 * time for time in times])


def _train(exam: Exam, rng: Random) -> Success:
    """Cut a network of uneven layers by its multiply-adds, and train the digits with this cut."""
    widths = [64, *sorted((rng.randint(24, 80) for _ in range(9)), reverse=True), 10]
    layers = ref.mlp(widths, seed=rng.randrange(1000))
    costs = [float(layer.params["weight"].size) if layer.params else 0.0 for layer in layers]
    counts = _judge(exam, costs, 4).counts
    x, y, _, _ = digits()
    x, y = np.asarray(x[:48], dtype=float), y[:48]
    _, exact = ref.train_sequential(layers, x, y)
    found = ref.train_pipeline(layers, x, y, gpipe(4, 8), balance=counts).grads
    thousands = [cost / 1000 for cost in costs]
    mine, plain = (stage_costs(thousands, cut) for cut in (counts, balance_uniform(len(layers), 4)))
    charts = _chart("your cut", mine, 8), _chart("equal counts", plain, 8)
    error = ref.gradient_difference(found, exact)
    return exam.success(*charts, layers=len(layers), counts=join_words(counts), error=error)


def _write_costs(costs: Costs) -> str:
    if len(costs) > 12:
        return f"{len(costs)} costs"
    return "[" + ", ".join(f"{cost:.0f}" if cost == int(cost) else f"{cost:.4g}" for cost in costs) + "]"
