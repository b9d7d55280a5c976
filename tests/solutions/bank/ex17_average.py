"""Exercise 17, second part: gradients that are averaged over the wrong group, or divided by its size."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tests.solutions.bank import Bank

BANK = Bank("ex17/average")


@BANK.right
def holders_first(dense, experts):
    R = len(dense)
    holders = {}
    for rank in range(R):
        for e in experts[rank]:
            holders.setdefault(e, []).append(rank)
    new_dense, new_experts = [], []
    for rank in range(R):
        new_dense.append(sum(dense) / R)
        mine = {}
        for e in experts[rank]:
            total = sum(experts[other][e] for other in holders[e])
            mine[e] = total / R
        new_experts.append(mine)
    return new_dense, new_experts


@BANK.right
def in_fractions(dense, experts):
    dense, experts = [Fraction(one) for one in dense], [{e: Fraction(own[e]) for e in own} for own in experts]
    return holders_first(dense, experts)


@BANK.right
def zeros_for_the_others(dense, experts):
    R = len(dense)
    table = np.zeros((R, 1 + max(e for own in experts for e in own)))
    for rank, own in enumerate(experts):
        table[rank, list(own)] = list(own.values())
    means = table.mean(axis=0)
    return np.full(R, np.mean(dense)), [{e: means[e] for e in own} for own in experts]


class Weight(Enum):
    DENSE = "dense"
    EXPERT = "expert"


class Name(NamedTuple):
    kind: Weight
    number: int = 0


@dataclass
class Sum:
    total: float = 0.0

    def add(self, gradient):
        self.total += gradient
        return self


@BANK.right
def one_dict_for_all_weights(dense, experts):
    sums = defaultdict(Sum)
    for gradient, own in zip(dense, experts, strict=True):
        sums[Name(Weight.DENSE)].add(gradient)
        for e in own:
            sums[Name(Weight.EXPERT, e)].add(own[e])
    means = {name: its.total / len(dense) for name, its in sums.items()}
    every = [means[Name(Weight.DENSE)] for _ in dense]
    return every, [{e: means[Name(Weight.EXPERT, e)] for e in own} for own in experts]


@BANK.right
def mean_over_holders_then_the_group(dense, experts):
    held = Counter(e for own in experts for e in own)
    sums = Counter()
    for own in experts:
        sums.update(own)
    group = [len(dense) / held[next(iter(own))] for own in experts]
    mean = sum(dense) / len(dense)
    return [
        (mean for _ in dense),
        [{e: sums[e] / held[e] / size for e in own} for own, size in zip(experts, group, strict=True)],
    ]


TOTAL, DENSE, ANSWER = "mine[e] = total / R", "new_dense.append(sum(dense) / R)", "return new_dense, new_experts"
OWN = "total = sum(experts[other][e] for other in holders[e])"
GROUP = "(R // len(holders[e]))"


def change(slip, name, *texts):
    BANK.changed(slip, name, *texts, of=holders_first)


change("over-holders", "mean_over_holders", TOTAL, "mine[e] = total / len(holders[e])")
change("experts-added-up", "sum_over_holders", TOTAL, "mine[e] = total")
change("divided-by-group", "by_the_group", TOTAL, f"mine[e] = total / {GROUP}")
change("divided-by-group", "by_the_experts", TOTAL, "mine[e] = total / len(holders)")
change("experts-alone", "experts_stay", TOTAL, "mine[e] = experts[rank][e]")
change("experts-alone", "experts_are_never_replicated", OWN, "total = experts[rank][e]")
change("experts-alone", "only_within_a_group", TOTAL, f"mine[e] = experts[rank][e] / {GROUP}")
change("dense-alone", "dense_stays", DENSE, "new_dense.append(dense[rank])")
change("dense-added-up", "sum_of_all", DENSE, "new_dense.append(sum(dense))")
change(
    "dense-divisor", "by_the_copies", DENSE, "new_dense.append(sum(dense) / len(holders[next(iter(experts[rank]))]))"
)
change(
    "dense-in-groups",
    "with_those_who_hold_the_same",
    DENSE,
    "its = holders[next(iter(experts[rank]))]\n        new_dense.append(sum(dense[other] for other in its) / len(its))",
)
change("dense-added-up", "both_added_up", DENSE, "new_dense.append(sum(dense))", TOTAL, "mine[e] = total")
change(
    "all-experts",
    "everybody_gets_all",
    "for e in experts[rank]:\n            total",
    "for e in holders:\n            total",
)
change(
    "missing",
    "the_first_alone",
    "for e in experts[rank]:\n            total",
    "for e in list(experts[rank])[:1]:\n            total",
)
change("dense-once", "one_number_for_all", ANSWER, "return sum(dense) / R, new_experts")
change("not-two", "experts_alone_come_back", ANSWER, "return new_experts")
change("by-rank", "pairs", ANSWER, "return list(zip(new_dense, new_experts, strict=True))")
change("dicts", "lists_of_numbers", ANSWER, "return new_dense, [list(own.values()) for own in new_experts]")
change("ranks", "one_dict", ANSWER, "return new_dense, new_experts[:1] * (R > 1)")
change("not-numbers", "texts", TOTAL, "mine[e] = str(total / R)")
change("no-return", "no_return", ANSWER, "new_dense, new_experts")
change("experts-off", "by_one_too_many", TOTAL, "mine[e] = total / (R + 1)")
change("dense-off", "the_first_decides", DENSE, "new_dense.append(dense[0])")


@BANK.wrong("other-experts")
def one_mean_for_all_experts(dense, experts):
    R, every = len(dense), [gradient for own in experts for gradient in own.values()]
    return [sum(dense) / R] * R, [dict.fromkeys(own, sum(every) / len(every)) for own in experts]


@BANK.wrong("input-changed")
def in_place(dense, experts):
    mean, sums = sum(dense) / len(dense), Counter()
    for own in experts:
        sums.update(own)
    for rank, own in enumerate(experts):
        dense[rank] = mean
        for e in own:
            own[e] = sums[e] / len(dense)
    return dense, experts


def by_place(experts, ranks_with):
    lists = [list(own.values()) for own in experts]
    return [
        {e: sum(lists[other][i] for other in ranks_with(rank)) / len(ranks_with(rank)) for i, e in enumerate(own)}
        for rank, own in enumerate(experts)
    ]


@BANK.wrong("other-experts")
def all_weights_alike(dense, experts):
    R = len(dense)
    return [sum(dense) / R] * R, by_place(experts, lambda rank: range(R))


@BANK.wrong("other-experts")
def in_the_expert_group(dense, experts):
    R = len(dense)
    size = len({e for own in experts for e in own}) // len(experts[0])
    return [sum(dense) / R] * R, by_place(experts, lambda rank: range(rank // size * size, rank // size * size + size))


_seen = []


@BANK.wrong("stays")
def with_earlier_calls(dense, experts):
    _seen.extend(dense)
    mean, experts = sum(_seen) / len(_seen), holders_first(dense, experts)[1]
    return [mean] * len(dense), experts
