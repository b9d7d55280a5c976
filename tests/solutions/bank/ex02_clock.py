"""Exercise 02, the clock."""

from tests.solutions.bank import Bank

BANK = Bank("ex02/clock")


@BANK.wrong("one-at-a-time")
def a_loop_is_a_pipeline(K, M):
    return [[(m, k)] for m in range(M) for k in range(K)]


@BANK.wrong("same-tick")
def a_micro_batch_per_tick(K, M):
    return [[(m, k) for k in range(K)] for m in range(M)]


@BANK.wrong("crowded")
def a_stage_per_tick(K, M):
    return [[(m, k) for m in range(M)] for k in range(K)]


@BANK.wrong("missing")
def one_tick_too_few(K, M):
    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 2)]


@BANK.wrong("empty-tick")
def one_tick_too_many(K, M):
    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K)]


@BANK.wrong("no-bounds")
def nothing_at_the_ends(K, M):
    return [[(t - k, k) for k in range(K)] for t in range(M + K - 1)]


@BANK.wrong("swapped")
def stage_first(K, M):
    return [[(k, t - k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]


@BANK.wrong("from-the-back")
def starts_at_the_loss(K, M):
    return [[(t - (K - 1 - k), k) for k in range(K) if 0 <= t - (K - 1 - k) < M] for t in range(M + K - 1)]


@BANK.wrong("from-one")
def counts_from_one(K, M):
    return [[(t - k + 1, k + 1) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]


@BANK.wrong("order")
def last_micro_batch_first(K, M):
    return [[(M - 1 - (t - k), k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]


@BANK.wrong("too-slow")
def waits_a_tick_for_the_message(K, M):
    return [[(t - 2 * k, k) for k in range(K) if 0 <= t - 2 * k < M] for t in range(M + 2 * K - 2)]


@BANK.wrong("flat")
def all_pairs_in_one_list(K, M):
    return [(t - k, k) for t in range(M + K - 1) for k in range(K) if 0 <= t - k < M]


@BANK.wrong("twice")
def steady_state_padded(K, M):
    return [[(min(max(t - k, 0), M - 1), k) for k in range(K)] for t in range(M + K - 1)]


@BANK.wrong("not-pairs")
def only_micro_batches(K, M):
    return [[t - k for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]


@BANK.wrong("not-ticks")
def a_dict_of_ticks(K, M):
    return {t: [(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)}


@BANK.wrong("too-early")
def odd_stages_lead(K, M):
    lead = [2 * (k % 2) for k in range(K)]
    return [[(t - k + lead[k], k) for k in range(K) if 0 <= t - k + lead[k] < M] for t in range(M + K - 1)]


@BANK.wrong("idle-stages")
def no_more_stages_than_micro_batches(K, M):
    return [[(t - k, k) for k in range(min(K, M)) if 0 <= t - k < M] for t in range(M + K - 1)]


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
    import numpy as np

    grid = np.add.outer(np.arange(M), np.arange(K))
    return tuple(tuple((m, k) for m, k in zip(*np.where(grid == t), strict=True)) for t in range(M + K - 1))


@BANK.right
def an_array_for_each_tick(K, M):
    import numpy as np

    return [np.array([(t - k, k) for k in range(K) if 0 <= t - k < M]) for t in range(M + K - 1)]


@BANK.wrong("only-small")
def never_more_than_64(K, M):
    return [[(t - k, k) for k in range(K) if 0 <= t - k < min(M, 64)] for t in range(min(M, 64) + K - 1)]


@BANK.wrong("not-pairs")
def sets_of_a_pair(K, M):
    return [[{t - k, k} for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]
