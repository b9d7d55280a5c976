"""Exercise 12, interleaved 1F1B."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import NamedTuple

from gpipe_edu import Op, Schedule
from tests.solutions.bank import Bank

BANK = Bank("ex12/interleaved")
ROWS = []


@BANK.right
def by_groups(K, M, V):
    rows = []
    for k in range(K):
        forwards, backwards = [], []
        for first in range(0, M, K):
            for v in range(V):
                forwards += [Op("F", m, v * K + k) for m in range(first, first + K)]
            for v in reversed(range(V)):
                backwards += [Op("B", m, v * K + k) for m in range(first, first + K)]
        ahead = 2 * (K - 1 - k) + (V - 1) * K
        ahead = min(ahead, len(forwards))
        row = forwards[:ahead]
        for i, backward in enumerate(backwards):
            row += forwards[ahead + i : ahead + i + 1]
            row.append(backward)
        rows.append(row)
    return rows


changed = partial(BANK.changed, of=by_groups)
AHEAD = "2 * (K - 1 - k) + (V - 1) * K"
changed(
    "contiguous",
    "neighbours_on_a_device",
    '"F", m, v * K + k',
    '"F", m, k * V + v',
    '"B", m, v * K + k',
    '"B", m, k * V + v',
)
changed(
    "stage-per-device", "stage_within_the_device", '"F", m, v * K + k', '"F", m, v', '"B", m, v * K + k', '"B", m, v'
)
changed("one-round", "one_stage_a_device", "for v in range(V)", "for v in range(1)", "reversed(range(V))", "range(1)")
changed(
    "other-stages",
    "stages_from_one",
    '"F", m, v * K + k',
    '"F", m, v * K + k + 1',
    '"B", m, v * K + k',
    '"B", m, v * K + k + 1',
)
changed(
    "v-shape",
    "down_and_up_again",
    '"F", m, v * K + k',
    '"F", m, v * K + (K - 1 - k if v % 2 else k)',
    '"B", m, v * K + k',
    '"B", m, v * K + (K - 1 - k if v % 2 else k)',
)
changed("other-homes", "last_device_first", "return rows", "return rows[::-1]")
changed("backward-order", "backwards_as_forwards", "reversed(range(V))", "range(V)")
changed(
    "no-drain",
    "stops_with_the_forwards",
    "enumerate(backwards)",
    "enumerate(backwards[: len(backwards) - max(1, ahead)])",
)
changed("f-then-b", "all_forwards_first", AHEAD, "len(forwards)")
changed("deeper-than-allowed", "one_more_ahead", AHEAD, "2 * (K - k) + (V - 1) * K")
changed("deeper-than-allowed", "all_rounds_ahead", AHEAD, "2 * (K - 1 - k) + V * K")
changed("deeper-than-allowed", "as_much_on_all_devices", AHEAD, "2 * (K - 1) + (V - 1) * K")
changed(
    "breadth-first",
    "one_group_of_all",
    "range(0, M, K)",
    "[0]",
    '"F", m, v * K + k) for m in range(first, first + K)',
    '"F", m, v * K + k) for m in range(M)',
    '"B", m, v * K + k) for m in range(first, first + K)',
    '"B", m, v * K + k) for m in range(M)',
)
changed("too-few-ahead", "one_forward_less", AHEAD, "K - 1 - k + (V - 1) * K - (k < K - 1)")
changed("too-few-ahead", "one_round_less", AHEAD, "2 * (K - 1 - k) + max(0, V - 2) * K")
changed("too-few-ahead", "warm_up_of_1f1b", AHEAD, "K - 1 - k")
changed(
    "small-V",
    "rounds_listed",
    "for v in range(V):",
    "for v in (0, 1, 2, 3)[:V]:",
    "for v in reversed(range(V)):",
    "for v in (3, 2, 1, 0)[-V:]:",
)
changed("swapped", "stage_before_micro_batch", "append(row)", "append([Op(kind, s, m) for kind, m, s in row])")
changed("other-kinds", "i_for_b", "row.append(backward)", 'row.append(backward._replace(kind="I"))')
changed("missing", "forgets_the_last_backward", "return rows", "rows[-1].pop()\n    return rows")
changed(
    "order",
    "backward_in_front",
    "row += forwards[ahead + i : ahead + i + 1]\n            row.append(backward)",
    "row.append(backward)\n            row += forwards[ahead + i : ahead + i + 1]",
)
changed("duplicate", "warm_up_counted_twice", "forwards[ahead + i : ahead + i + 1]", "forwards[i : i + 1]")
changed("rows", "last_device_forgotten", "return rows", "return rows[:-1] or [rows[0], rows[0]]")
changed("no-return", "forgets_to_return", "return rows", "Schedule(rows).check()")
changed(
    "from-one",
    "micro_batches_from_one",
    "append(row)",
    "append([op._replace(micro_batch=op.micro_batch + 1) for op in row])",
)
changed("other-M", "one_group_too_many", "range(0, M, K)", "range(0, M + K, K)")
changed("handed-out-again", "one_list_for_all_calls", "rows = []", "rows = ROWS\n    rows.clear()")
changed("left-over", "rows_in_a_default", "K, M, V):\n    rows = []", "K, M, V, rows=[]):")
changed("only-small", "tried_with_eight_devices", "return rows", "return rows[:8] + [[] for _ in range(8, K)]")
changed("other-kinds", "recomputes", "row.append(backward)", 'row.append(backward._replace(kind="C"))')
changed(
    "other-kinds",
    "splits_the_backward",
    "row.append(backward)",
    'row += [backward._replace(kind="I"), backward._replace(kind="W")]',
)


@BANK.wrong("row-per-stage")
def a_row_for_each_stage(K, M, V):
    S = K * V
    return [[Op("F", m, s) for m in range(M)] + [Op("B", m, s) for m in range(M)] for s in range(S)]


@BANK.wrong("one-at-a-time")
def depth_first(K, M, V):
    rows = []
    for k in range(K):
        forwards = [Op("F", m, v * K + k) for m in range(M) for v in range(V)]
        backwards = [Op("B", m, v * K + k) for m in range(M) for v in reversed(range(V))]
        ahead = min(len(forwards), V - 1)
        row = forwards[:ahead]
        for i, backward in enumerate(backwards):
            row += [*forwards[ahead + i : ahead + i + 1], backward]
        rows.append(row)
    return rows


# With the warm-up of groups it hangs.
LONGER = "2 * (K - 1 - k) + (V - 1) * K"
BANK.changed("one-at-a-time", "each_through_all_its_rounds", "forwards), V - 1", f"forwards), {LONGER}", of=depth_first)


@BANK.wrong("few-forwards")
def counts_places(K, M, V):
    n, rows = M * V, []
    for k in range(K):

        def op(kind, i, k=k):
            v = i // K % V
            return Op(kind, i // (K * V) * K + i % K, (V - 1 - v if kind == "B" else v) * K + k)

        ahead = 2 * (K - 1 - k) + (V - 1) * K
        row = [op("F", i) for i in range(ahead)]
        for i in range(ahead, n):
            row += [op("F", i), op("B", i - ahead)]
        rows.append(row + [op("B", i) for i in range(n - ahead, n)])
    return rows


@BANK.wrong("ready-made")
def calls_the_recipe(K, M, V):
    import gpipe_edu as ge

    return ge.interleaved(K, M, V)


@BANK.right
def as_text(K, M, V):
    return "\n".join(" ".join(f"{op.kind}{op.micro_batch}@{op.stage}" for op in row) for row in by_groups(K, M, V))


@BANK.wrong("holds-too-much")
def two_and_two(K, M, V):
    rows = []
    for row in by_groups(K, M, V):
        forwards, backwards = ([op for op in row if op.kind == kind] for kind in "FB")
        ahead = next(i for i, op in enumerate(row) if op.kind == "B")
        found = forwards[:ahead] + backwards[:1]
        for i in range(0, len(backwards), 2):
            found += forwards[ahead + i : ahead + i + 2] + backwards[1 + i : 3 + i]
        rows.append(found)
    return rows


@BANK.wrong("holds-too-much")
def two_and_two_after_the_warm_up(K, M, V):
    """After the warm-up, two forwards and two backwards in turn."""
    rows = []
    for k, whole in enumerate(by_groups(K, M, V)):
        forwards, backwards = ([op for op in whole if op.kind == kind] for kind in "FB")
        ahead = min(M * V, 2 * (K - 1 - k) + (V - 1) * K)
        row = forwards[:ahead]
        for i in range(0, M * V, 2):
            row += forwards[ahead + i : ahead + i + 2] + backwards[i : i + 2]
        rows.append(row)
    return rows


@BANK.wrong("breadth-first")
def all_of_them_in_one_group(K, M, V):
    return [
        [Op("F", m, v * K + k) for v in range(V) for m in range(M)]
        + [Op("B", m, v * K + k) for v in reversed(range(V)) for m in range(M)]
        for k in range(K)
    ]


@BANK.wrong("too-slow")
def a_flush_after_each_group(K, M, V):
    rows = [[] for _ in range(K)]
    for first in range(0, M, K):
        for row, group in zip(rows, by_groups(K, K, V), strict=True):
            row += [op._replace(micro_batch=first + op.micro_batch) for op in group]
    return rows


class Pass(NamedTuple):
    """A micro-batch in a round."""

    m: int
    v: int


def turns(K, M, V):
    """Which micro-batch in which round a device takes, in order: by place alone, as Megatron-LM counts."""
    for place in range(M * V):
        group, within = divmod(place, K * V)
        yield Pass(group * K + within % K, within // K)


@BANK.right
def by_place(K, M, V):
    order = list(turns(K, M, V))
    for k in range(K):
        ahead = min(M * V, (K - k - 1) * 2 + (V - 1) * K)
        forward = (Op("F", m, v * K + k) for m, v in order)
        row = [next(forward) for _ in range(ahead)]
        for m, v in order:
            row.extend([op for op in [next(forward, None)] if op])
            row.append(Op("B", m, (V - 1 - v) * K + k))
        yield row


class Way(Enum):
    THERE = "F"
    BACK = "B"


@dataclass
class Device:
    """Forwards while there is room; else a backward."""

    k: int
    room: int
    there: deque
    back: deque
    row: list = field(default_factory=list)
    held: int = 0

    def run(self):
        while self.back:
            way = Way.THERE if self.there and self.held < self.room else Way.BACK
            queue = self.there if way is Way.THERE else self.back
            m, stage = queue.popleft()
            self.row.append(Op(way.value, m, stage))
            self.held += 1 if way is Way.THERE else -1
        return self.row


@BANK.right
def by_room(K, M, V):
    rows = []
    for k in range(K):
        queues = [
            deque((m, v * K + k) for g in range(M // K) for v in order for m in range(g * K, g * K + K))
            for order in (range(V), range(V - 1, -1, -1))
        ]
        rows.append(Device(k, K * V + K - 1 - 2 * k, *queues).run())
    return Schedule(rows, name="interleaved")


@BANK.right
def half_the_warm_up(K, M, V):
    """As fast where links are free, and holds less."""
    rows = []
    for k, row in enumerate(by_groups(K, M, V)):
        forwards, backwards = ([op for op in row if op.kind == kind] for kind in "FB")
        ahead = min(len(forwards), K - 1 - k + (V - 1) * K)
        row = forwards[:ahead]
        for i, backward in enumerate(backwards):
            row += [*forwards[ahead + i : ahead + i + 1], backward]
        rows.append(row)
    return rows
