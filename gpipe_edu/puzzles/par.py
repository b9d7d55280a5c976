"""Par: the best makespan of a level, proved by looking at every schedule that could be better.

Best first (A*): of all states seen, go on from the one whose lower bound is smallest. The first finished state taken
up that way is optimal, since nothing left can beat its bound. Two things keep the number of states small, and neither
loses a schedule that matters: micro-batches are alike, so states that differ only in their numbers are one; and of
two states in which the same has run, one that is nowhere later makes the other moot.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import NamedTuple

from gpipe_edu.schedule import Op, Schedule

from .bounds import Bounds
from .level import Level
from .states import Marks, Move, State, StateSpace

SECONDS = 60.0
"""How long a proof may take unless told otherwise."""


@dataclass(frozen=True)
class Proof:
    """What a search found: no schedule within the cap has a makespan below `bound`.

    moves: those of the best schedule, in an order in which they can be made, and its makespan; None if there is none,
    or none was found in time. proved: the search was complete, so makespan is the best there is. states: how many
    states were looked at.
    """

    level: Level
    bound: float
    makespan: float | None
    moves: tuple[Move, ...]
    proved: bool
    states: int
    seconds: float

    @property
    def schedule(self) -> Schedule | None:
        """The best schedule, for a search from an empty board."""
        if self.makespan is None:
            return None
        rows: list[list[Op]] = [[] for _ in range(self.level.K)]
        for move in self.moves:
            rows[move.action.device].append(move.op)
        return Schedule(rows, name=self.level.title)

    def __str__(self) -> str:
        looked = f"{self.states:,} states looked at in {self.seconds:.1f} s"
        if not self.proved:
            return f"not proved in time: no schedule is done before {self.bound:g}, {looked}"
        if self.makespan is None:
            return f"proved: no schedule can do it, the cap leaves no room for any, {looked}"
        return f"proved: no schedule is done before {self.makespan:g}, {looked}"


def prove(level: Level, seconds: float = SECONDS, start: State | None = None) -> Proof:
    """The best makespan of `level` by exhaustive search, from an empty board or from `start`, within a time limit."""
    began, space = perf_counter(), StateSpace(level)
    bounds = Bounds(space)
    root = space.start if start is None else start
    order = count()
    first = bounds(root)
    heap: list[tuple[float, int, int, State, _Path | None]] = [(first, 0, next(order), root, None)]
    seen: dict[tuple[Marks, ...], list[tuple[float, ...]]] = {}
    states, bound = 0, first
    while heap:
        bound, depth, _, state, path = heapq.heappop(heap)
        if perf_counter() - began > seconds:
            return Proof(level, bound, None, (), False, states, perf_counter() - began)
        if _moot(bounds, state, seen):
            continue
        states += 1
        if space.done(state):
            return Proof(level, bound, max(state.free), _moves(path), True, states, perf_counter() - began)
        for move in _apart(space, state):
            following = space.after(state, move)
            least = max(bound, bounds(following))
            heapq.heappush(heap, (least, depth - 1, next(order), following, _Path(path, move)))
    return Proof(level, bound, None, (), True, states, perf_counter() - began)


class _Path(NamedTuple):
    before: _Path | None
    move: Move


def _moves(path: _Path | None) -> tuple[Move, ...]:
    moves = []
    while path is not None:
        moves.append(path.move)
        path = path.before
    return tuple(moves[::-1])


def _apart(space: StateSpace, state: State) -> Iterator[Move]:
    """Moves worth trying: of micro-batches with the same ops done, the one that is nowhere later than the others."""
    journeys = state.journeys
    moot = {
        b
        for b, later in enumerate(journeys)
        for a, earlier in enumerate(journeys)
        if a != b
        and earlier.marks == later.marks
        and earlier.output <= later.output
        and earlier.gradient <= later.gradient
        and (a < b or (earlier.output, earlier.gradient) != (later.output, later.gradient))
    }
    return (move for move in space.moves(state) if move.micro_batch not in moot)


def _moot(bounds: Bounds, state: State, seen: dict[tuple[Marks, ...], list[tuple[float, ...]]]) -> bool:
    """True if a state in which the same has run was seen that is nowhere later; else notes this one."""
    journeys = sorted(bounds.settle(state, journey) for journey in state.journeys)
    key = tuple(journey.marks for journey in journeys)
    times = (*state.free, *(time for journey in journeys for time in journey[1:]))
    front = seen.setdefault(key, [])
    if any(all(a <= b for a, b in zip(old, times, strict=True)) for old in front):
        return True
    front[:] = [old for old in front if not all(b <= a for a, b in zip(old, times, strict=True))]
    front.append(times)
    return False
