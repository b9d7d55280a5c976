"""Exercise 02, the clock."""

from dataclasses import dataclass
from enum import Flag
from functools import partial
from typing import NamedTuple

import numpy as np

from tests.solutions.bank import Bank

BANK = Bank("ex02/clock")


def diagonals(K, M):
    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]


changed = partial(BANK.changed, of=diagonals)


@BANK.wrong("one-at-a-time")
def a_loop_is_a_pipeline(K, M):
    return [[(m, k)] for m in range(M) for k in range(K)]


@BANK.wrong("not-ticks")
def the_tick_of_each_pair(K, M):
    return {(m, k): m + k for m in range(M) for k in range(K)}


@BANK.wrong("one-list")
def one_list_for_all_ticks(K, M):
    ticks = [[]] * (M + K - 1)
    for m in range(M):
        for k in range(K):
            ticks[m + k].append((m, k))
    return ticks


@BANK.wrong("same-tick")
def a_micro_batch_per_tick(K, M):
    return [[(m, k) for k in range(K)] for m in range(M)]


@BANK.wrong("crowded")
def a_stage_per_tick(K, M):
    return [[(m, k) for m in range(M)] for k in range(K)]


@BANK.wrong("from-the-back")
def starts_at_the_loss(K, M):
    return [[(t - (K - 1 - k), k) for k in range(K) if 0 <= t - (K - 1 - k) < M] for t in range(M + K - 1)]


@BANK.wrong("too-slow")
def waits_a_tick_for_the_message(K, M):
    return [[(t - 2 * k, k) for k in range(K) if 0 <= t - 2 * k < M] for t in range(M + 2 * K - 2)]


@BANK.wrong("too-early")
def odd_stages_lead(K, M):
    lead = [2 * (k % 2) for k in range(K)]
    return [[(t - k + lead[k], k) for k in range(K) if 0 <= t - k + lead[k] < M] for t in range(M + K - 1)]


changed("missing", "one_tick_too_few", "M + K - 1", "M + K - 2")
changed("empty-tick", "one_tick_too_many", "M + K - 1", "M + K")
changed("no-bounds", "nothing_at_the_ends", " if 0 <= t - k < M", "")
changed("swapped", "stage_first", "(t - k, k)", "(k, t - k)")
changed("from-one", "counts_from_one", "(t - k, k)", "(t - k + 1, k + 1)")
changed("from-one", "stages_count_from_one", "(t - k, k)", "(t - k, k + 1)")
changed("from-one", "micro_batches_count_from_one", "(t - k, k)", "(t - k + 1, k)")
changed("order", "last_micro_batch_first", "(t - k, k)", "(M - 1 - (t - k), k)")
changed("flat", "all_pairs_in_one_list", "[[(t", "[pair for tick in [[(t", "- 1)]", "- 1)] for pair in tick]")
changed("twice", "steady_state_padded", "(t - k, k)", "(min(max(t - k, 0), M - 1), k)", " if 0 <= t - k < M", "")
changed("not-pairs", "only_micro_batches", "(t - k, k)", "t - k")
changed("not-pairs", "sets_of_a_pair", "(t - k, k)", "{t - k, k}")
changed("not-ticks", "a_dict_of_ticks_from_one", "[[(t", "{t + 1: [(t", "- 1)]", "- 1)}")
changed("", "a_dict_of_ticks", "[[(t", "{t: [(t", "- 1)]", "- 1)}")
changed("idle-stages", "no_more_stages_than_micro_batches", "range(K)", "range(min(K, M))")
changed("only-small", "never_more_than_64", "K, M):", "K, M):\n    M = min(M, 64)")
changed("", "an_array_for_each_tick", "[(t", "np.array([(t", "< M]", "< M])")


@BANK.right
def grows_by_appending(K, M):
    ticks = []
    waiting = {0: list(range(M))}
    for k in range(1, K):
        waiting[k] = []
    while any(waiting.values()):
        tick = []
        for k in range(K):
            if waiting[k]:
                tick.append((waiting[k].pop(0), k))
        for m, k in tick:
            if k + 1 < K:
                waiting[k + 1].append(m)
        ticks.append(tick)
    return ticks


@BANK.right
def sets_from_a_generator(K, M):
    for t in range(M + K - 1):
        yield {(m, t - m) for m in range(max(0, t - K + 1), min(M, t + 1))}


@BANK.right
def arrays_of_numbers(K, M):
    grid = np.add.outer(np.arange(M), np.arange(K))
    return tuple(tuple((m, k) for m, k in zip(*np.where(grid == t), strict=True)) for t in range(M + K - 1))


@BANK.wrong("not-whole")
def floats(K, M):
    return [[(float(t - k), k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]


@BANK.right
def generators_of_a_loop_that_goes_on(K, M):
    for t in range(M + K - 1):
        yield ((t - k, k) for k in range(K) if 0 <= t - k < M)


@dataclass
class Station:
    """A stage, and the micro-batch that it works on."""

    number: int
    micro_batch: int | None = None


@BANK.right
def stations_that_hand_on(K, M):
    line, ticks = [Station(k) for k in range(K)], []
    for t in range(M + K - 1):
        for k in reversed(range(1, K)):
            line[k].micro_batch = line[k - 1].micro_batch
        line[0].micro_batch = t if t < M else None
        ticks.append([(one.micro_batch, one.number) for one in line if one.micro_batch is not None])
    return ticks


class Phase(Flag):
    FULL = 0
    FILLING = 1
    DRAINING = 2


class Call(NamedTuple):
    micro_batch: int
    stage: int


@BANK.right
def by_phases(K, M):
    ticks = []
    for t in range(M + K - 1):
        phase = (Phase.FILLING if t < K - 1 else Phase.FULL) | (Phase.DRAINING if t >= M else Phase.FULL)
        first = t - M + 1 if Phase.DRAINING in phase else 0
        last = t if Phase.FILLING in phase else K - 1
        ticks.append([Call(t - k, stage=k) for k in range(first, last + 1)])
    return ticks


@BANK.wrong("handed-out-again")
def yields_one_list_again_and_again(K, M):
    tick = []
    for t in range(M + K - 1):
        tick[:] = [(t - k, k) for k in range(K) if 0 <= t - k < M]
        yield tick


TICKS = []


@BANK.wrong("too-deep")
def each_pair_calls_for_the_next(K, M):
    ticks = [[] for _ in range(K + M - 1)]

    def place(m, k):
        ticks[m + k].append((m, k))
        if k + 1 < K:
            place(m, k + 1)
        elif m + 1 < M:
            place(m + 1, 0)

    place(0, 0)
    return ticks


@BANK.wrong("stays")
def appends_to_what_was_there(K, M):
    TICKS.extend(diagonals(K, M))
    return TICKS


changed(
    "stays",
    "ticks_in_a_default",
    "K, M):\n    return [",
    "K, M, ticks=[]):\n    ticks += [",
    "range(M + K - 1)]",
    "range(M + K - 1)]\n    return ticks",
)
