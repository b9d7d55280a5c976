"""The best makespan of a tiny level by trying every order of every row: slow, and written without the package's rules.

Legality and times come from `tests.oracle`, memory from counting along a row.
"""

import itertools

from tests.oracle import expected_code, times

WAYS = ("FB", "FRB", "FC", "FIW", "FRIW")


def peak(row, boundary, interior, recomputed_later=(), sizes=None):
    """The most a device holds at one time, by walking along its row; sizes: times the usual, by micro-batch."""
    again = {*recomputed_later, *(op[1:] for op in row if op[0] in "RC")}
    held = most = 0
    for kind, m, k in row:
        size = sizes[m] if sizes else 1
        if kind == "F":
            held += size * (boundary + interior)
            most = max(most, held)
            if (m, k) in again:
                held -= size * interior
        elif kind in "RC":
            held += size * interior
            most = max(most, held)
        if kind in "BCW":
            held -= size * (boundary + interior)
    return most


def chosen_ops(level):
    """Every choice of one way to finish each micro-batch on each stage, as ops per device."""
    cells = list(itertools.product(range(level.M), range(level.K * level.V)))
    ways = [way for way in WAYS if set(way) <= set(level.kinds)]
    for choice in itertools.product(ways, repeat=len(cells)):
        rows = [[] for _ in range(level.K)]
        for (m, k), way in zip(cells, choice, strict=True):
            rows[k % level.K] += [(kind, m, k) for kind in way]
        yield rows


def possible_rows(ops, level, device):
    """Every order of a device's ops that keeps each cell's own order and the cap."""
    for row in itertools.permutations(ops):
        position = {op: index for index, op in enumerate(row)}
        chains = ([op for op in ops if op[1:] == cell] for cell in {op[1:] for op in ops})
        if any(position[a] > position[b] for chain in chains for a, b in itertools.pairwise(chain)):
            continue
        if level.cap is None or peak_of(level, row) <= level.cap[device]:
            yield list(row)


def sizes_of(level):
    """A number for each micro-batch; None if all hold as much, as they do where only ops differ, stage by stage."""
    given = level.costs.micro_batches
    return given if given and not isinstance(given[0], tuple) else None


def peak_of(level, row, recomputed_later=()):
    """The peak of a row of a level."""
    return peak(row, level.boundary, level.interior, recomputed_later, sizes_of(level))


def duration_of(level):
    """How long an op of a level takes."""
    table = level.costs.table(level.stages)
    return lambda op: table[op[0]][op[2]] * times_usual(level, *op[1:])


def times_usual(level, m, k):
    """How many times the usual cost an op of micro-batch m on stage k takes."""
    given = level.costs.micro_batches
    return 1 if given is None else given[k][m] if isinstance(given[0], tuple) else given[m]


def best_makespan(level, table, send):
    """The smallest makespan of all legal rows within the cap; None if there are none."""
    best = None
    for ops in chosen_ops(level):
        for rows in itertools.product(*(possible_rows(row, level, device) for device, row in enumerate(ops))):
            if expected_code(list(rows)) is None:
                ran = times(list(rows), lambda op: table[op[0]][op[2]] * times_usual(level, *op[1:]), send)
                end = max(end for _, end in ran.values())
                best = end if best is None else min(best, end)
    return best
