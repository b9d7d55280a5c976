"""Exercise 06's judge, against trying every cut: it refuses no best cut, and accepts no other."""

from itertools import combinations, pairwise
from random import Random

import pytest

from gpipe_edu.course.exercise.ex06_partition.cuts import Balance, beliefs_behind, can_be_faster, stage_costs


def all_cuts(L, K):
    for inner in combinations(range(1, L), K - 1):
        yield tuple(end - start for start, end in pairwise((0, *inner, L)))


@pytest.mark.parametrize("unit", [1, 1000, 1 / 3])
def test_it_can_be_faster_where_some_cut_is(unit):
    rng = Random(6)
    for _ in range(300):
        L = rng.randint(1, 8)
        K = rng.randint(1, L)
        costs = [rng.choice([0, rng.randint(1, 9), rng.randint(1, 9)]) * unit for _ in range(L)]
        largest = {counts: max(stage_costs(costs, counts)) for counts in all_cuts(L, K)}
        best = min(largest.values())
        for cost in largest.values():
            assert can_be_faster(costs, K, cost) == (cost > best * (1 + 1e-9)), (costs, K, cost)


def test_a_belief_must_explain_all_answers():
    even = Balance([5, 1, 1, 1, 1, 1, 1, 5], 3, (3, 3, 2))
    other = Balance([4, 0, 0, 6, 2, 0, 7, 3], 4, (1, 1, 1, 5))

    def first(*balances):
        return next((sign.slip for sign in beliefs_behind(balances) if sign.shows), None)

    assert first(even) == "by-count"
    assert first(other) == "degenerate"
    assert first(even, other) is None
