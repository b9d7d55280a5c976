"""Exercise 11, the order of ZB-H1."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import NamedTuple

from gpipe_edu import Op, Schedule
from tests.solutions.bank import Bank

BANK = Bank("ex11/order")
ROWS = []


@BANK.right
def by_rule(K, M):
    rows = []
    for k in range(K):
        ahead, late = K - 1 - k, k
        ahead = min(M, ahead)
        row = [Op("F", m, k) for m in range(ahead)]
        for m in range(M):
            if ahead + m < M:
                row.append(Op("F", ahead + m, k))
            row.append(Op("I", m, k))
            if m >= late:
                row.append(Op("W", m - late, k))
        row += [Op("W", m, k) for m in range(max(0, M - late), M)]
        rows.append(row)
    return rows


changed = partial(BANK.changed, of=by_rule)
changed("w-at-once", "w_behind_its_i", "ahead, late = K - 1 - k, k", "ahead, late = K - 1 - k, 0")
changed("all-w-last", "all_weights_at_the_end", "ahead, late = K - 1 - k, k", "ahead, late = K - 1 - k, M")
changed("h2", "zb_h2", "ahead, late = K - 1 - k, k", "ahead, late = 2 * (K - 1 - k), 2 * k")
changed("same-delay", "everybody_is_late", "ahead, late = K - 1 - k, k", "ahead, late = K - 1 - k, K - 1")
changed("same-delay", "one_late_everywhere", "ahead, late = K - 1 - k, k", "ahead, late = K - 1 - k, 1")
changed("reversed-delay", "first_device_waits", "ahead, late = K - 1 - k, k", "ahead, late = K - 1 - k, K - 1 - k")
changed("too-late", "one_later", "ahead, late = K - 1 - k, k", "ahead, late = K - 1 - k, k + (k > 0)")
changed("too-late", "one_later_on_all", "ahead, late = K - 1 - k, k", "ahead, late = K - 1 - k, k + 1")
changed("w-too-early", "one_sooner", "ahead, late = K - 1 - k, k", "ahead, late = K - 1 - k, max(0, k - 1)")
changed(
    "w-too-early", "only_the_last_is_late", "ahead, late = K - 1 - k, k", "ahead, late = K - 1 - k, k * (k == K - 1)"
)
changed("more-ahead", "one_more_ahead", "ahead, late = K - 1 - k, k", "ahead, late = K - k, k")
changed("more-ahead", "everybody_warms_up_alike", "ahead, late = K - 1 - k, k", "ahead, late = K - 1, k")
changed("fewer-ahead", "one_less_ahead", "ahead, late = K - 1 - k, k", "ahead, late = max(0, K - 2 - k), k")
changed("no-warm-up", "alternates_from_the_start", "ahead, late = K - 1 - k, k", "ahead, late = 0, k")
changed("reversed-warm-up", "warm_up_grows", "ahead, late = K - 1 - k, k", "ahead, late = k, k")
changed("f-then-b", "all_forwards_first", "ahead, late = K - 1 - k, k", "ahead, late = M, 0")
changed("not-split", "one_piece", '"I", m, k', '"B", m, k', "if m >= late", "if m < 0", "max(0, M - late)", "M")
changed("not-split", "b_and_w", '"I", m, k', '"B", m, k')
changed("no-w", "forgets_w", "if m >= late", "if m < 0", "max(0, M - late)", "M")
changed(
    "w-too-late",
    "only_where_a_forward_needs_room",
    "if m >= late",
    "if late <= m < M - ahead",
    "max(0, M - late)",
    "max(0, M - K + 1)",
)
changed("flat", "only_the_last_row", "return rows", "return row")
changed("missing", "never_drains", "max(0, M - late)", "M")
changed(
    "order",
    "w_before_its_i",
    'row.append(Op("I", m, k))\n            if m >= late:\n                row.append(Op("W", m - late, k))',
    'if m >= late:\n                row.append(Op("W", m - late, k))\n            row.append(Op("I", m, k))',
)
changed("duplicate", "drains_one_twice", "max(0, M - late)", "max(0, M - late - 1)")
changed("upside-down", "last_device_first", "return rows", "return rows[::-1]")
changed("no-return", "forgets_to_return", "return rows", "Schedule(rows).check()")
changed("exchanged", "K_and_M_exchanged", "K, M):", "M, K):")
changed("handed-out-again", "one_list_for_all_calls", "rows = []", "rows = ROWS\n    rows.clear()")
changed("left-over", "rows_in_a_default", "K, M):\n    rows = []", "K, M, rows=[]):")
changed("only-small", "tried_with_eight_devices", "return rows", "return rows[:8] + [[] for _ in range(8, K)]")
changed("other-kinds", "recomputes", 'row.append(Op("I", m, k))', 'row += [Op("R", m, k), Op("I", m, k)]')
changed("stage-zero", "stage_zero_everywhere", "append(row)", "append([op._replace(stage=0) for op in row])")
changed(
    "from-one",
    "micro_batches_from_one",
    "append(row)",
    "append([op._replace(micro_batch=op.micro_batch + 1) for op in row])",
)


@BANK.wrong("w-behind-f")
def w_while_it_waits(K, M):
    rows = []
    for k in range(K):
        ahead = K - 1 - k
        row = [Op("F", m, k) for m in range(ahead)]
        for m in range(M):
            row += [Op("F", ahead + m, k)] * (ahead + m < M)
            if m > k:
                row.append(Op("W", m - k - 1, k))
            row.append(Op("I", m, k))
        rows.append(row + [Op("W", m, k) for m in range(max(0, M - k - 1), M)])
    return rows


@BANK.wrong("w-before-i")
def w_in_front_of_the_next_i(K, M):
    rows = []
    for k in range(K):
        ahead, late = K - 1 - k, max(1, k)
        row = [Op("F", m, k) for m in range(ahead)]
        for m in range(M):
            if k == 0 and m:
                row.append(Op("W", m - 1, k))
            if ahead + m < M:
                row.append(Op("F", ahead + m, k))
            if k and m >= late:
                row.append(Op("W", m - late, k))
            row.append(Op("I", m, k))
        rows.append(row + [Op("W", m, k) for m in range(max(0, M - late), M)])
    return rows


@BANK.wrong("too-slow")
def whatever_can_run(K, M):
    """In each unit of time the first of I, F and W that can run."""
    rows, ended, time = [[] for _ in range(K)], {}, 0
    counts = [dict.fromkeys("FIW", 0) for _ in range(K)]

    def can_run(kind, k):
        done, m = counts[k], counts[k][kind]
        if kind == "F":
            return m < M and m - done["W"] < K and (k == 0 or ended.get(("F", m, k - 1), time + 1) <= time)
        if kind == "I":
            return m < done["F"] and (k == K - 1 or ended.get(("I", m, k + 1), time + 1) <= time)
        return m < done["I"]

    while any(done["W"] < M for done in counts):
        now = [next((Op(kind, counts[k][kind], k) for kind in "IFW" if can_run(kind, k)), None) for k in range(K)]
        time += 1
        for op in filter(None, now):
            rows[op.stage].append(op)
            counts[op.stage][op.kind] += 1
            ended[tuple(op)] = time
    return rows


@BANK.right
def as_text(K, M):
    return "\n".join(" ".join(f"{op.kind}{op.micro_batch}" for op in row) for row in by_rule(K, M))


@BANK.wrong("by-micro-batch")
def a_row_per_micro_batch(K, M):
    return [[Op(kind, m, k) for kind in "FIW" for k in range(K)] for m in range(M)]


@BANK.right
def newest_weights_first(K, M):
    """Which of the waiting W's runs makes no difference."""
    for k in range(K):
        waiting, row, ahead = [], [Op("F", m, k) for m in range(K - 1 - k)], K - 1 - k
        for m in range(M):
            if ahead + m < M:
                row.append(Op("F", ahead + m, k))
            row.append(Op("I", m, k))
            waiting.append(m)
            if len(waiting) > k:
                row.append(Op("W", waiting.pop(), k))
        yield row + [Op("W", m, k) for m in reversed(waiting)]


