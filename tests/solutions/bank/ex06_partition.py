"""Exercise 06. Where a slip concerns which cut is best, impossible numbers of stages are refused first."""

import bisect
import functools
import heapq
import itertools
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from tests.solutions.bank import Bank

BANK = Bank("ex06/partition")


def complete(cut):
    """What a careful learner puts around the idea."""

    def partition(costs, K):
        if not 1 <= K <= len(costs):
            raise ValueError(f"cannot cut {len(costs)} layers into {K} stages")
        return cut(costs, K)

    partition.__name__ = cut.__name__
    return partition


def wrong_cut(slip):
    return lambda cut: BANK.wrong(slip)(complete(cut))


def right_cut(cut):
    return BANK.right(complete(cut))


def all_cuts(L, K):
    for inner in itertools.combinations(range(1, L), K - 1):
        yield [b - a for a, b in itertools.pairwise([0, *inner, L])]


def sums_of(costs, counts):
    start, sums = 0, []
    for count in counts:
        sums.append(sum(costs[start : start + count]))
        start += count
    return sums


def fill(costs, limit):
    """Counts of stages, each filled as far as `limit` allows."""
    counts, used = [0], 0.0
    for cost in costs:
        if counts[-1] and used + cost > limit:
            counts.append(0)
            used = 0.0
        counts[-1] += 1
        used += cost
    return counts


def cut_further(counts, K):
    """The same with stages cut in two until there are K."""
    while len(counts) < K:
        at = next(k for k, count in enumerate(counts) if count > 1)
        counts[at : at + 1] = [1, counts[at] - 1]
    return counts


def dynamic(costs, K):
    """A right answer, for slips at its edges."""
    sums = [0, *itertools.accumulate(costs)]
    L = len(costs)

    @functools.cache
    def best(end, stages):
        if stages == 1:
            return sums[end], (end,)
        options = []
        for start in range(stages - 1, end):
            front, counts = best(start, stages - 1)
            options.append((max(front, sums[end] - sums[start]), (*counts, end - start)))
        return min(options)

    return list(best(L, K)[1])


def smallest_limit(costs, K):
    limits = sorted({sum(costs[a:b]) for a in range(len(costs)) for b in range(a + 1, len(costs) + 1)})
    return next(counts for counts in (fill(costs, limit) for limit in limits) if len(counts) <= K)


@BANK.right
def memory(costs, K):
    if not 1 <= K <= len(costs):
        raise ValueError(f"cannot cut {len(costs)} layers into {K} stages")
    return dynamic(costs, K)


def cut(slip, name, counts):
    """Adds an answer that gives this in place of the best counts."""
    BANK.changed(slip, name, "dynamic(costs, K)", counts)


cut("by-count", "even_counts", "[len(piece) for piece in np.array_split(costs, K)]")
cut("remainder-last", "rest_to_the_last", "[len(costs) // K] * (K - 1) + [len(costs) - len(costs) // K * (K - 1)]")
cut("last-first", "walks_back", "dynamic(costs, K)[::-1]")
cut("reordered", "sorts_first", "dynamic(sorted(costs, reverse=True), K)")
cut(
    "smallest-stage", "largest_smallest", "max(all_cuts(len(costs), K), key=lambda counts: min(sums_of(costs, counts)))"
)
cut("every-cut", "tries_every_cut", "min(all_cuts(len(costs), K), key=lambda counts: max(sums_of(costs, counts)))")
cut(
    "least-spread",
    "least_variance",
    "dynamic(costs, K) if len(costs) > 14 else "
    "min(all_cuts(len(costs), K), key=lambda counts: np.var(sums_of(costs, counts)))",
)
cut("fewer-stages", "smallest_limit_and_no_more", "smallest_limit(costs, K)")
cut("empty-stage", "fills_up_with_empty_stages", "(smallest_limit(costs, K) + [0] * K)[:K]")
cut("places", "where_stages_end", "list(itertools.accumulate(dynamic(costs, K)))")
cut("stage-costs", "what_stages_cost", "sums_of(costs, dynamic(costs, K))")
cut(
    "groups",
    "layers_of_each_stage",
    "[part.tolist() for part in np.split(np.arange(len(costs)), np.cumsum(dynamic(costs, K))[:-1])]",
)
cut("fixed-unit", "makes_the_costs_whole", "dynamic([int(cost * 10**6) for cost in costs], K)")
cut("nearly-best", "shares_in_hundredths", "dynamic([round(cost / (max(costs) or 1), 2) for cost in costs], K)")
cut("all-zero", "nothing_to_do_for_nothing", "dynamic(costs, K) if any(costs) else [0] * K")
cut("not-counts", "as_words", "[str(count) for count in dynamic(costs, K)]")
cut("not-a-list", "by_stage", "dict(enumerate(dynamic(costs, K)))")
cut("more-stages", "a_stage_for_what_is_left", "[*dynamic(costs, K), 0]")
cut("layers-twice", "stages_share_their_last_layer", "[n + (k < K - 1) for k, n in enumerate(dynamic(costs, K))]")
cut("fractions", "the_same_share_for_all", "[len(costs) / K] * K")
cut("", "one_by_one", "iter(dynamic(costs, K))")
cut("", "true_counts_as_ones", "[True if count == 1 else count for count in dynamic(costs, K)]")
BANK.changed("input-changed", "eats_the_costs", "dynamic(costs, K)", "dynamic([costs.pop(0) for _ in costs[:]], K)")
BANK.changed(
    "too-large",
    "counts_in_int32",
    "dynamic(costs, K)",
    "dynamic([c if isinstance(c, float) else int(np.int64(c).astype(np.int32)) for c in costs], K)",
)
BANK.changed(
    "nearly-best", "counts_in_float32", "dynamic(costs, K)", "dynamic([float(np.float32(c)) for c in costs], K)"
)
BANK.changed("no-return", "prints_it", "return dynamic(costs, K)", "print(dynamic(costs, K))")
BANK.changed("other-error", "asserts", "ValueError", "AssertionError")


