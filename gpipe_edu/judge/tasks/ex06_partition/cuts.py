"""What people do instead of making the slowest stage as fast as it can be: one rule for each belief.

A variant of a belief says whether an answer is what it gives. One answer proves little, so a belief is named only if
one of its variants fits all answers of a learner's function at once, and the first that fits is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate, combinations, pairwise
from typing import Any, Final, NamedTuple

from gpipe_edu.judge.case import Belief, Sign, try_beliefs

Costs = Sequence[float]
Counts = tuple[int, ...]


class Balance(NamedTuple):
    """What came for K stages: the layers of each, in order."""

    costs: Costs
    K: int
    counts: Counts


def stage_costs(costs: Costs, counts: Sequence[int]) -> list[float]:
    """The cost of each stage, rounded once."""
    ends = [0, *accumulate(counts)]
    return [float(sum(map(Fraction, costs[start:end]))) for start, end in pairwise(ends)]


def can_be_faster(costs: Costs, K: int, largest: float) -> bool:
    """True if some cut into K stages, none of them empty, has a largest stage below `largest`.

    Filling one stage after another as far as allowed takes the fewest stages there can be; a cut that needs fewer
    than K can be cut further.
    """
    limit = largest * (1 - 1e-9)
    if not costs or max(costs) >= limit:
        return False
    exact, start = list(map(Fraction, costs)), 0
    for _ in range(K):
        start = _filled(exact, start, len(costs), limit)
    return start == len(costs)


def _filled(costs: Sequence[Any], start: int, last: int, limit: float, over: bool = False) -> int:
    """The end of a stage that starts at `start`: before it exceeds the limit, or, if `over`, once it has reached it.

    It has a layer, if one is left, and ends at `last` at the latest.
    """
    total: Any = 0
    end = start
    while end < last and (end == start or not (total >= limit or (not over and total + costs[end] > limit))):
        total += costs[end]
        end += 1
    return end


def beliefs_behind(balances: Sequence[Balance]) -> Iterator[Sign]:
    """Beliefs with a variant that explains all that came."""
    return try_beliefs(BELIEFS, lambda variant: all(map(variant, balances)))


def _cuts(L: int, K: int) -> Iterator[Counts]:
    for inner in combinations(range(1, L), K - 1):
        yield tuple(_counts((0, *inner, L)))


def _counts(ends: Sequence[int]) -> list[int]:
    """Layers per stage, from where the stages start and end."""
    return [end - start for start, end in pairwise(ends)]


def _is(build: Callable[[Costs, int], Sequence[int]]) -> Callable[[Balance], bool]:
    return lambda balance: list(build(balance.costs, balance.K)) == list(balance.counts)


def _has_best(score: Callable[[list[float]], Any]) -> Callable[[Balance], bool]:
    """True for a balance with the smallest score there is; for ties, any of them."""

    def judge(balance: Balance) -> bool:
        scores = (score(stage_costs(balance.costs, counts)) for counts in _cuts(len(balance.costs), balance.K))
        return bool(score(stage_costs(balance.costs, balance.counts)) <= min(scores) + 1e-9)

    return judge


def _is_best_from_behind(balance: Balance) -> bool:
    return _has_best(max)(balance._replace(counts=balance.counts[::-1]))


def _even(costs: Costs, K: int, front: bool) -> list[int]:
    small, more = divmod(len(costs), K)
    return [small + ((k < more) if front else (k >= K - more)) for k in range(K)]


def _rest_to_the_last(costs: Costs, K: int) -> list[int]:
    small, more = divmod(len(costs), K)
    return [small] * (K - 1) + [small + more]


def _fill(costs: Costs, K: int, over: bool, again: bool, least: bool) -> list[int]:
    """Fill stage by stage up to the average, or beyond it by one layer (over); what is left goes to the last stage.

    again: the average of what remains, anew for each stage. least: never below the costliest layer.
    """
    ends, L = [0], len(costs)
    for stages in range(K, 1, -1):
        target = sum(costs[ends[-1] :]) / stages if again else sum(costs) / K
        limit = max(target, max(costs)) if least else target
        ends.append(_filled(costs, ends[-1], L - (stages - 1), limit, over))
    return _counts([*ends, L])


def _nearest(costs: Costs, K: int, below: bool) -> list[int]:
    """Cut where the sum so far is nearest to k/K of the whole; or at the last layer that stays below it."""
    L, sums, cuts = len(costs), [0, *accumulate(costs)], [0]
    for k in range(1, K):
        goal = sums[-1] * k / K
        places = range(cuts[-1] + 1, L - (K - k) + 1)
        under = [place for place in places if sums[place] <= goal]
        cuts.append((under or [places[0]])[-1] if below else min(places, key=lambda place: abs(sums[place] - goal)))
    return _counts([*cuts, L])


def _halves(costs: Costs, K: int) -> list[int]:
    """Cut in two as evenly as possible, then each part in two."""
    if K == 1:
        return [len(costs)]
    left = K // 2
    places = range(left, len(costs) - (K - left) + 1)
    cut = min(places, key=lambda place: max(sum(costs[:place]), sum(costs[place:])))
    return _halves(costs[:cut], left) + _halves(costs[cut:], K - left)


def _dearest(costs: Costs, K: int) -> list[int]:
    """Cut the costliest stage in two, as evenly as possible, until there are K."""
    parts = [list(costs)]
    while len(parts) < K:
        at = max((i for i, part in enumerate(parts) if len(part) > 1), key=lambda i: sum(parts[i]))
        counts = _halves(parts[at], 2)
        parts[at : at + 1] = [parts[at][: counts[0]], parts[at][counts[0] :]]
    return [len(part) for part in parts]


def _merged(costs: Costs, K: int) -> list[int]:
    """Join the two neighbours that are cheapest together, until there are K."""
    parts = [(cost, 1) for cost in costs]
    while len(parts) > K:
        at = min(range(len(parts) - 1), key=lambda i: parts[i][0] + parts[i + 1][0])
        parts[at : at + 2] = [(parts[at][0] + parts[at + 1][0], parts[at][1] + parts[at + 1][1])]
    return [count for _, count in parts]


def _stuck(balance: Balance) -> bool:
    """True if moving one cut by one layer makes the largest stage no smaller."""
    largest = max(stage_costs(balance.costs, balance.counts))
    for k in range(balance.K - 1):
        for step in (1, -1):
            moved = list(balance.counts)
            moved[k], moved[k + 1] = moved[k] + step, moved[k + 1] - step
            if min(moved) > 0 and max(stage_costs(balance.costs, moved)) < largest:
                return False
    return True


def _any_order(balance: Balance) -> bool:
    """True if the counts are best for sorted layers."""
    orders = (sorted(balance.costs), sorted(balance.costs, reverse=True))
    return any(not can_be_faster(o, balance.K, max(stage_costs(o, balance.counts))) for o in orders)


def _spread(costs: list[float]) -> float:
    return sum((cost - sum(costs) / len(costs)) ** 2 for cost in costs)


def _distance(costs: list[float]) -> float:
    return sum(abs(cost - sum(costs) / len(costs)) for cost in costs)


def _lopsided(costs: Costs, K: int, front: bool) -> list[int]:
    ones, rest = [1] * (K - 1), [len(costs) - K + 1]
    return rest + ones if front else ones + rest


BELIEFS: Final = (
    Belief("remainder-last", (_is(_rest_to_the_last),)),
    Belief("by-count", tuple(_is(partial(_even, front=front)) for front in (True, False))),
    Belief("degenerate", tuple(_is(partial(_lopsided, front=front)) for front in (True, False))),
    Belief("least-spread", (_has_best(_spread), _has_best(_distance))),
    Belief("smallest-stage", (_has_best(lambda costs: -min(costs)), _has_best(lambda costs: max(costs) - min(costs)))),
    Belief(
        "average",
        tuple(
            _is(partial(_fill, over=over, again=again, least=least))
            for over in (True, False)
            for again in (False, True)
            for least in (False, True)
        ),
    ),
    Belief("nearest", tuple(_is(partial(_nearest, below=below)) for below in (True, False))),
    Belief("halves", (_is(_halves), _is(_dearest))),
    Belief("merged", (_is(_merged),)),
    Belief("last-first", (_is_best_from_behind,)),
    Belief("reordered", (_any_order,)),
    Belief("stuck", (_stuck,)),
)
"""In the order in which they are tried, the plainest first."""
