"""Help for players: the forced moves, one micro-batch's pattern for all of them, and the rest of the board.

Forced moves and stamps decide nothing, so they cost nothing. Finishing a board counts as a hint for every op placed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Final, NamedTuple

from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.timeline import Span, simulate

from .levels import Level
from .policy import POLICIES, follow, way_on
from .position import Position, Rows
from .score import NOISE
from .states import StateSpace

_MOST_MOVES: Final = 100
_MOST_INTERVALS: Final = 12


class ForcedMoves(NamedTuple):
    """How far the forced moves lead: the position after `moves` of them, and why they end there."""

    position: Position
    moves: int
    why: str


def play_forced(position: Position) -> ForcedMoves:
    """Place forced ops until a device has a choice, or would wait in the middle of its work.

    If the first move already means waiting, it is made: the player has seen the wait and goes on.
    """
    for count in range(_MOST_MOVES):
        if position.complete:
            return ForcedMoves(position, count, "the board is complete")
        choices = [_kinds(position.level, ops) for ops in position.ready]
        only = [(device, ops[0]) for device, ops in enumerate(position.ready) if len(choices[device]) == 1]
        moves = [(position.moves[op].start, device, op) for device, op in only if op in position.moves]
        if not moves:
            return ForcedMoves(position, count, _why_not(choices))
        start, device, op = min(moves)
        free = max((span.end for span in position.timeline.row(device)), default=start) if position.timeline else start
        if count and start > free + NOISE:
            wait = f"device {device} would wait from {free:g} to {start:g} for {op}; look for something better to do"
            return ForcedMoves(position, count, wait)
        position = position.with_op(device, op)
    return ForcedMoves(position, _MOST_MOVES, f"{_MOST_MOVES} ops are enough for once")


def stamp_pattern(position: Position) -> tuple[Rows, float]:
    """The pattern of micro-batch 0, as it stands on the board, for all: repeated at the shortest interval that fits.

    Returns the rows and the interval. Raises ValueError if micro-batch 0 is not finished on every stage, or if
    micro-batches are not alike.
    """
    level = position.level
    if level.costs.micro_batches:
        raise ValueError("micro-batches are not alike here, so no pattern fits them all; place them one by one")
    pattern = [[op for op in row if op.micro_batch == 0] for row in position.rows]
    schedule = Schedule(pattern)
    if schedule.stages < level.stages or schedule.problems():
        lacking = next((op for op in position.missing if op.micro_batch == 0), None)
        what = f": {lacking} is still to be placed" if lacking else ""
        raise ValueError(f"first build the whole way of micro-batch 0, forward and back through every stage{what}")
    spans = simulate(schedule, level.costs).spans
    found = [(_rows(level, spans, interval), interval) for interval in _intervals(level, spans)]
    sound = [(rows, interval) for rows, interval in found if not Position(level, rows).problems]
    return (sound or found)[0]


def rest(position: Position) -> list[tuple[int, Op]]:
    """The ops that finish the board, with their devices, in order; [] if no way to the goal was found."""
    level = position.level
    if level.goal is not None:
        moves, _ = way_on(level, position.rows)
    else:
        space = StateSpace(level)
        moves = follow(POLICIES[level.policy], space, space.run(position.rows).state) or []
    return [(move.action.device, move.op) for move in moves]


def _kinds(level: Level, ops: Sequence[Op]) -> list[str]:
    """The kinds of op, by kind, stage and size of micro-batch, each named by its first op."""
    return list({(op.kind, op.stage, level.alike[op.micro_batch]): str(op) for op in reversed(ops)}.values())


def _why_not(choices: Sequence[Sequence[str]]) -> str:
    for device, names in enumerate(choices):
        if len(names) > 1:
            return f"device {device} has a choice: {' or '.join(sorted(names))}"
    return "nothing can be placed any more; take some back"


def _intervals(level: Level, spans: Sequence[Span]) -> Iterator[float]:
    """Times between one micro-batch and the next at which no two ops of a device overlap, the shortest first."""
    rows = [[span for span in spans if span.device == device] for device in range(level.K)]
    least = max(sum(span.end - span.start for span in row) for row in rows)
    length = max(span.end for span in spans)
    repeats = range(1, level.M)
    touching = {
        (one.end - two.start) / times for row in rows for one, two in product(row, row) for times in repeats[:64]
    }
    pairs = [pair for row in rows for pair in product(row, row)]
    fitting = (
        interval
        for interval in sorted({least, length, *(each for each in touching if each >= least - NOISE)})
        if all(_free(one, two, interval * times) for one, two in pairs for times in repeats)
    )
    yield from islice(fitting, _MOST_INTERVALS)


def _free(one: Span, two: Span, later: float) -> bool:
    """Whether `one` and `two`, this much later, do not overlap."""
    return two.start + later >= one.end - NOISE or two.end + later <= one.start + NOISE


def _rows(level: Level, spans: Sequence[Span], interval: float) -> Rows:
    rows: list[list[tuple[float, Op]]] = [[] for _ in range(level.K)]
    for number in range(level.M):
        for device, op, start, _ in spans:
            rows[device].append((start + number * interval, Op(op.kind, number, op.stage)))
    return tuple(tuple(op for _, op in sorted(row, key=lambda each: each[0])) for row in rows)
