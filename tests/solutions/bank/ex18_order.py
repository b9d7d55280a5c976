"""Exercise 18, packs in a good order."""

import math
import random
from dataclasses import dataclass
from enum import Enum
from itertools import permutations
from typing import NamedTuple

import numpy as np

import gpipe_edu as ge
from tests.solutions.bank import Bank

BANK = Bank("ex18/order")
SEEN = {}
PLANS = {}


def step(costs, packs):
    """As `simulate` says, in a twentieth of the time: some answers ask for thousands."""
    if len(packs) not in PLANS:
        steps = ge.one_f_one_b(4, len(packs)).steps
        place = {op: at for at, (_, op, _) in enumerate(steps)}
        PLANS[len(packs)] = [
            (device, 2 if op.kind == "B" else 1, op.micro_batch, [place[need] for need in needs])
            for device, op, needs in steps
        ]
    free, ends = [0, 0, 0, 0], []
    for device, times, m, needs in PLANS[len(packs)]:
        start = free[device]
        for need in needs:
            if ends[need] > start:
                start = ends[need]
        free[device] = start + times * costs[packs[m]]
        ends.append(free[device])
    return max(free)


def held(costs, packs):
    row = [costs[m] for m in packs]
    return max(sum(row[at : at + 4]) for at in range(len(row)))


@BANK.right
def pyramid_then_exchanges(costs, memory):
    up = sorted(range(len(costs)), key=lambda m: costs[m])
    row = up[::2] + up[1::2][::-1]
    if held(costs, row) <= memory:
        return row
    best = None
    for seed in range(6):
        row = random.Random(seed).sample(up, len(up))
        now = (max(0, held(costs, row) - memory), step(costs, row))
        again = True
        while again:
            again = False
            for i in range(len(row)):
                for j in range(i):
                    row[i], row[j] = row[j], row[i]
                    there = (max(0, held(costs, row) - memory), step(costs, row))
                    if there < now:
                        now, again = there, True
                    else:
                        row[i], row[j] = row[j], row[i]
        if best is None or now < best[0]:
            best = now, list(row)
    return best[1]


changed = BANK.changed
PYRAMID = "row = up[::2] + up[1::2][::-1]"
FITS = "    if held(costs, row) <= memory:\n        return row\n"


def at_once(slip, name, row, *more):
    """Adds an answer that takes this row where memory is ample."""
    changed(slip, name, PYRAMID, f"row = {row}", *more)


at_once("shortest-first", "sorted_up", "up")
at_once("longest-first", "sorted_down", "up[::-1]")
at_once("longest-first", "longest_processing_time", "sorted(up, key=lambda m: -costs[m])")
at_once("as-given", "leaves_them_as_they_are", "list(range(len(costs)))")
at_once("longest-at-the-ends", "shortest_in_the_middle", "up[::-1][::2] + up[::-1][1::2][::-1]")
at_once("longest-at-the-ends", "halves_the_wrong_way_round", "up[1::2][::-1] + up[::2]")
at_once("alternates", "long_short_long_short", "[m for pair in zip(up[::-1], up) for m in pair][: len(up)]")
at_once("alternates", "short_long_short_long", "[m for pair in zip(up, up[::-1]) for m in pair][: len(up)]")
at_once("one-sided", "one_short_at_the_end", "up[:1] + up[2:] + up[1:2]")
at_once("one-sided", "first_quarter_up", "up[: len(up) // 4] + up[len(up) // 4 :][::-1]")
at_once("missing", "one_half_twice_as_short", "up[::2] + up[3::2][::-1]")
at_once("missing", "stops_one_early", "up[::2] + up[1::2][:0:-1]")
at_once("missing", "loses_those_that_cost_the_same", "list({costs[m]: m for m in up}.values())")
at_once("twice", "finds_the_first_of_each_cost", "[costs.index(cost) for cost in sorted(costs)]")
at_once("twice", "middle_in_both_halves", "up[::2] + up[::-1][len(up) % 2 :: 2] + up[-1:]")
at_once("places", "place_of_each_pack", "[(up[::2] + up[1::2][::-1]).index(m) for m in range(len(up))]")
at_once("no-such-pack", "counted_from_behind", "[m - len(up) for m in up[::2] + up[1::2][::-1]]")


def given_back(slip, name, value):
    """Adds an answer that gives back this where the row fits."""
    changed(slip, name, "        return row\n", f"        return {value}\n")


