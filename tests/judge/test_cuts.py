"""Exercise 06's judge, against trying every cut: it refuses no best cut, and accepts no other."""

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpipe_edu.judge.tasks.ex06_partition.cuts import Balance, beliefs_behind, can_be_faster, stage_costs
from tests.amount import examples


def all_cuts(L, K):
    for inner in combinations(range(1, L), K - 1):
        yield tuple(end - start for start, end in pairwise((0, *inner, L)))


@examples(500)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 8), st.sampled_from([1, 1000, 1 / 3]))
def test_it_can_be_faster_where_some_cut_is(whole, K, unit):
    costs, K = [cost * unit for cost in whole], min(K, len(whole))
    largest = {counts: max(stage_costs(costs, counts)) for counts in all_cuts(len(costs), K)}
    best = min(largest.values())
    for cost in largest.values():
        assert can_be_faster(costs, K, cost) == (cost > best * (1 + 1e-9))


def test_a_belief_must_explain_all_answers():
    even = Balance([5, 1, 1, 1, 1, 1, 1, 5], 3, (3, 3, 2))
    other = Balance([4, 0, 0, 6, 2, 0, 7, 3], 4, (1, 1, 1, 5))

    def first(*balances):
        return next((sign.slip for sign in beliefs_behind(balances) if sign.shows), None)

    assert first(even) == "by-count"
    assert first(other) == "degenerate"
    assert first(even, other) is None