@dataclass
class Device:
    """What it has done, and how many micro-batches it may hold."""

    k: int
    cap: int
    row: list = field(default_factory=list)
    forwards: int = 0
    waiting: deque = field(default_factory=deque)

    def forward(self):
        self.row.append(Op("F", self.forwards, self.k))
        self.forwards += 1

    def input_gradient(self, m):
        self.row.append(Op("I", m, self.k))
        self.waiting.append(m)

    def weight_gradient(self):
        self.row.append(Op("W", self.waiting.popleft(), self.k))


@BANK.right
def by_room(K, M):
    """A W only where the next forward needs its room, and at the end."""
    devices = [Device(k, K) for k in range(K)]
    for device in devices:
        for m in range(M):
            while device.forwards < min(M, m + K - device.k):
                device.forward()
            device.input_gradient(m)
            if len(device.waiting) > device.k:
                device.weight_gradient()
        while device.waiting:
            device.weight_gradient()
    return [device.row for device in devices]


class Kind(Enum):
    FORWARD = "F"
    INPUT = "I"
    WEIGHT = "W"


class Turn(NamedTuple):
    kind: Kind
    micro_batch: int


@BANK.right
def turns_by_offsets(K, M):
    rows = []
    for k in range(K):
        offsets = {Kind.FORWARD: K - 1 - k, Kind.INPUT: 0, Kind.WEIGHT: -k}
        turns = [Turn(Kind.FORWARD, m) for m in range(min(M, K - 1 - k))]
        turns += [Turn(kind, m + by) for m in range(M + k) for kind, by in offsets.items()]
        rows.append([Op(t.kind.value, t.micro_batch, k) for t in dict.fromkeys(turns) if 0 <= t.micro_batch < M])
    return Schedule(rows)


@BANK.wrong("holds-too-much")
def two_forwards_in_turn(K, M):
    rows = []
    for k in range(K):
        forwards = [Op("F", m, k) for m in range(M)]
        row, rest = forwards[: K - k], forwards[K - k :]
        for m in range(M):
            row += [Op("I", m, k), Op("W", m, k)]
            if m % 2 == 0:
                row += rest[:2]
                del rest[:2]
        rows.append(row)
    return rows
