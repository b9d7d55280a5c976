"""Exercise 09, early recompute."""

from gpipe_edu import Op, Schedule
from tests.solutions.bank import Bank

BANK = Bank("ex09/early")


def forwards(k, M):
    return [Op("F", m, k) for m in range(M)]


@BANK.wrong("late")
def checkpointed_backwards(K, M):
    return [forwards(k, M) + [Op("C", m, k) for m in reversed(range(M))] for k in range(K)]


@BANK.wrong("no-recompute")
def forgets_it(K, M):
    return [forwards(k, M) + [Op("B", m, k) for m in reversed(range(M))] for k in range(K)]


@BANK.wrong("order")
def recompute_after_backward(K, M):
    return [forwards(k, M) + [Op(kind, m, k) for m in reversed(range(M)) for kind in "BR"] for k in range(K)]


@BANK.wrong("all-first")
def all_recomputes_first(K, M):
    return [
        forwards(k, M) + [Op("R", m, k) for m in reversed(range(M))] + [Op("B", m, k) for m in reversed(range(M))]
        for k in range(K)
    ]


@BANK.wrong("at-once")
def right_after_the_forward(K, M):
    return [
        [Op(kind, m, k) for m in range(M) for kind in "FR"] + [Op("B", m, k) for m in reversed(range(M))]
        for k in range(K)
    ]


@BANK.wrong("last-stage-spared")
def the_last_stage_needs_none(K, M):
    return [
        forwards(k, M) + [Op(kind, m, k) for m in reversed(range(M)) for kind in ("RB" if k < K - 1 else "B")]
        for k in range(K)
    ]


@BANK.wrong("except-last")
def the_last_micro_batch_needs_none(K, M):
    return [
        forwards(k, M) + [Op(kind, m, k) for m in reversed(range(M)) for kind in ("RB" if m < M - 1 else "B")]
        for k in range(K)
    ]


@BANK.wrong("some-spared")
def the_first_stage_needs_none(K, M):
    return [
        forwards(k, M) + [Op(kind, m, k) for m in reversed(range(M)) for kind in ("RB" if k else "B")] for k in range(K)
    ]


@BANK.wrong("mixed")
def both_ways_at_once(K, M):
    return [forwards(k, M) + [Op(kind, m, k) for m in reversed(range(M)) for kind in "RC"] for k in range(K)]


@BANK.wrong("mixed-order")
def one_f_one_b_with_recompute(K, M):
    rows = []
    for k in range(K):
        w = min(M, K - 1 - k)
        row = forwards(k, w)
        for m in range(M):
            row += [Op("F", w + m, k)] if w + m < M else []
            row += [Op("R", m, k), Op("B", m, k)]
        rows.append(row)
    return rows


@BANK.wrong("too-slow")
def devices_disagree(K, M):
    return [
        forwards(k, M) + [Op(kind, m, k) for m in (range(M) if k % 2 else reversed(range(M))) for kind in "RB"]
        for k in range(K)
    ]


@BANK.wrong("duplicate")
def recomputes_twice(K, M):
    return [forwards(k, M) + [Op(kind, m, k) for m in reversed(range(M)) for kind in "RRB"] for k in range(K)]


@BANK.wrong("missing")
def stops_at_one(K, M):
    return [forwards(k, M) + [Op(kind, m, k) for m in range(M - 1, -1, -1) for kind in "RB"][:-1] for k in range(K)]


@BANK.wrong("only-small")
def tried_with_sixteen_micro_batches(K, M):
    rows = first_one_first(K, min(M, 16)).rows
    return [[*row, *(Op(kind, m, k) for m in range(16, M) for kind in "FB")] for k, row in enumerate(rows)]


@BANK.right
def first_one_first(K, M):
    return Schedule([forwards(k, M) + [Op(kind, m, k) for m in range(M) for kind in "RB"] for k in range(K)])


@BANK.wrong("no-ops")
def from_text(K, M):
    line = " ".join([f"F{m}" for m in range(M)] + [f"R{m} B{m}" for m in reversed(range(M))])
    return [line] * K


@BANK.right
def rows_that_are_made_when_asked_for(K, M):
    for k in range(K):
        yield (Op(kind, m, k) for kinds in ("F", "RB") for m in range(M) for kind in kinds)


@BANK.wrong("two-at-once")
def one_recompute_ahead(K, M):
    rows = []
    for k in range(K):
        row = [*forwards(k, M), Op("R", M - 1, k)]
        for m in reversed(range(M)):
            row += [Op("R", m - 1, k)] if m else []
            row.append(Op("B", m, k))
        rows.append(row)
    return rows


@BANK.wrong("split-backward")
def two_halves_of_a_backward(K, M):
    return [forwards(k, M) + [Op(kind, m, k) for m in reversed(range(M)) for kind in "RIW"] for k in range(K)]


@BANK.wrong("error")
def the_package_own_early_recompute(K, M):
    from gpipe_edu.schedule.recipes import gpipe

    return gpipe(K, M, "early")