def fits(slip, name, condition, counts):
    """Adds an answer that takes other numbers of stages, too."""
    BANK.changed(slip, name, "1 <= K <= len(costs)", condition, "dynamic(costs, K)", counts)


fits("layers-lost", "forgets_the_last_layer", "1 <= K < len(costs)", "dynamic(costs[:-1], K)")
fits("no-stages", "nothing_for_no_stages", "K <= len(costs)", "dynamic(costs, K) if K >= 1 else []")
fits("no-layers", "nothing_for_nothing", "1 <= K <= max(1, len(costs))", "dynamic(costs, K) if costs else [0]")
fits(
    "more-stages-than-layers",
    "empty_stages_for_lack_of_layers",
    "1 <= K",
    "dynamic(costs, min(K, len(costs))) + [0] * (K - len(costs))",
)


@wrong_cut("average")
def close_at_the_average(costs, K):
    average, counts, count, used = sum(costs) / K, [], 0, 0
    for index, cost in enumerate(costs):
        count, used = count + 1, used + cost
        left = len(costs) - index - 1
        if len(counts) < K - 1 and (used >= average or left == K - 1 - len(counts)):
            counts.append(count)
            count, used = 0, 0
    return [*counts, count]


@wrong_cut("nearest")
def cut_where_the_running_sum_is_right(costs, K):
    sums = list(itertools.accumulate(costs))
    ends = [0]
    for k in range(1, K):
        place = bisect.bisect_right(sums, sums[-1] * k / K)
        ends.append(min(max(place, ends[-1] + 1), len(costs) - (K - k)))
    return [b - a for a, b in itertools.pairwise([*ends, len(costs)])]


@wrong_cut("degenerate")
def adds_where_it_should_take_the_larger(costs, K):
    @functools.cache
    def best(start, stages):
        if stages == 1:
            return sum(costs[start:]), (len(costs) - start,)
        options = []
        for end in range(start + 1, len(costs) - stages + 2):
            rest, counts = best(end, stages - 1)
            options.append((sum(costs[start:end]) + rest, (end - start, *counts)))
        return min(options)

    return list(best(0, K)[1])


@wrong_cut("halves")
def halve_and_halve_again(costs, K):
    if K == 1:
        return [len(costs)]
    left = K // 2
    cuts = range(left, len(costs) - (K - left) + 1)
    cut = min(cuts, key=lambda c: max(sum(costs[:c]), sum(costs[c:])))
    return halve_and_halve_again(costs[:cut], left) + halve_and_halve_again(costs[cut:], K - left)


