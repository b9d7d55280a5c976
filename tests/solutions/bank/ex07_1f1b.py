"""Exercise 07, 1F1B."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import NamedTuple

from gpipe_edu import Op, Schedule
from tests.solutions.bank import Bank

BANK = Bank("ex07/1f1b")
ROWS = []


def by_rule(K, M):
    rows = []
    for k in range(K):
        ahead = max(0, min(M, K - 1 - k))
        row = [Op("F", m, k) for m in range(ahead)]
        for m in range(M):
            forward = [Op("F", ahead + m, k)] if ahead + m < M else []
            row += [*forward, Op("B", m, k)]
        rows.append(row)
    return rows


changed = partial(BANK.changed, of=by_rule)
changed("", "a_dict_of_rows", "return rows", "return dict(enumerate(rows))")
changed("no-warm-up", "alternates_from_the_start", "K - 1 - k", "0")
changed("same-warm-up", "everybody_warms_up_alike", "K - 1 - k", "K - 1")
changed("one-more", "one_too_many", "K - 1 - k", "K - k")
changed("one-less", "one_too_few", "K - 1 - k", "K - 2 - k")
changed("reversed", "warm_up_grows_with_k", "K - 1 - k", "k")
changed("beyond-M", "always_K_forwards", "min(M, K - 1 - k)", "K - 1 - k", " if ahead + m < M else []", "")
changed("no-drain", "stops_when_forwards_are_over", "in range(M):", "in range(M - ahead):")
changed(
    "missing", "the_loss_stage_forgets_its_last", "rows.append(row)", "rows.append(row[:-1] if k == K - 1 else row)"
)
changed("order", "backward_before_its_forward", '[*forward, Op("B", m, k)]', '[Op("B", m, k), *forward]')
changed("duplicate", "warm_up_counted_twice", '[Op("F", ahead + m, k)] if ahead + m < M else []', '[Op("F", m, k)]')
changed("upside-down", "last_device_first", "return rows", "return rows[::-1]")
changed("too-slow", "only_the_first_device_warms_up", "K - 1 - k", "K - 1 if k == 0 else 0")
changed("no-return", "forgets_to_return", "return rows", "Schedule(rows).check()")
changed("round-trip", "two_ahead_for_each_stage", "K - 1 - k", "2 * (K - 1 - k)")
changed(
    "few-micro-batches",
    "asks_for_enough_micro_batches",
    "rows = []",
    "rows = []\n    if M < K:\n        raise ValueError('1F1B needs M >= K')",
)
changed(
    "from-one",
    "micro_batches_from_one",
    "append(row)",
    "append([op._replace(micro_batch=op.micro_batch + 1) for op in row])",
)
changed("exchanged", "K_and_M_exchanged", "K, M):", "M, K):")
changed("handed-out-again", "one_list_for_all_calls", "rows = []", "rows = ROWS\n    rows.clear()")
changed("left-over", "rows_in_a_default", "K, M):\n    rows = []", "K, M, rows=[]):")
changed("only-small", "never_more_than_64", "K, M):", "K, M):\n    M = min(M, 64)")
changed("only-small", "tried_with_eight_devices", "return rows", "return rows[:8] + [[] for _ in range(8, K)]")
changed("other-kinds", "recomputes_in_the_backward", '"B"', '"C"')
changed("stage-zero", "stage_zero_everywhere", "append(row)", "append([op._replace(stage=0) for op in row])")
changed("holds-too-much", "the_first_device_takes_one_more", "K - 1 - k", "K - 1 - k + (k == 0)")
changed(
    "out-of-turn",
    "the_last_micro_batch_first",
    "append(row)",
    "append([op._replace(micro_batch=M - 1 - op.micro_batch) for op in row])",
)
changed("arguments", "wants_one_argument_more", "by_rule(K, M):", "by_rule(K, M, V):")
changed(
    "printed",
    "prints_while_it_waits",
    "rows = []",
    "rows = []\n    while not rows:\n        print('warming up ' * 10**6)",
)
changed(
    "memory",
    "a_table_for_everything",
    "rows = []",
    "rows = [None] * 10**12",
)
changed("not-a-row", "a_number_for_a_row", "append(row)", "append(len(row))")
changed("not-an-op", "pairs_without_a_stage", "append(row)", "append([(op.kind, op.micro_batch) for op in row])")
changed("other-K", "stages_from_one", "append(row)", "append([op._replace(stage=op.stage + 1) for op in row])")


@BANK.wrong("f-then-b")
def all_forwards_first(K, M):
    return [[Op("F", m, k) for m in range(M)] + [Op("B", m, k) for m in range(M)] for k in range(K)]


@BANK.wrong("by-micro-batch")
def a_row_per_micro_batch(K, M):
    return [[Op(kind, m, k) for kind in "FB" for k in range(K)] for m in range(M)]


@BANK.wrong("blocks")
def two_forwards_two_backwards(K, M):
    rows = []
    for k in range(K):
        f = min(M, K - 1 - k)
        row, b = [Op("F", m, k) for m in range(f)], 0
        while b < M:
            more = min(2, M - f)
            row += [Op("F", m, k) for m in range(f, f + more)]
            f += more
            done = min(2, f - b)
            row += [Op("B", m, k) for m in range(b, b + done)]
            b += done
        rows.append(row)
    return rows


@BANK.wrong("newest-first")
def a_stack(K, M):
    rows = []
    for k in range(K):
        row, held = [], []
        for m in range(M):
            row.append(Op("F", m, k))
            held.append(m)
            if len(held) == K - k:
                row.append(Op("B", held.pop(), k))
        rows.append(row + [Op("B", m, k) for m in reversed(held)])
    return rows


@BANK.right
def row_by_row_as_they_come(K, M):
    def row(k):
        ahead = 0
        for m in range(M):
            while ahead < min(M, m + K - k):
                yield Op("F", ahead, k)
                ahead += 1
            yield Op("B", m, k)

    for k in range(K):
        yield row(k)


@BANK.right
def by_simulation(K, M):
    """Each device: a backward if one is ready, else a forward if the cap allows; ticks until all is done."""
    rows = [[] for _ in range(K)]
    forward = [deque(range(M)) if k == 0 else deque() for k in range(K)]
    backward = [deque() for _ in range(K)]
    while any(len(row) < 2 * M for row in rows):
        done = []
        for k in range(K):
            held = sum(op.kind == "F" for op in rows[k]) - sum(op.kind == "B" for op in rows[k])
            if backward[k]:
                done.append(Op("B", backward[k].popleft(), k))
            elif forward[k] and held < K - k:
                done.append(Op("F", forward[k].popleft(), k))
        for op in done:
            rows[op.stage].append(op)
            if op.kind == "F" and op.stage + 1 < K:
                forward[op.stage + 1].append(op.micro_batch)
            elif op.kind == "F":
                backward[op.stage].append(op.micro_batch)
            elif op.stage:
                backward[op.stage - 1].append(op.micro_batch)
    return Schedule(rows)


@BANK.right
def as_text(K, M):
    lines = []
    for k in range(K):
        ahead = min(M, K - k)
        words = [f"F{m}" for m in range(ahead)]
        for m in range(M - ahead):
            words += [f"B{m}", f"F{ahead + m}"]
        words += [f"B{m}" for m in range(M - ahead, M)]
        lines.append(" ".join(words))
    return "\n".join(lines)


@BANK.wrong("ready-made")
def zero_bubble_without_its_weight_gradients(K, M):
    from gpipe_edu import zero_bubble

    kinds = {"F": "F", "I": "B"}
    return [[op._replace(kind=kinds[op.kind]) for op in row if op.kind in kinds] for row in zero_bubble(K, M).rows]


@dataclass
class Device:
    """What it has run so far, and how many micro-batches it may hold."""

    number: int
    room: int
    forwards: int = 0
    backwards: int = 0
    row: list = field(default_factory=list)

    def forward(self):
        self.row.append(Op("F", self.forwards, self.number))
        self.forwards += 1

    def backward(self):
        self.row.append(Op("B", self.backwards, self.number))
        self.backwards += 1

    @property
    def full(self):
        return self.forwards - self.backwards == self.room


@BANK.right
def forwards_while_there_is_room(K, M):
    devices = [Device(k, room=K - k) for k in range(K)]
    for device in devices:
        while device.backwards < M:
            if device.forwards == M or device.full:
                device.backward()
            else:
                device.forward()
    return [device.row for device in devices]


class Phase(Enum):
    WARM_UP = "F"
    STEADY = "FB"
    DRAIN = "B"


class Part(NamedTuple):
    phase: Phase
    times: int


@BANK.right
def three_phases(K, M):
    rows = []
    for k in range(K):
        warm_up = min(M, K - 1 - k)
        parts = [Part(Phase.WARM_UP, warm_up), Part(Phase.STEADY, M - warm_up), Part(Phase.DRAIN, warm_up)]
        kinds = "".join(phase.value * times for phase, times in parts)
        rows.append([Op(kind, kinds[:place].count(kind), k) for place, kind in enumerate(kinds)])
    return rows
