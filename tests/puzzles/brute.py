"""The best makespan of a tiny level by trying every order of every row: slow, and written without the package's rules.

Legality and times come from `tests.oracle`, memory from counting along a row.
"""

import itertools

from tests.oracle import expected_code, times

WAYS = ("FB", "FRB", "FC", "FIW", "FRIW")


def peak(row, boundary, interior, recomputed_later=()):
    """The most a device holds at one time, by walking along its row."""
    again = {*recomputed_later, *(op[1:] for op in row if op[0] in "RC")}
    held = most = 0
    for kind, m, k in row:
        if kind == "F":
            held += boundary + interior
            most = max(most, held)
            if (m, k) in again:
                held -= interior
        elif kind in "RC":
            held += interior
            most = max(most, held)
        if kind in "BCW":
            held -= boundary + interior
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
        if level.cap is None or peak(row, level.boundary, level.interior) <= level.cap[device]:
            yield list(row)


def best_makespan(level, table, send):
    """The smallest makespan of all legal rows within the cap; None if there are none."""
    best = None
    for ops in chosen_ops(level):
        for rows in itertools.product(*(possible_rows(row, level, device) for device, row in enumerate(ops))):
            if expected_code(list(rows)) is None:
                ran = times(list(rows), lambda op: table[op[0]][op[2]], send)
                end = max(end for _, end in ran.values())
                best = end if best is None else min(best, end)
    return best