@wrong_cut("not-best")
def dearest_to_the_emptiest(costs, K):
    heap = [(0, k) for k in range(K)]
    counts = [0] * K
    for cost in sorted(costs, reverse=True):
        used, k = heapq.heappop(heap)
        counts[k] += 1
        heapq.heappush(heap, (used + max(cost, 1e-9), k))
    return counts


@wrong_cut("merged")
def joins_the_cheapest_neighbours(costs, K):
    stages = [[cost] for cost in costs]
    while len(stages) > K:
        pairs = [sum(a) + sum(b) for a, b in itertools.pairwise(stages)]
        at = pairs.index(min(pairs))
        stages[at] += stages.pop(at + 1)
    return [len(stage) for stage in stages]


@wrong_cut("stuck")
def moves_one_layer_while_it_helps(costs, K):
    counts = [len(piece) for piece in np.array_split(costs, K)]
    while True:
        moves = [counts]
        for k, step in itertools.product(range(K - 1), (1, -1)):
            moved = [*counts[:k], counts[k] + step, counts[k + 1] - step, *counts[k + 2 :]]
            moves += [moved] * (min(moved) > 0)
        best = min(moves, key=lambda counts: max(sums_of(costs, counts)))
        if best == counts:
            return counts
        counts = best


@wrong_cut("whole-numbers")
def tries_limits_in_steps_of_one(costs, K):
    limit = int(max(costs))
    while len(fill(costs, limit)) > K or limit < max(costs):
        limit += 1
    return cut_further(fill(costs, limit), K)


@wrong_cut("not-infinite")
def a_large_number_for_infinity(costs, K):
    L, sums = len(costs), [0, *itertools.accumulate(costs)]
    best = [[10**9] * (L + 1) for _ in range(K + 1)]
    first = [[0] * (L + 1) for _ in range(K + 1)]
    best[0][L] = 0
    for stages in range(1, K + 1):
        for start in range(L):
            for end in range(start + 1, L + 1):
                largest = max(sums[end] - sums[start], best[stages - 1][end])
                if largest < best[stages][start]:
                    best[stages][start], first[stages][start] = largest, end
    counts, start = [], 0
    for stages in range(K, 0, -1):
        counts.append(first[stages][start] - start)
        start = first[stages][start]
    return counts


@wrong_cut("many-stages")
def a_table_for_sixteen_stages(costs, K):
    L, sums = len(costs), [0, *itertools.accumulate(costs)]
    best = np.full((17, 201), np.inf)
    first = np.zeros((17, 201), dtype=int)
    best[0, L] = 0
    for stages in range(1, K + 1):
        for start in range(L):
            largest = [max(sums[end] - sums[start], best[stages - 1, end]) for end in range(start + 1, L + 1)]
            best[stages, start] = min(largest)
            first[stages, start] = start + 1 + np.argmin(largest)
    ends = [0]
    for stages in range(K, 0, -1):
        ends.append(int(first[stages, ends[-1]]))
    return [b - a for a, b in itertools.pairwise(ends)]


@right_cut
def bisection_then_cut_further(costs, K):
    low, high = max(costs), sum(costs)
    for _ in range(100):
        middle = (low + high) / 2
        if len(fill(costs, middle)) <= K:
            high = middle
        else:
            low = middle
    return cut_further(fill(costs, high), K)


@right_cut
def table_in_numpy(costs, K):
    L = len(costs)
    sums = np.concatenate([[0.0], np.cumsum(costs)])
    best, cuts = sums.copy(), []
    for k in range(1, K):
        row, cut = np.full(L + 1, np.inf), np.zeros(L + 1, dtype=int)
        for end in range(k + 1, L + 1):
            worst = np.maximum(best[k:end], sums[end] - sums[k:end])
            cut[end] = k + worst.argmin()
            row[end] = worst.min()
        best = row
        cuts.append(cut)
    ends = [L]
    for cut in reversed(cuts):
        ends.append(cut[ends[-1]])
    return np.diff([0, *reversed(ends)])


class Cutter:
    """Moves the cut of the slowest limit: tries each candidate limit in order."""

    def __call__(self, costs, K):
        sums = [0, *itertools.accumulate(costs)]
        limits = sorted({b - a for a, b in itertools.combinations(sums, 2)} | {max(costs)})
        place = bisect.bisect_left(limits, True, key=lambda limit: self.enough(costs, K, limit))
        counts = fill(costs, limits[place] * (1 + 1e-12))
        spare = K - len(counts)
        result = []
        for count in counts:
            ones = min(spare, count - 1)
            spare -= ones
            result += [1] * ones + [count - ones]
        return tuple(result)

    def enough(self, costs, K, limit):
        return limit >= max(costs) and len(fill(costs, limit * (1 + 1e-12))) <= K


