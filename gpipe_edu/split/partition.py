"""Cutting a list of layers into consecutive stages.

The slowest stage sets the pace of the whole pipeline, so the cut to look for is the one whose largest stage is as
small as possible.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate, pairwise

from gpipe_edu.base.validate import numbers, whole


def balance_uniform(L: int, K: int) -> tuple[int, ...]:
    """K layer counts that sum to L and differ by at most one; the first L mod K stages get one more.

    Raises ValueError unless 1 <= K <= L.
    """
    L, K = _check(L, K)
    return tuple(L // K + (k < L % K) for k in range(K))


def balance_by_cost(costs: Iterable[float], K: int) -> tuple[int, ...]:
    """K layer counts, each at least 1, whose largest stage cost is the smallest possible. Exact.

    costs: one number per layer, finite and at least 0 (time, bytes, parameters; any unit). Among the best cuts, the
    one returned fills the stages from the back, so that it is always the same.

    Method: dynamic programming over (layers placed, stages used), with binary search for the best last cut, since a
    later cut makes the front larger and the back smaller. O(K L log L), on integers, so nothing is rounded.

    Raises TypeError for costs that are not numbers, ValueError for negative or infinite ones, or unless 1 <= K <= L.
    """
    sums = [0, *accumulate(_exact(costs))]
    L, K = _check(len(sums) - 1, K)
    largest: list[int] = sums  # largest[n]: the smallest possible largest stage of the first n layers
    cuts: list[list[int]] = []  # cuts[k][n]: where the last of k + 2 stages starts, for the first n layers
    for used in range(1, K):
        row, cut = [0] * (L + 1), [0] * (L + 1)
        for n in range(used + 1, L + 1):
            low, high = used, n - 1
            while low < high:
                middle = (low + high) // 2
                if largest[middle] >= sums[n] - sums[middle]:
                    high = middle
                else:
                    low = middle + 1
            # The two sides cross at `low`: the best cut is there or one layer before.
            best = min(range(max(used, low - 1), low + 1), key=lambda at: max(largest[at], sums[n] - sums[at]))
            cut[n], row[n] = best, max(largest[best], sums[n] - sums[best])
        largest = row
        cuts.append(cut)
    bounds = [L]
    for cut in reversed(cuts):
        bounds.append(cut[bounds[-1]])
    bounds = [0, *reversed(bounds)]
    return tuple(end - start for start, end in pairwise(bounds))


def _exact(costs: Iterable[float]) -> list[int]:
    """The costs as integers of one common unit: floats are fractions, so no sum needs to be rounded."""
    fractions = [Fraction(cost) for cost in numbers("costs", costs)]
    unit = math.lcm(*(fraction.denominator for fraction in fractions))
    return [int(fraction * unit) for fraction in fractions]


def _check(L: int, K: int) -> tuple[int, int]:
    L, K = whole("L (layers)", L, 1), whole("K (stages)", K, 1)
    if L < K:
        raise ValueError(
            f"{L} layers cannot fill {K} stages, because every stage needs at least one layer; use K <= {L}"
        )
    return L, K
