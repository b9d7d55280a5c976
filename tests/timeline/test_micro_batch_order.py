"""The best order of micro-batches, and the best cut for them, against trying everything with `simulate`."""

from dataclasses import replace
from itertools import combinations, pairwise, permutations
from random import Random

import pytest

import gpipe_edu as ge
from gpipe_edu.schedule.recipes import RECIPES
from gpipe_edu.timeline import balance_by_step, order_micro_batches, peak_memory
from gpipe_edu.timeline.micro_batch_order import _Search
from tests.amount import fewer
from tests.each import each
from tests.refusals import refusals


def in_order(costs, order):
    """The costs with their micro-batches in that order."""
    if costs.sizes:
        return replace(costs, micro_batches=[costs.sizes[m] for m in order])
    return replace(costs, micro_batches=[[row[m] for m in order] for row in costs.micro_batches])


def every(schedule, costs):
    """Of each order, how long its step is, and what its fullest device holds."""
    for order in permutations(range(schedule.micro_batches)):
        timeline = ge.simulate(schedule, in_order(costs, order))
        yield timeline.makespan, max(peak_memory(timeline, micro_batches=in_order(costs, order).sizes or None)), order


def drawn(seed):
    """A small schedule, and costs: of two numbers per micro-batch, of whole ones, or with an encoder in front."""
    rng = Random(seed)
    K, M = rng.randint(1, 3), rng.randint(1, 5)
    sizes = rng.choice([[rng.randint(1, 9) for _ in range(M)], [rng.random() for _ in range(M)]])
    stages = [[rng.choice([1, 5]) for _ in range(M)], *[[1] * M] * (K - 1)]
    costs = ge.Costs(micro_batches=rng.choice([sizes, stages]), send=rng.choice([0, 0.5]))
    return rng.choice([ge.gpipe, ge.one_f_one_b, ge.zero_bubble])(K, M), costs


@each("seed", range(fewer(120)))
def test_no_order_takes_less(seed):
    schedule, costs = drawn(seed)
    found = order_micro_batches(schedule, costs)
    assert found.makespan == found.least == pytest.approx(min(every(schedule, costs))[0])
    assert ge.simulate(schedule, in_order(costs, found.order)).makespan == pytest.approx(found.makespan)


@each("seed", range(fewer(60)))
def test_no_order_that_fits_takes_less(seed):
    rng = Random(seed)
    K, M = rng.randint(2, 3), rng.randint(3, 5)
    schedule, costs = ge.one_f_one_b(K, M), ge.Costs(micro_batches=[rng.randint(1, 9) for _ in range(M)])
    all_of_them = list(every(schedule, costs))
    least, most = (choose(held for _, held, _ in all_of_them) for choose in (min, max))
    memory = rng.uniform(least, most)
    best = min(length for length, held, _ in all_of_them if held <= memory)
    assert order_micro_batches(schedule, costs, memory).makespan == pytest.approx(best)
    assert order_micro_batches(schedule, costs, least).makespan >= best
    with pytest.raises(ValueError, match=rf"no order fits: memory is .*, and a device holds {least:g}"):
        order_micro_batches(schedule, costs, least - 0.5)


def rule(schedule, costs, memory=float("inf")):
    """What is found by swaps."""
    search = _Search(schedule, costs, memory)
    return search, min(map(search.improve, search.starts()))


@each("seed", range(fewer(1200)))
def test_swaps_come_near_the_best_order(seed):
    """All orders are tried: in 99 % of the 1,200 cases none is better, and in no case by more than 1.5 %."""
    rng = Random(seed)
    K, M = rng.randint(2, 4), rng.randint(4, 6)
    schedule = rng.choice([ge.gpipe, ge.one_f_one_b])(K, M)
    costs = ge.Costs(
        F=[rng.randint(1, 3) for _ in range(K)],
        B=[rng.randint(2, 6) for _ in range(K)],
        micro_batches=[rng.randint(1, 9) for _ in range(M)],
    )
    best = order_micro_batches(schedule, costs).makespan
    search, found = rule(schedule, costs)
    assert search.least() <= best * (1 + 1e-9)
    assert best <= found.makespan * (1 + 1e-9) <= 1.016 * best


@each("recipe", RECIPES.values())
def test_no_step_is_shorter_than_the_least(recipe):
    rng = Random(1)
    schedule = recipe(3, 4).apart()
    costs = ge.Costs(micro_batches=[rng.randint(1, 9) for _ in range(4)], send=0.25)
    assert 0 < _Search(schedule, costs, float("inf")).least() <= min(every(schedule, costs))[0] * (1 + 1e-9)


@each("seed", range(fewer(30)))
def test_gpipe_does_not_mind_the_order_if_stages_are_alike(seed):
    """The longest chain of ops passes each micro-batch on some stage, and the longest one on all others."""
    rng = Random(seed)
    K, M = rng.randint(1, 5), rng.randint(1, 12)
    times = [rng.uniform(0, 9) for _ in range(M)]  # so sums in another order differ by rounding
    found = order_micro_batches(ge.gpipe(K, M), ge.Costs(F=1, B=2, micro_batches=times))
    assert found.order == tuple(range(M))
    assert found.makespan == pytest.approx(3 * (sum(times) + (K - 1) * max(times)))


