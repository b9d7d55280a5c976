"""Exercise 02, F-then-B."""

import random
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import NamedTuple

from gpipe_edu import Op, Schedule
from gpipe_edu.schedule import recipes
from tests.solutions.bank import Bank

BANK = Bank("ex02/f-then-b")


def last_one_back_first(K, M):
    rows = []
    for k in range(K):
        front = range(M)
        back = reversed(range(M))
        rows.append([Op("F", m, k) for m in front] + [Op("B", m, k) for m in back])
    return rows


changed = partial(BANK.changed, of=last_one_back_first)


@BANK.wrong("one-list")
def one_list_for_all_rows(K, M):
    rows = [[]] * K
    for k in range(K):
        for m in range(M):
            rows[k].append(Op("F", m, k))
        for m in reversed(range(M)):
            rows[k].append(Op("B", m, k))
    return rows


changed("stops-at-one", "range_that_stops_early", "reversed(range(M))", "range(M - 1, 0, -1)")
changed("mirrored", "backward_on_the_mirrored_device", '"B", m, k', '"B", m, K - 1 - k')
changed("stage-zero", "stage_zero_everywhere", '"F", m, k', '"F", m, 0', '"B", m, k', '"B", m, 0')
changed("swapped", "stage_first", '"F", m, k', '"F", k, m', '"B", m, k', '"B", k, m')
changed("upside-down", "last_device_first", "in range(K)", "in reversed(range(K))")
changed("backward-orders", "devices_disagree_going_back", "back = ", "back = range(M) if k % 2 else ")
changed("forward-orders", "devices_disagree_going_forward", "front = ", "front = reversed(range(M)) if k % 2 else ")
changed("missing", "forgets_the_loss_stage", "reversed(range(M))", "reversed(range(M if k < K - 1 else 0))")
changed("duplicate", "turns_round_twice", "reversed(range(M))", "[M - 1, *reversed(range(M))]")
changed("order", "backwards_first", "return rows", "return [row[M:] + row[:M] for row in rows]")
changed("rows", "a_row_too_many", "range(K)", "range(K + 1)")
changed("other-M", "one_micro_batch_too_few", "rows = []", "rows, M = [], max(1, M - 1)")
changed("from-one", "micro_batches_from_one", '"F", m,', '"F", m + 1,', '"B", m,', '"B", m + 1,')
changed("exchanged", "K_and_M_exchanged", "K, M):", "M, K):")
changed("left-over", "rows_in_a_default", "K, M):\n    rows = []", "K, M, rows=[]):")
changed("only-small", "tried_with_eight_devices", "return rows", "return rows[:8] + [[] for _ in range(8, K)]")


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


@BANK.wrong("by-micro-batch")
def a_row_per_micro_batch(K, M):
    return [[Op("F", m, k) for k in range(K)] + [Op("B", m, k) for k in reversed(range(K))] for m in range(M)]


@BANK.wrong("flat")
def one_long_list(K, M):
    return [Op(kind, m, k) for kind in "FB" for k in range(K) for m in range(M)]


@BANK.wrong("idle-slots")
def with_the_gaps_of_the_chart(K, M):
    return [
        [None] * k + [Op("F", m, k) for m in range(M)] + [None] * 2 * (K - 1 - k) + [Op("B", m, k) for m in range(M)]
        for k in range(K)
    ]


@BANK.wrong("split-stage")
def micro_batches_dealt_to_devices(K, M):
    ops = [Op(kind, m, k) for kind in "FB" for m in range(M) for k in range(K)]
    return [[op for op in ops if (op.micro_batch + op.stage) % K == device] for device in range(K)]


@BANK.right
def first_one_back_first(K, M):
    return Schedule([[Op(kind, m, k) for kind in "FB" for m in range(M)] for k in range(K)])


@BANK.right
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


@BANK.wrong("ready-made")
def a_recipe_of_the_package_without_its_recompute(K, M):
    rows = recipes.RECIPES["gpipe-late"](K, M).rows
    return [[op._replace(kind="B") if op.kind == "C" else op for op in row] for row in rows]


@dataclass(order=True)
class Planned:
    """An op and its start, where a forward takes 1 and a backward 2."""

    start: int
    op: Op = field(compare=False)


@BANK.right
def sorted_by_when_they_start(K, M):
    rows = []
    for k in range(K):
        turned = M + K - 1 + 2 * (K - 1 - k)
        row = [Planned(turned + 2 * (M - 1 - m), Op("B", m, k)) for m in range(M)]
        row += [Planned(m + k, Op("F", m, k)) for m in range(M)]
        rows.append([planned.op for planned in sorted(row)])
    return rows


class Way(Enum):
    FORTH = "F"
    BACK = "B"


class Turn(NamedTuple):
    way: Way
    micro_batch: int

    def on(self, k):
        return Op(self.way.value, self.micro_batch, k)


@BANK.right
def the_same_turns_on_every_device(K, M):
    turns = [Turn(way, m) for way in Way for m in range(M)]
    return [[turn.on(k) for turn in turns] for k in range(K)]
