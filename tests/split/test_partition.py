"""Cutting layers into stages: the best cut is found by trying all of them and compared."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gpipe_edu as ge
from tests.amount import examples
from tests.each import each
from tests.refusals import refusals


def compositions(L, K):
    """All ways to cut L layers into K stages of at least one layer."""
    for cuts in itertools.combinations(range(1, L), K - 1):
        bounds = (0, *cuts, L)
        yield tuple(end - start for start, end in itertools.pairwise(bounds))


def largest_stage(costs, counts):
    """The exact cost of the largest stage."""
    bounds = [0, *itertools.accumulate(counts)]
    return max(sum(map(Fraction, costs[start:end])) for start, end in itertools.pairwise(bounds))


def assert_best(costs, K):
    found = ge.balance_by_cost(costs, K)
    assert len(found) == K
    assert sum(found) == len(costs)
    assert min(found) >= 1
    assert largest_stage(costs, found) == min(largest_stage(costs, cut) for cut in compositions(len(costs), K))


FLOATS = st.floats(0, 1e6, allow_nan=False)
TINY_AND_HUGE = st.sampled_from([0.0, 5e-324, 0.1, 0.2, 0.3, 1.0, 1e16, 1e16 + 2, 1e300])


@examples(250)
@given(st.data(), st.sampled_from([st.integers(0, 9), FLOATS, TINY_AND_HUGE, st.integers(2**60, 2**60 + 3)]))
def test_no_cut_has_a_smaller_largest_stage(data, numbers):
    costs = data.draw(st.lists(numbers, min_size=1, max_size=9))
    assert_best(costs, data.draw(st.integers(1, min(5, len(costs)))))


def test_all_lists_of_up_to_five_small_costs_are_cut_best():
    for L in range(1, 6):
        for costs in itertools.product(range(3), repeat=L):
            for K in range(1, L + 1):
                assert_best(list(costs), K)


def test_cost_beats_count_where_layers_differ():
    assert ge.balance_by_cost([1, 1, 1, 1, 1, 5], 2) == (5, 1)
    assert ge.balance_by_cost([1] * 9 + [2], 4) in set(compositions(10, 4))
    assert largest_stage([1] * 9 + [2], ge.balance_by_cost([1] * 9 + [2], 4)) == 3


def test_as_many_stages_as_layers_leaves_no_choice():
    assert ge.balance_by_cost([5, 0, 7], 3) == (1, 1, 1)
    assert ge.balance_by_cost([5, 0, 7], 1) == (3,)


def test_layers_that_cost_nothing_still_fill_every_stage():
    assert sorted(ge.balance_by_cost([0, 0, 0, 0], 3)) == [1, 1, 2]


def test_floats_are_compared_exactly_not_after_rounding():
    # 0.1 + 0.2 > 0.3 in binary, so the pair is the larger stage, however their sum is rounded.
    assert_best([0.1, 0.2, 0.3], 2)
    assert_best([1e16, 1.0, 1.0, 1e16], 2)


@each("wrap", [np.array, tuple, torch.tensor])
def test_costs_may_come_in_any_sequence(wrap):
    costs = [3, 1, 4, 1, 5, 9, 2]
    assert ge.balance_by_cost(wrap(costs), 3) == ge.balance_by_cost(costs, 3)
    assert ge.balance_by_cost(wrap([float(c) for c in costs]), 3) == ge.balance_by_cost(costs, 3)


def test_numpy_integers_and_fractions_are_as_exact_as_ints():
    costs = [2**60, 1, 2**60 + 2]
    assert ge.balance_by_cost(np.array(costs), 2) == ge.balance_by_cost(costs, 2) == (2, 1)
    third = Fraction(1, 3)
    assert ge.balance_by_cost([third + Fraction(1, 10**30), third, third * 2], 2) == (2, 1)
    assert ge.balance_by_cost([third * 2, third, third + Fraction(1, 10**30)], 2) == (1, 2)


def test_two_thousand_layers_on_sixty_four_stages_are_cut_well():
    rng = np.random.default_rng(0)
    costs = [int(cost) for cost in rng.integers(1, 1000, 2000)]
    counts = ge.balance_by_cost((cost for cost in costs), 64)
    assert (len(counts), sum(counts)) == (64, 2000)
    # No cut beats the mean, and one that fills stages greedily up to the mean plus one layer exists.
    assert sum(costs) / 64 <= largest_stage(costs, counts) <= sum(costs) / 64 + max(costs)


def uniform(K):
    return ge.balance_uniform(3, K)


def by_cost(K):
    return ge.balance_by_cost([1, 1, 1], K)


test_what_cannot_be_cut = refusals(
    *((TypeError, "is {}; it must be a whole number", cut, ["2", None, 2.0, True, [2]]) for cut in (uniform, by_cost)),
    *((ValueError, r"K \(stages\) is {}; it must be at least 1", cut, [0, -1]) for cut in (uniform, by_cost)),
    *((ValueError, r"3 layers cannot fill 4 stages.*use K <= 3", cut, [4]) for cut in (uniform, by_cost)),
    (TypeError, "is {}", lambda L: ge.balance_uniform(L, 1), ["10", None, 10.0, True, [1, 2]]),
    (ValueError, "costs.1. is {}", lambda c: ge.balance_by_cost([1, c], 1), [-1, -0.5, np.inf, -np.inf, np.nan]),
    (TypeError, "costs.1. is {}", lambda cost: ge.balance_by_cost([1, cost], 1), [None, "x", 1j, [1]]),
    (TypeError, "cost", lambda costs: ge.balance_by_cost(costs, 2), [["1", "2", "3"], "123", [True, 1, 1]]),
    (TypeError, "cost", lambda costs: ge.balance_by_cost(costs, 1), [None, 5, {3: 1, 4: 2}]),
    (ValueError, r"L \(layers\) is 0", lambda: ge.balance_by_cost([], 1)),
)


@each("L, K", [(L, K) for L in range(1, 14) for K in range(1, L + 1)])
def test_uniform_counts_sum_up_and_differ_by_at_most_one_the_larger_first(L, K):
    counts = ge.balance_uniform(L, K)
    assert len(counts) == K
    assert sum(counts) == L
    assert counts[0] - counts[-1] <= 1
    assert list(counts) == sorted(counts, reverse=True)
    assert largest_stage([1] * L, counts) == largest_stage([1] * L, ge.balance_by_cost([1] * L, K))


def test_numpy_integers_count_layers_and_stages():
    assert ge.balance_uniform(np.int64(10), np.int32(3)) == (4, 3, 3)
    assert ge.balance_by_cost([1, 1, 1], np.int64(2)) == ge.balance_by_cost([1, 1, 1], 2)


@each("L", [0, -1])
def test_no_layers_get_no_advice_that_nobody_can_follow(L):
    with pytest.raises(ValueError, match=f"{L}") as error:
        ge.balance_uniform(L, 1)
    assert f"use K <= {L}" not in str(error.value)
