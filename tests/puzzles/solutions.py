"""Every level's solution, written out by hand, and the plain ideas that must not be enough."""

import gpipe_edu as ge
from gpipe_edu.puzzles import Board, find_level
from gpipe_edu.puzzles.position import Position
from gpipe_edu.puzzles.score import score

SOLUTIONS = {
    "first-dependency": "F0 B0\nF0 B0\nF0 B0",
    "pipelining": "F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2",
    "memory-wall": "F0 F1 B0 B1 F2 F3 B2 B3\nF0 B0 F1 B1 F2 B2 F3 B3",
    "1f1b": "F0 F1 F2 B0 F3 B1 B2 B3\nF0 F1 B0 F2 B1 F3 B2 B3\nF0 B0 F1 B1 F2 B2 F3 B3",
    "recompute-late": "F0 F1 C0 C1\nF0 B0 F1 B1",
    "recompute-early": "F0 F1 F2 R0 B0 R1 B1 R2 B2\nF0 F1 R0 B0 F2 R1 B1 R2 B2\nF0 B0 F1 B1 F2 B2",
    "backward-twice": "F0 F1 I0 W0 I1 W1\nF0 F1 I0 W0 I1 W1\nF0 I0 W0 F1 I1 W1",
    "uneven-stages": "F0 F1 F2 B0 F3 B1 B2 B3\nF0 F1 F2 B0 B1 F3 B2 B3\nF0 B0 F1 F2 B1 B2 F3 B3",
    "interleaved": (
        "F0@0 F1@0 F0@2 F1@2 F2@0 B0@2 F3@0 B1@2 B0@0 B1@0 F2@2 F3@2 B2@2 B3@2 B2@0 B3@0\n"
        "F0@1 F1@1 F0@3 B0@3 F1@3 B1@3 B0@1 B1@1 F2@1 F3@1 F2@3 B2@3 F3@3 B3@3 B2@1 B3@1"
    ),
    "zero-bubble": (
        "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3\nF0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3\nF0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3"
    ),
    "unequal-micro-batches": "F0 F1 F3 B0 F2 B1 B3 B2\nF0 F1 B0 F3 B1 F2 B3 B2\nF0 B0 F1 B1 F3 B3 F2 B2",
    "sandbox": str(ge.gpipe(4, 8)),
}


def solved(key: str) -> Board:
    """A board with the solution of a level."""
    board = Board(find_level(key))
    assert board.type(SOLUTIONS[key]).accepted
    return board


def judge(key: str, schedule: ge.Schedule):
    """The score of a schedule on a level, without a board in between."""
    return score(Position(find_level(key), schedule.rows))


def divided(schedule: ge.Schedule) -> ge.Schedule:
    """Every B as I and then W."""
    return ge.Schedule(
        [
            [ge.Op(kind, op[1], op[2]) for op in row for kind in ("IW" if op[0] == "B" else op[0])]
            for row in schedule.rows
        ]
    )


def in_groups(schedule: ge.Schedule, times: int) -> ge.Schedule:
    """The same schedule again for the next micro-batches, `times` times."""
    size = schedule.micro_batches
    return ge.Schedule(
        [[ge.Op(op[0], op[1] + size * n, op[2]) for n in range(times) for op in row] for row in schedule.rows]
    )


def folded(schedule: ge.Schedule, devices: int) -> ge.Schedule:
    """A schedule of one stage per device on fewer devices, each op when it would have run."""
    rows: list[list[ge.Op]] = [[] for _ in range(devices)]
    for span in ge.simulate(schedule, ge.Costs(F=1, B=1)).spans:
        rows[span.op.stage % devices].append(span.op)
    return ge.Schedule(rows)