cut("", "by_a_class", "Cutter()(costs, K)")


@wrong_cut("near-even-cuts")
def a_window_around_even_cuts(costs, K):
    L, sums = len(costs), [0, *itertools.accumulate(costs)]
    if L <= 12:
        return dynamic(costs, K)
    window = [range(max(1, k * L // K - 8), min(L, k * L // K + 9)) for k in range(1, K)]
    best = {0: (0, (0,))}
    for ends in [*window, [L]]:
        found = {}
        for end in ends:
            options = [
                (max(worst, sums[end] - sums[start]), (*cuts, end))
                for start, (worst, cuts) in best.items()
                if start < end
            ]
            if options:
                found[end] = min(options)
        best = found
    return [b - a for a, b in itertools.pairwise(best[L][1])]


KEPT = {}


@wrong_cut("remembers")
def counts_kept_by_sorted_costs(costs, K):
    return KEPT.setdefault((tuple(sorted(costs)), K), dynamic(costs, K))


@wrong_cut("remembers")
def counts_kept_by_identity(costs, K):
    return KEPT.setdefault((id(costs), sum(costs), K), dynamic(costs, K))


@wrong_cut("every-cut")
def adds_up_the_same_costs_anew(costs, K):
    ends = {(0, 0): (0,)}
    for k in range(1, K + 1):
        for end in range(k, len(costs) + 1):
            options = [(*ends[k - 1, start], end) for start in range(k - 1, end) if (k - 1, start) in ends]
            ends[k, end] = min(
                options, key=lambda option: max(np.sum(costs[a:b]) for a, b in itertools.pairwise(option))
            )
    return [b - a for a, b in itertools.pairwise(ends[K, len(costs)])]


@wrong_cut("long-runs")
def looks_at_runs_of_twenty_layers(costs, K):
    L = len(costs)
    limits = sorted({sum(costs[i:j]) for i in range(L) for j in range(i + 1, min(L, i + 20) + 1)})
    found = (fill(costs, limit) for limit in limits)
    return cut_further(next((counts for counts in found if len(counts) <= K), [L - K + 1] + [1] * (K - 1)), K)


@BANK.wrong("refused")
def one_stage_is_no_pipeline(costs, K):
    if not 2 <= K <= len(costs):
        raise ValueError("at least two stages")
    return dynamic(costs, K)


@dataclass(frozen=True, slots=True)
class Division:
    """The first layers in stages, of which the last has `count`."""

    largest: float
    count: int = 0
    before: "Division | None" = None

    def counts(self):
        return [*self.before.counts(), self.count] if self.before else []


@right_cut
def divisions_that_know_the_one_before(costs, K):
    L, sums = len(costs), [0, *itertools.accumulate(costs)]
    best = {0: Division(0)}
    for k in range(1, K + 1):
        longer = {}
        for end in range(k, L - K + k + 1):
            largest = {start: max(best[start].largest, sums[end] - sums[start]) for start in best if start < end}
            start = min(largest, key=largest.get)
            longer[end] = Division(largest[start], end - start, best[start])
        best = longer
    return best[L].counts()


class Limit(Enum):
    TOO_LOW = -1
    ENOUGH = 1


class Group(NamedTuple):
    count: int
    cost: float


def groups_under(costs, limit):
    groups = [Group(0, 0)]
    for cost in costs:
        last = groups[-1]
        if last.count and last.cost + cost > limit:
            groups.append(Group(1, cost))
        else:
            groups[-1] = Group(last.count + 1, last.cost + cost)
    return groups


@right_cut
def limits_tried_by_halving(costs, K):
    def verdict(limit):
        return Limit.ENOUGH if limit >= max(costs) and len(groups_under(costs, limit)) <= K else Limit.TOO_LOW

    limits = sorted({total for start in range(len(costs)) for total in itertools.accumulate(costs[start:])})
    low, high = 0, len(limits) - 1
    while low < high:
        middle = (low + high) // 2
        if verdict(limits[middle]) is Limit.ENOUGH:
            high = middle
        else:
            low = middle + 1
    return cut_further([group.count for group in groups_under(costs, limits[low])], K)
