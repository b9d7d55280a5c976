"""The best orders that exercise 18 compares with, and why it allows 5 % more."""

from random import Random

import gpipe_edu as ge
from gpipe_edu.judge.tasks.ex18_order.check import FREE, MOST, TIGHT, K, held, step
from gpipe_edu.timeline import order_micro_batches
from gpipe_edu.timeline.micro_batch_order import _Search
from tests.each import each


@each("costs, memory, least", [*((costs, sum(costs), least) for costs, least in FREE[1:]), *TIGHT])
def test_thirty_searches_find_no_better_one_that_fits(costs, memory, least):
    M, rng = len(costs), Random(0)
    search = _Search(ge.one_f_one_b(K, M), ge.Costs(micro_batches=costs), memory)
    found = [search.improve(tuple(rng.sample(range(M), M))) for _ in range(30)]
    best = min(found)
    row = [costs[m] for m in best.order]
    assert (best.excess, best.makespan, step(row)) == (0, least, least)
    assert held(row) <= memory
    # A search from nearly anywhere is good enough.
    assert sum(one.excess == 0 and one.makespan <= MOST * least for one in found) >= 25


@each("costs, least", [one for one in FREE if len(one[0]) <= 8])
def test_for_few_packs_all_orders_were_tried(costs, least):
    assert order_micro_batches(ge.one_f_one_b(K, len(costs)), ge.Costs(micro_batches=costs)).makespan == least


@each("costs, memory", [one[:2] for one in TIGHT])
def test_where_memory_is_tight_a_pyramid_does_not_fit(costs, memory):
    assert held(sorted(costs)[::2] + sorted(costs)[1::2][::-1]) > memory


@each("costs, least", [one for one in FREE if len(one[0]) > 5])
def test_a_pyramid_is_good_enough_and_a_sorted_row_is_not(costs, least):
    up = sorted(costs)
    for row in (up[::2] + up[1::2][::-1], up[1::2] + up[::2][::-1]):
        assert max(step(row), step(row[::-1])) <= MOST * least
    assert min(step(up), step(up[::-1])) > MOST * least


@each("costs", [one[0] for one in [*FREE, *TIGHT]])
def test_what_a_stage_holds_is_what_packs_in_a_row_cost(costs):
    for seed in range(3):
        row = Random(seed).sample(costs, len(costs))
        timeline = ge.simulate(ge.one_f_one_b(K, len(row)), ge.Costs(micro_batches=row))
        assert max(ge.timeline.peak_memory(timeline, micro_batches=row)) == held(row)