given_back("costs-for-numbers", "sorts_the_costs", "sorted(costs)")
given_back("costs-for-numbers", "pyramid_of_costs", "sorted(costs)[::2] + sorted(costs)[1::2][::-1]")
given_back("costs-for-numbers", "array_of_costs", "np.sort(costs)")
given_back("from-one", "counts_from_one", "[m + 1 for m in row]")
given_back("not-a-list", "as_a_dict", "dict(enumerate(row))")
given_back("not-a-list", "how_long_it_takes", "step(costs, row)")
given_back("not-numbers", "pairs_of_number_and_cost", "[(m, costs[m]) for m in row]")
given_back("no-return", "forgets_to_return", "None")
changed("memory-ignored", "never_asks_for_memory", "held(costs, row) <= memory", "True")
changed("memory-ignored", "asks_for_a_single_pack", "held(costs, row) <= memory", "max(costs) <= memory")
changed(
    "fewer-in-flight",
    "three_in_flight",
    "held(costs, row) <= memory",
    "held(costs, row) <= memory and False",
    "there = (max(0, held(costs, row) - memory), step(costs, row))",
    "there = (max(0, max(sum(costs[m] for m in row[i : i + 3]) for i in range(len(row))) - memory), step(costs, row))",
    "now = (max(0, held(costs, row) - memory), step(costs, row))",
    "now = (math.inf, 0)",
)
changed(
    "too-full",
    "begins_with_a_middling_one",
    FITS,
    f"{FITS}    row.insert(0, row.pop(len(row) // 3))\n    return row\n",
)


changed(
    "not-best", "leaves_four_as_they_are", FITS, "    if len(costs) < 5:\n        return [*range(len(costs))]\n" + FITS
)
changed("too-full", "allows_a_hundredth_more", "held(costs, row) <= memory", "held(costs, row) <= memory + 0.01")


@BANK.wrong("too-full")
def closes_the_row_to_a_ring(costs, memory):
    row = pyramid_then_exchanges(costs, memory)
    ring = row + row[:3]
    fits = max(sum(costs[m] for m in ring[at : at + 4]) for at in range(len(row))) <= memory
    return row if fits else sorted(row, key=lambda m: costs[m])


@BANK.wrong("input-changed")
def sorts_in_place(costs, memory):
    row = pyramid_then_exchanges(costs, memory)
    costs.sort()
    return row


@BANK.wrong("input-changed")
def pops_the_shortest(costs, memory):
    row = pyramid_then_exchanges(list(costs), memory)
    while costs:
        costs.pop()
    return row


@BANK.wrong("every-order")
def tries_them_all(costs, memory):
    fits = (row for row in permutations(range(len(costs))) if held(costs, row) <= memory)
    return list(min(fits, key=lambda row: step(costs, row)))


@BANK.wrong("ready-made")
def calls_the_search(costs, memory):
    from gpipe_edu.timeline import order_micro_batches

    return order_micro_batches(ge.one_f_one_b(4, len(costs)), ge.Costs(micro_batches=costs), memory).order


@BANK.wrong("fits-only")
def the_first_that_fits(costs, memory):
    up = sorted(range(len(costs)), key=lambda m: costs[m])
    row = up[::2] + up[1::2][::-1]
    rng = random.Random(0)
    while held(costs, row) > memory:
        rng.shuffle(row)
    return row


@BANK.wrong("fits-only")
def spreads_them_where_it_is_tight(costs, memory):
    down = sorted(range(len(costs)), key=lambda m: -costs[m])
    row = down[::-1][::2] + down[::-1][1::2][::-1]
    if held(costs, row) <= memory:
        return row
    rows = [down[start::3] for start in range(3)]
    row = [rows[k][i] for i in range(len(rows[0])) for k in (1, 0, 2) if i < len(rows[k])]
    return row if held(costs, row) <= memory else the_first_that_fits(costs, memory)


@BANK.wrong("ends")
def longest_in_the_middle_others_as_they_come(costs, memory):
    top = max(range(len(costs)), key=lambda m: costs[m])
    others = [m for m in range(len(costs)) if m != top]
    half = len(others) // 2
    return [*others[:half], top, *others[half:]]


