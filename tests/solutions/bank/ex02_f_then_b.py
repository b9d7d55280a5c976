"""Exercise 02, F-then-B."""

import random

from gpipe_edu import Op, Schedule
from tests.solutions.bank import Bank

BANK = Bank("ex02/f-then-b")


def by_rule(K, M):
    return [[Op(kind, m, k) for kind in "FB" for m in range(M)] for k in range(K)]


@BANK.wrong("stops-at-one")
def range_that_stops_early(K, M):
    return [[Op("F", m, k) for m in range(M)] + [Op("B", m, k) for m in range(M - 1, 0, -1)] for k in range(K)]


@BANK.wrong("naive")
def one_after_the_other(K, M):
    return [[Op(kind, m, k) for m in range(M) for kind in "FB"] for k in range(K)]


@BANK.wrong("last-at-once")
def the_last_device_goes_back_at_once(K, M):
    rows = [[Op("F", m, k) for m in range(M)] + [Op("B", m, k) for m in range(M)] for k in range(K - 1)]
    return [*rows, [Op(kind, m, K - 1) for m in range(M) for kind in "FB"]]


@BANK.wrong("mixed-order")
def one_f_one_b(K, M):
    rows = []
    for k in range(K):
        warm_up = min(M, K - 1 - k)
        row = [Op("F", m, k) for m in range(warm_up)]
        for m in range(M):
            row += [Op("F", warm_up + m, k)] if warm_up + m < M else []
            row.append(Op("B", m, k))
        rows.append(row)
    return rows


@BANK.wrong("mirrored")
def backward_on_the_mirrored_device(K, M):
    return [[Op("F", m, k) for m in range(M)] + [Op("B", m, K - 1 - k) for m in reversed(range(M))] for k in range(K)]


@BANK.wrong("stage-zero")
def stage_zero_everywhere(K, M):
    return [[Op("F", m, 0) for m in range(M)] + [Op("B", m, 0) for m in reversed(range(M))] for _ in range(K)]


@BANK.wrong("swapped")
def stage_first(K, M):
    return [[Op("F", k, m) for m in range(M)] + [Op("B", k, m) for m in reversed(range(M))] for k in range(K)]


@BANK.wrong("by-micro-batch")
def a_row_per_micro_batch(K, M):
    return [[Op("F", m, k) for k in range(K)] + [Op("B", m, k) for k in reversed(range(K))] for m in range(M)]


@BANK.wrong("upside-down")
def last_device_first(K, M):
    return [[Op("F", m, k) for m in range(M)] + [Op("B", m, k) for m in reversed(range(M))] for k in reversed(range(K))]


@BANK.wrong("backward-orders")
def devices_disagree_going_back(K, M):
    rows = []
    for k in range(K):
        back = range(M) if k % 2 else reversed(range(M))
        rows.append([Op("F", m, k) for m in range(M)] + [Op("B", m, k) for m in back])
    return rows


@BANK.wrong("forward-orders")
def devices_disagree_going_forward(K, M):
    rows = []
    for k in range(K):
        front = reversed(range(M)) if k % 2 else range(M)
        rows.append([Op("F", m, k) for m in front] + [Op("B", m, k) for m in reversed(range(M))])
    return rows


@BANK.wrong("missing")
def forgets_the_loss_stage(K, M):
    rows = [[Op("F", m, k) for m in range(M)] + [Op("B", m, k) for m in reversed(range(M))] for k in range(K - 1)]
    return [*rows, [Op("F", m, K - 1) for m in range(M)]]


@BANK.wrong("duplicate")
def turns_round_twice(K, M):
    return [[Op("F", m, k) for m in range(M)] + [Op("B", m, k) for m in [M - 1, *reversed(range(M))]] for k in range(K)]


@BANK.wrong("order")
def backwards_first(K, M):
    return [[Op("B", m, k) for m in reversed(range(M))] + [Op("F", m, k) for m in range(M)] for k in range(K)]


@BANK.wrong("flat")
def one_long_list(K, M):
    return [Op(kind, m, k) for kind in "FB" for k in range(K) for m in range(M)]


@BANK.wrong("idle-slots")
def with_the_gaps_of_the_chart(K, M):
    return [
        [None] * k + [Op("F", m, k) for m in range(M)] + [None] * 2 * (K - 1 - k) + [Op("B", m, k) for m in range(M)]
        for k in range(K)
    ]


@BANK.wrong("rows")
def a_row_too_many(K, M):
    return [[Op("F", m, k) for m in range(M)] + [Op("B", m, k) for m in reversed(range(M))] for k in range(K + 1)]


@BANK.wrong("other-M")
def one_micro_batch_too_few(K, M):
    M = max(1, M - 1)
    return [[Op("F", m, k) for m in range(M)] + [Op("B", m, k) for m in reversed(range(M))] for k in range(K)]


@BANK.wrong("split-stage")
def micro_batches_dealt_to_devices(K, M):
    ops = [Op(kind, m, k) for kind in "FB" for m in range(M) for k in range(K)]
    return [[op for op in ops if (op.micro_batch + op.stage) % K == device] for device in range(K)]


@BANK.wrong("from-one")
def micro_batches_from_one(K, M):
    return [[op._replace(micro_batch=op.micro_batch + 1) for op in row] for row in by_rule(K, M)]


@BANK.wrong("exchanged")
def K_and_M_exchanged(K, M):
    return by_rule(M, K)


@BANK.wrong("left-over")
def rows_in_a_default(K, M, rows=[]):  # noqa: B006
    rows += by_rule(K, M)
    return rows


@BANK.wrong("only-small")
def tried_with_eight_devices(K, M):
    return by_rule(K, M)[:8] + [[] for _ in range(8, K)]


@BANK.right
def first_one_back_first(K, M):
    return Schedule([[Op(kind, m, k) for kind in "FB" for m in range(M)] for k in range(K)])


@BANK.wrong("no-ops")
def words(K, M):
    row = " ".join([f"F{m}" for m in range(M)] + [f"B{m}" for m in reversed(range(M))])
    return [row.split() for _ in range(K)]


@BANK.right
def any_order_that_all_agree_on(K, M):
    order = random.sample(range(M), M)
    return tuple(tuple([Op("F", m, k) for m in range(M)] + [Op("B", m, k) for m in order]) for k in range(K))


@BANK.wrong("other-kinds")
def recomputes_what_it_has_kept(K, M):
    return [[Op("F", m, k) for m in range(M)] + [Op(kind, m, k) for m in range(M) for kind in "RB"] for k in range(K)]


@BANK.wrong("error")
def a_recipe_of_the_package_without_its_recompute(K, M):
    from gpipe_edu.schedule import recipes

    rows = recipes.RECIPES["gpipe-late"](K, M).rows
    return [[op._replace(kind="B") if op.kind == "C" else op for op in row] for row in rows]
