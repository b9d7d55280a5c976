"""Why a schedule for exercise 09's board, three devices under a memory cap, is wrong: see `reasons`."""

import re

from tests import oracle
from tests.oracle import Rows

from .reasons import Reasons, board, cells, makespan, turns

CAP, GOAL = 2, 26


def _excess(rows: Rows) -> list[tuple[list[oracle.PlainOp], set[tuple[int, int]]]]:
    """Each time that a device is over the cap: its ops up to then, and what it holds."""
    times = [(row[: place + 1], held) for row in rows for place, held in enumerate(oracle.interiors(row))]
    return [(ops, held) for ops, held in times if len(held) > CAP]


def _first_excess(rows: Rows) -> tuple[list[oracle.PlainOp], set[tuple[int, int]]]:
    """On the device that holds most, or the first of these."""
    peaks = [max(map(len, oracle.interiors(row))) for row in rows]
    return _excess([rows[peaks.index(max(peaks))]])[0]


def _brought_back(rows: Rows) -> bool:
    """Where a device goes over the cap, a micro-batch that a recompute has brought back takes the room."""
    ops, held = _first_excess(rows)
    return bool({(m, k) for kind, m, k in ops if kind in "RC"} & held)


def tells_what_is_held(because: str, rows: Rows) -> bool:
    """Whether a sentence names the device, the number of interiors, the op that starts, and what else is there."""
    ops, held = _first_excess(rows)
    device = next(device for device, row in enumerate(rows) if row[: len(ops)] == ops)
    first, _, rest = because.partition(": ")
    kind, micro_batch, stage = ops[-1]
    others = {m for m, _ in held - {(micro_batch, stage)}}
    return (
        first == f"Device {device} holds {len(held)} interiors when {kind}{micro_batch} starts"
        and {int(m) for m in re.findall(r"\b[FR](\d+)\b", rest.partition(". ")[0])} - {micro_batch} == others
    )


def _without_one(rows: Rows) -> list[Rows]:
    """The same rows without one of the recomputes, where that can run and keeps the cap."""
    found = []
    for op in {op for row in rows for op in row if op[0] == "R"}:
        other = [[another for another in row if another != op] for row in rows]
        if oracle.expected_code(other) is None and not _excess(other):
            found.append(other)
    return found


def _early_instead(rows: Rows) -> list[Rows]:
    """Each C as R and B, with the R right before it or before the first, second ... backward in front of it."""
    found = []
    for distance in range(4):
        other: Rows = [[] for _ in rows]
        for row, ops in zip(rows, other, strict=True):
            for kind, m, k in row:
                if kind == "C":
                    place = len(ops)
                    for _ in range(distance):
                        place = max((i for i in range(place) if ops[i][0] == "B"), default=place)
                    ops.insert(max(ops.index(("F", m, k)) + 1, place), ("R", m, k))
                ops.append(("B" if kind == "C" else kind, m, k))
        if oracle.expected_code(other) is None and not _excess(other):
            found.append(other)
    return found


def _recomputed(rows: Rows) -> set[tuple[int, int]]:
    return cells(rows, "RC")


UNDER_CAP = Reasons(
    rules=[
        ("holds-too-much", lambda rows, K, M: bool(_excess(rows))),
        ("too-slow", lambda rows, K, M: makespan(rows) > GOAL),
    ],
    beliefs={
        "upside-down": lambda rows, K, M: (
            oracle.expected_code(rows) is not None
            and oracle.expected_code([[(op, m, K - 1 - k) for op, m, k in row] for row in reversed(rows)]) is None
        ),
        "other-size": lambda rows, K, M: (
            len(rows) != K or {k for row in rows for _, _, k in row} != set(range(K)) or _numbers(rows) != set(range(M))
        ),
        "plain-gpipe": lambda rows, K, M: not _recomputed(rows) and not turns(rows),
        "over-the-cap": lambda rows, K, M: bool(_excess(rows)) and _brought_back(rows),
        "holds-too-much": lambda rows, K, M: bool(_excess(rows)) and not _brought_back(rows),
        "waits": lambda rows, K, M: makespan(rows) > GOAL and not _recomputed(rows),
        "everything": lambda rows, K, M: makespan(rows) > GOAL and _recomputed(rows) == board(K, M),
        "all-on-device-0": lambda rows, K, M: makespan(rows) > GOAL and _recomputed(rows) == {(m, 0) for m in range(M)},
        "unneeded": lambda rows, K, M: any(GOAL < makespan(rows) > makespan(other) for other in _without_one(rows)),
        "late": lambda rows, K, M: any(GOAL < makespan(rows) > makespan(other) for other in _early_instead(rows)),
    },
)


def _numbers(rows: Rows) -> set[int]:
    return {m for row in rows for _, m, _ in row}
