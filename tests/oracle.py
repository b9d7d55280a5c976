"""A second opinion, written from the rules of docs and design and from nothing else.

It knows only plain tuples (kind, micro_batch, stage) and none of the package's code, so that a mistake in the package
can't hide in its own test. Slow and obvious on purpose: legality by playing the schedule tick by tick, times by
relaxing start times until nothing moves.
"""

import functools
import heapq
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Collection

import numpy as np

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


def culprits(rows: Rows) -> set[PlainOp]:
    """The ops of which one is to be named for the first broken rule; for "missing", those that are not there."""
    code, ops = expected_code(rows), [op for row in rows for op in row]
    homes = Counter((op[2], device) for device, row in enumerate(rows) for op in row)
    if code == "out-of-range":
        numbers = [{op[index] for op in ops} for index in (1, 2)]
        return {op for op in ops for there, number in zip(numbers, op[1:], strict=True) if set(range(number)) - there}
    if code == "split-stage":
        most = {k: max(often for (stage, _), often in homes.items() if stage == k) for k, _ in homes}
        split = {k for k, _ in homes if sum(stage == k for stage, _ in homes) > 1}
        tied = {k for k in split if sum(often == most[k] for (stage, _), often in homes.items() if stage == k) > 1}
        away = {op for device, row in enumerate(rows) for op in row if homes[op[2], device] < most[op[2]]}
        return away | {op for op in ops if op[2] in tied}
    if code == "duplicate":
        return {op for op, often in Counter(ops).items() if often > 1}
    if code == "mixed":
        return {op for op in ops if all(set(cells_of(rows)[op[1:]]) - set(way) for way in CELLS)}
    if code == "missing":
        wrong = {cell: kinds for cell, kinds in cells_of(rows).items() if kinds not in CELLS}
        return {(kind, *cell) for cell, kinds in wrong.items() for way in CELLS for kind in set(way) - set(kinds)}
    if code == "order":
        stages, there = 1 + max(k for _, _, k in ops), set(ops)
        later = [(op, set(row[place + 1 :])) for row in rows for place, op in enumerate(row)]
        return {op for op, rest in later if rest & set(inputs(op, there, stages))}
    return set(ops) - set(play(rows)) if code == "deadlock" else set()


def interiors(row: list[PlainOp]) -> list[set[tuple[int, int]]]:
    """For every op of a row, the (micro-batch, stage) whose activations are all there while it runs."""
    again = {(m, k) for kind, m, k in row if kind in "RC"}
    held: set[tuple[int, int]] = set()
    found = []
    for kind, m, k in row:
        if kind in "FRC":
            held.add((m, k))
        found.append(set(held))
        if kind in "BCW" or (kind == "F" and (m, k) in again):
            held.discard((m, k))
    return found


def cells(timeline, device: int):
    """(micro-batch, stage, {kind: (start, end)}) of every micro-batch on every stage of `device`."""
    found = {}
    for span in timeline.spans:
        if span.device == device:
            found.setdefault(span.op[1:], {})[span.op.kind] = (span.start, span.end)
    return [(*cell, when) for cell, when in found.items()]


def held(timeline, device: int, time, boundary, interior, sizes=None):
    """What `device` holds just after `time`: inputs of stages, and what is inside them where it is not dropped; sizes:
    how many times as much of each micro-batch."""
    total = 0
    for m, stage, when in cells(timeline, device):
        size = sizes[m] if sizes else 1
        finished = next(when[kind][1] for kind in "BCW" if kind in when)
        begun = when["F"][0]
        if begun <= time < finished:
            total += boundary[stage] * size
        if "C" in when:
            inside = begun <= time < when["F"][1] or when["C"][0] <= time < finished
        elif "R" in when:
            inside = begun <= time < when["F"][1] or when["R"][0] <= time < finished
        else:
            inside = begun <= time < finished
        total += interior[stage] * inside * size
    return total


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


def blocks(schedule) -> list[list[tuple[PlainOp, ...]]]:
    """The rows of a package schedule in blocks of plain tuples: a pair is one, any other op is one alone."""
    pairs = {tuple(one): (tuple(one), tuple(other)) for one, other in schedule.pairs}
    seconds = {other for _, other in pairs.values()}
    return [[pairs.get(op, (op,)) for op in row if op not in seconds] for row in plain(schedule)]


def ends(rows: list[list[tuple[PlainOp, ...]]], lasts) -> list:
    """When each device has run its blocks. A block starts when its device is free and all that its ops need of others
    has ended, and what it makes leaves at its end. `lasts(block)` may be an array: of as many costs at once."""
    there = {op for row in rows for block in row for op in block}
    stages = 1 + max(k for _, _, k in there)
    left, free, ended = [deque(row) for row in rows], [0.0] * len(rows), {}
    while any(left):
        before = len(ended)
        for device, row in enumerate(left):
            while row:
                needs = [need for op in row[0] for need in inputs(op, there, stages) if need not in row[0]]
                if not all(need in ended for need in needs):
                    break
                block = row.popleft()
                free[device] = functools.reduce(np.maximum, map(ended.get, needs), free[device]) + lasts(block)
                ended |= dict.fromkeys(block, free[device])
        assert len(ended) > before, "it can't run"
    return free


def events(rows: Rows, duration, latency, occupied) -> tuple[dict[PlainOp, tuple], dict[PlainOp, tuple]]:
    """Event by event, with links that carry one message at a time: each op's start and end, and each message's times:
    when it went on its link, left it and was there. Two devices have a link in each direction; messages go in the order
    in which they were sent. occupied: how long a message keeps its link busy, or a function of the op that it is of.
    """
    busy = occupied if callable(occupied) else lambda op: occupied
    there = {op for row in rows for op in row}
    stages = 1 + max(k for _, _, k in there)
    home = {op: device for device, row in enumerate(rows) for op in row}
    goals = defaultdict(set)
    for op in there:
        for need in inputs(op, there, stages):
            goals[need] |= {home[op]} - {home[need]}
    waiting = [deque(row) for row in rows]
    runs = [False] * len(rows)
    has: list[set[PlainOp]] = [set() for _ in rows]
    sent: dict[tuple[int, int], deque[PlainOp]] = defaultdict(deque)
    carries = defaultdict(bool)
    ran, carried = {}, {}
    heap: list[tuple] = []
    number = itertools.count()

    def later(time, what, *about):
        heapq.heappush(heap, (time, next(number), what, about))

    def start(now, device):
        if waiting[device] and not runs[device] and has[device].issuperset(inputs(waiting[device][0], there, stages)):
            op = waiting[device].popleft()
            runs[device], ran[op] = True, (now, now + duration(op))
            later(now + duration(op), ended, device, op)

    def carry(now, link):
        if sent[link] and not carries[link]:
            carries[link] = True
            op = sent[link].popleft()
            later(now + busy(op), left, link, op, now)

    def ended(now, device, op):
        runs[device] = False
        has[device].add(op)
        for goal in goals[op]:
            sent[device, goal].append(op)
            carry(now, (device, goal))
        start(now, device)

    def left(now, link, op, began):
        carries[link] = False
        carried[op] = (began, now, now + latency)
        later(now + latency, arrived, link[1], op)
        carry(now, link)

    def arrived(now, device, op):
        has[device].add(op)
        start(now, device)

    for device in range(len(rows)):
        start(0, device)
    while heap:
        now, _, what, about = heapq.heappop(heap)
        what(now, *about)
    return ran, carried