@each("seed", range(fewer(60)))
def test_gpipe_with_an_encoder_in_front_runs_the_shortest_first(seed):
    rng = Random(seed)
    K, M = rng.randint(2, 4), rng.randint(2, 6)
    first = [rng.uniform(0, 4) for _ in range(M)]
    costs = ge.Costs(micro_batches=[first, *[[1] * M] * (K - 1)])
    rising = sorted(range(M), key=first.__getitem__)
    best = order_micro_batches(ge.gpipe(K, M), costs).makespan
    assert ge.simulate(ge.gpipe(K, M), in_order(costs, rising)).makespan == pytest.approx(best)


@each("M, memory", [(9, None), (12, 30), (20, 24)])
def test_many_are_ordered_within_memory_and_no_worse_than_in_three_simple_orders(M, memory):
    rng = Random(M)
    times = [rng.randint(1, 9) for _ in range(M)]
    schedule, costs = ge.one_f_one_b(4, M), ge.Costs(micro_batches=times)
    found = order_micro_batches(schedule, costs, *([memory] if memory else []))
    timeline = ge.simulate(schedule, in_order(costs, found.order))
    assert sorted(found.order) == list(range(M))
    assert timeline.makespan == pytest.approx(found.makespan)
    assert found.least <= found.makespan
    if memory:
        assert max(peak_memory(timeline, micro_batches=[times[m] for m in found.order])) <= memory
    else:
        rising = sorted(range(M), key=times.__getitem__)
        for order in (rising, rising[::-1], rising[::2] + rising[1::2][::-1]):
            assert found.makespan <= ge.simulate(schedule, in_order(costs, order)).makespan


def test_none_that_fits_is_found():
    times = [9, 8] + [1] * 8
    with pytest.raises(ValueError, match="no order was found that fits: memory is 8, and a device holds 1"):
        order_micro_batches(ge.one_f_one_b(2, 10), ge.Costs(micro_batches=times), 8)


ALIKE = ge.Costs(micro_batches=[1, 2, 3])
test_what_is_refused_for_an_order = refusals(
    (ValueError, "so all are alike", lambda: order_micro_batches(ge.gpipe(2, 3), ge.Costs())),
    (ValueError, "not a list for each stage", lambda: order_micro_batches(
        ge.gpipe(2, 2), ge.Costs(micro_batches=[[1, 2], [1, 1]]), 3)),
    (ValueError, "link is 1 and overlap 0", lambda: order_micro_batches(ge.gpipe(2, 3), replace(ALIKE, link=1))),
    (ValueError, "link is 0 and overlap 0.5", lambda: order_micro_batches(ge.gpipe(2, 3), replace(ALIKE, overlap=0.5))),
    (ValueError, "there are 4 micro-batches", lambda: order_micro_batches(ge.gpipe(2, 4), ALIKE)),
    (ValueError, "memory is -1; it must be", lambda: order_micro_batches(ge.gpipe(2, 3), ALIKE, -1)),
    (TypeError, "memory is 'much'", lambda: order_micro_batches(ge.gpipe(2, 3), ALIKE, "much")),
)  # fmt: skip


@each("seed", range(fewer(40)))
def test_no_cut_takes_less(seed):
    rng = Random(seed)
    K, M = rng.randint(1, 3), rng.randint(1, 4)
    L = rng.randint(K, 6)
    layers = [[rng.choice([0, 1, 4]) for _ in range(M)] for _ in range(L)]
    schedule, send = rng.choice([ge.gpipe, ge.one_f_one_b])(K, M), rng.choice([0, 0.5])
    steps = {}
    for inner in combinations(range(1, L), K - 1):
        bounds = (0, *inner, L)
        stages = [[float(sum(column)) for column in zip(*layers[a:b], strict=True)] for a, b in pairwise(bounds)]
        costs = ge.Costs(F=1, B=3, micro_batches=stages, send=send)
        steps[tuple(b - a for a, b in pairwise(bounds))] = ge.simulate(schedule, costs).makespan
    found = balance_by_step(schedule, layers, backward=3, send=send)
    assert found.makespan == pytest.approx(min(steps.values()))
    assert steps[found.balance] == pytest.approx(found.makespan)


def test_the_best_cut_need_not_be_that_of_the_sums():
    """Three micro-batches of six have images, so the encoder's stage is the largest only for them."""
    images = [1, 0, 0, 0, 1, 1]
    layers = [[5 * image for image in images]] * 2 + [[1] * 6] * 8
    assert ge.balance_by_cost([sum(row) for row in layers], 3) == (2, 3, 5)
    assert balance_by_step(ge.gpipe(3, 6), layers) == ((2, 4, 4), 114)
    stages = [[10 * image for image in images], [3] * 6, [5] * 6]
    assert ge.simulate(ge.gpipe(3, 6), ge.Costs(micro_batches=stages)).makespan == 129


test_what_is_refused_for_a_cut = refusals(
    (ValueError, "ops besides F and B", lambda: balance_by_step(ge.zero_bubble(2, 2), [[1, 1]] * 3)),
    (ValueError, r"forwards\[1\] has 1 number; it must have 2", lambda: balance_by_step(ge.gpipe(2, 2), [[1, 1], [1]])),
    (ValueError, "2 layers cannot fill 3 stages", lambda: balance_by_step(ge.gpipe(3, 2), [[1, 1]] * 2)),
    (ValueError, "749,398 cuts into 6 stages", lambda: balance_by_step(ge.gpipe(6, 2), [[1, 1]] * 42)),
    (TypeError, "backward is 'B'", lambda: balance_by_step(ge.gpipe(2, 2), [[1, 1]] * 2, backward="B")),
)  # fmt: skip
