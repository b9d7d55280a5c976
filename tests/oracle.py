"""A second opinion, written from the rules of docs and design and from nothing else.

It knows only plain tuples (kind, micro_batch, stage) and none of the package's code, so that a mistake in the package
can't hide in its own test. Slow and obvious on purpose: legality by playing the schedule tick by tick, times by
relaxing start times until nothing moves.
"""

import itertools
from collections import Counter
from collections.abc import Collection

PlainOp = tuple[str, int, int]
Rows = list[list[PlainOp]]

CELLS = {"BF", "BFR", "CF", "FIW", "FIRW"}
"""The ops of one micro-batch on one stage, sorted: the five ways to pass and finish it."""


def plain(schedule) -> Rows:
    """The rows of a package schedule as plain tuples."""
    return [[(op.kind, op.micro_batch, op.stage) for op in row] for row in schedule.rows]


def inputs(op: PlainOp, there: Collection[PlainOp], stages: int) -> list[PlainOp]:
    """What `op` needs, by the rules; `there`: all ops of the schedule."""
    kind, m, k = op
    if kind == "F":
        return [("F", m, k - 1)] if k else []
    if kind == "R":
        return [("F", m, k)]
    if kind == "W":
        return [("I", m, k)]
    wanted = [("R", m, k)] if ("R", m, k) in there else [("F", m, k)]
    if k + 1 < stages:
        wanted += [(sender, m, k + 1) for sender in "BCI" if (sender, m, k + 1) in there]
    return wanted


def cells_of(rows: Rows) -> dict[tuple[int, int], str]:
    """The sorted kinds of every (micro-batch, stage) that could be there."""
    ops = [op for row in rows for op in row]
    stages, micro_batches = {k for _, _, k in ops}, {m for _, m, _ in ops}
    found: dict[tuple[int, int], str] = {(m, k): "" for m in micro_batches for k in stages}
    for kind, m, k in ops:
        found[m, k] = "".join(sorted(found[m, k] + kind))
    return found


def play(rows: Rows) -> list[PlainOp]:
    """Tick by tick: every device starts its next op if the inputs ended in an earlier tick. What ran, until stuck."""
    there = {op for row in rows for op in row}
    stages = 1 + max(k for _, _, k in there)
    queues = [list(row) for row in rows]
    ran: list[PlainOp] = []
    while True:
        ended = set(ran)
        heads = [queue[0] for queue in queues if queue]
        started = [op for op in heads if ended.issuperset(inputs(op, there, stages))]
        if not started:
            return ran
        for queue in queues:
            if queue and queue[0] in started:
                queue.pop(0)
        ran += started


def expected_code(rows: Rows) -> str | None:
    """The code of the first broken rule, or None for a schedule that can run."""
    if not rows or not all(rows):
        return "empty"
    ops = [op for row in rows for op in row]
    for index in (1, 2):
        numbers = {op[index] for op in ops}
        if numbers != set(range(len(numbers))):
            return "out-of-range"
    if len({(k, device) for device, row in enumerate(rows) for _, _, k in row}) > len({k for _, _, k in ops}):
        return "split-stage"
    if max(Counter(ops).values()) > 1:
        return "duplicate"
    cells = set(cells_of(rows).values()) - CELLS
    if any(all(set(kinds) - set(way) for way in CELLS) for kinds in cells):
        return "mixed"
    if cells:
        return "missing"
    if len(play(rows)) == len(ops):
        return None
    stages, there = 1 + max(k for _, _, k in ops), set(ops)
    for row in rows:
        for position, op in enumerate(row):
            if set(inputs(op, there, stages)) & set(row[position + 1 :]):
                return "order"
    return "deadlock"


def times(rows: Rows, duration, send=0) -> dict[PlainOp, tuple[float, float]]:
    """(start, end) of every op of a legal schedule: all start at 0 and are pushed later until all rules hold."""
    home = {op: device for device, row in enumerate(rows) for op in row}
    stages = 1 + max(k for _, _, k in home)
    arrows = [(before, op, 0) for row in rows for before, op in itertools.pairwise(row)]
    for op in home:
        for need in inputs(op, home, stages):
            arrows.append((need, op, send if home[need] != home[op] else 0))
    start = dict.fromkeys(home, 0)
    moved = True
    while moved:
        moved = False
        for before, op, lag in arrows:
            earliest = start[before] + duration(before) + lag
            if start[op] < earliest:
                start[op], moved = earliest, True
    return {op: (start[op], start[op] + duration(op)) for op in home}
