"""Exercise 09, early recompute."""

from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import NamedTuple

from gpipe_edu import Op, Schedule
from gpipe_edu.schedule.recipes import gpipe
from tests.solutions.bank import Bank

BANK = Bank("ex09/early")


def last_one_back_first(K, M):
    rows = []
    for k in range(K):
        row = [Op("F", m, k) for m in range(M)]
        for m in reversed(range(M)):
            kinds = "RB"
            row += [Op(kind, m, k) for kind in kinds]
        rows.append(row)
    return rows


changed = partial(BANK.changed, of=last_one_back_first)
changed("late", "checkpointed_backwards", '"RB"', '"C"')
changed("no-recompute", "forgets_it", '"RB"', '"B"')
changed("order", "recompute_after_backward", '"RB"', '"BR"')
changed("last-stage-spared", "the_last_stage_needs_none", '"RB"', '"RB" if k < K - 1 else "B"')
changed("except-last", "the_last_micro_batch_needs_none", '"RB"', '"RB" if m < M - 1 else "B"')
changed("some-spared", "the_first_one_on_the_last_stage_needs_none", '"RB"', '"RB" if m or k < K - 1 else "B"')
changed("", "what_goes_back_at_once_needs_none", '"RB"', '"RB" if m < M - 1 or k < K - 1 else "B"')
changed("some-spared", "the_first_stage_needs_none", '"RB"', '"RB" if k else "B"')
changed("mixed", "both_ways_at_once", '"RB"', '"RC"')
changed("too-slow", "devices_disagree", "in reversed(range(M))", "in (range(M) if k % 2 else reversed(range(M)))")
changed("duplicate", "recomputes_twice", '"RB"', '"RRB"')
changed("missing", "stops_at_one", "rows.append(row)", "rows.append(row[:-1])")
changed("split-backward", "two_halves_of_a_backward", '"RB"', '"RIW"')
changed(
    "all-first",
    "all_recomputes_first",
    "        for m",
    '        row += [Op("R", m, k) for m in reversed(range(M))]\n        for m',
    '"RB"',
    '"B"',
)
changed(
    "at-once",
    "right_after_the_forward",
    'Op("F", m, k) for m in range(M)',
    'Op(kind, m, k) for m in range(M) for kind in "FR"',
    '"RB"',
    '"B"',
)


@BANK.wrong("mixed-order")
def one_f_one_b_with_recompute(K, M):
    rows = []
    for k in range(K):
        w = min(M, K - 1 - k)
        row = [Op("F", m, k) for m in range(w)]
        for m in range(M):
            row += [Op("F", w + m, k)] if w + m < M else []
            row += [Op("R", m, k), Op("B", m, k)]
        rows.append(row)
    return rows


@BANK.wrong("only-small")
def tried_with_sixteen_micro_batches(K, M):
    rows = first_one_first(K, min(M, 16)).rows
    return [[*row, *(Op(kind, m, k) for m in range(16, M) for kind in "FB")] for k, row in enumerate(rows)]


@BANK.right
def first_one_first(K, M):
    return Schedule([[Op(kind, m, k) for kinds in ("F", "RB") for m in range(M) for kind in kinds] for k in range(K)])


@BANK.right
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
        row = [*(Op("F", m, k) for m in range(M)), Op("R", M - 1, k)]
        for m in reversed(range(M)):
            row += [Op("R", m - 1, k)] if m else []
            row.append(Op("B", m, k))
        rows.append(row)
    return rows


@BANK.wrong("late-on-last")
def late_where_nothing_waits(K, M):
    rows = []
    for k in range(K):
        back = "C" if k == K - 1 else "RB"
        rows.append(
            [*(Op("F", m, k) for m in range(M)), *(Op(kind, m, k) for m in reversed(range(M)) for kind in back)]
        )
    return rows


@BANK.wrong("ready-made")
def the_package_own_early_recompute(K, M):
    return gpipe(K, M, "early")


@dataclass
class Device:
    """A device, and the row that it has so far."""

    stage: int
    row: list = field(default_factory=list)

    def run(self, kinds, m):
        self.row += [Op(kind, m, self.stage) for kind in kinds]


@BANK.right
def devices_that_write_their_rows(K, M):
    devices = [Device(k) for k in range(K)]
    for device in devices:
        for m in range(M):
            device.run("F", m)
        for m in range(M - 1, -1, -1):
            device.run("RB", m)
    return [device.row for device in devices]


class Way(Enum):
    FORTH = ("F",)
    BACK = ("R", "B")


class Visit(NamedTuple):
    """A micro-batch comes by."""

    way: Way
    micro_batch: int


@BANK.right
def visits_forth_and_back(K, M):
    visits = [Visit(way, m) for way in Way for m in range(M)]
    return [[Op(kind, visit.micro_batch, k) for visit in visits for kind in visit.way.value] for k in range(K)]