@BANK.wrong("ends")
def tries_fifty_at_random(costs, memory):
    rng, M = random.Random(1), len(costs)
    rows = [rng.sample(range(M), M) for _ in range(50)]
    return min(rows, key=lambda row: (max(0, held(costs, row) - memory), step(costs, row)))


@BANK.wrong("not-best")
def neighbours_only(costs, memory):
    row = list(range(len(costs)))
    better = True
    while better:
        better = False
        for i in range(len(row) - 1):
            other = [*row]
            other[i : i + 2] = row[i + 1], row[i]
            if (max(0, held(costs, other) - memory), step(costs, other)) < (
                max(0, held(costs, row) - memory),
                step(costs, row),
            ):
                row, better = other, True
    return row


@BANK.wrong("arguments")
def without_memory(costs):
    return pyramid_then_exchanges(costs, math.inf)


@BANK.wrong("error")
def costs_of_costs(costs, memory):
    return sorted(costs, key=lambda cost: costs[cost])


@BANK.wrong("places")
def ranks_by_argsort(costs, memory):
    row = pyramid_then_exchanges(costs, memory)
    return np.argsort(row).tolist()


class End(Enum):
    FRONT = 0
    BACK = 1


class Try(NamedTuple):
    excess: float
    time: float
    row: tuple


@dataclass
class Line:
    """Packs for both ends, the shortest first."""

    front: list
    back: list

    def add(self, m, end):
        if end is End.FRONT:
            self.front.append(m)
        else:
            self.back.insert(0, m)

    @property
    def row(self):
        return [*self.front, *self.back]


@BANK.right
def from_both_ends_then_insertions(costs, memory):
    line = Line([], [])
    for place, m in enumerate(np.argsort(costs, kind="stable")):
        line.add(int(m), End(place % 2))

    def tried(row):
        return Try(max(0, held(costs, row) - memory), step(costs, row), tuple(row))

    def moved(row, i, j):
        rest = [*row[:i], *row[i + 1 :]]
        return [*rest[:j], row[i], *rest[j:]]

    best = tried(line.row)
    if not best.excess:
        return np.array(best.row)
    found = []
    for seed in range(4):
        now = tried(random.Random(seed).sample(line.row, len(line.row)))
        while True:
            near = min(tried(moved(now.row, i, j)) for i in range(len(costs)) for j in range(len(costs)))
            if near[:2] >= now[:2]:
                break
            now = near
        found.append(now)
    return np.array(min(found).row)


@BANK.right
def mirrored_and_then_the_best_of_many(costs, memory):
    M = len(costs)
    up = sorted(range(M), key=costs.__getitem__)
    row = up[1::2] + up[::2][::-1]
    if held(costs, row) <= memory:
        return (m for m in row)
    rng, rows = random.Random(4), []
    while len(rows) < 1500:
        row = rng.sample(up, M)
        if held(costs, row) <= memory:
            rows.append(row)
    return (m for m in min(rows, key=lambda row: step(costs, row)))


@BANK.right
def cools_down(costs, memory):
    """Simulated annealing."""
    rng, row = random.Random(2), sorted(range(len(costs)), key=lambda m: costs[m])
    row = row[::2] + row[1::2][::-1]

    def badness(row):
        return step(costs, row) + 30 * max(0, held(costs, row) - memory)

    now, best, heat = badness(row), None, 0.03 * badness(row)
    for left in range(900, 0, -1):
        if held(costs, row) <= memory and (best is None or now < best[0]):
            best = now, [*row]
        if len(row) < 2 or (left == 900 and best):
            break
        i, j = rng.sample(range(len(row)), 2)
        row[i], row[j] = row[j], row[i]
        there = badness(row)
        if there < now or rng.random() < math.exp((now - there) / (heat * left / 900)):
            now = there
        else:
            row[i], row[j] = row[j], row[i]
    return best[1]


@BANK.right
def all_orders_of_a_few(costs, memory):
    if len(costs) <= 5:
        fits = (row for row in permutations(range(len(costs))) if held(costs, row) <= memory)
        return list(min(fits, key=lambda row: step(costs, row)))
    return pyramid_then_exchanges(costs, memory)


@BANK.wrong("stays")
def remembers_by_length(costs, memory):
    if (len(costs), memory > sum(costs) / 2) not in SEEN:
        SEEN[len(costs), memory > sum(costs) / 2] = pyramid_then_exchanges(costs, memory)
    return SEEN[len(costs), memory > sum(costs) / 2]
