"""Par: the best makespan of a level, proved by looking at every schedule that no bound allows to skip.

Three things take time in any schedule: a micro-batch's way through all stages and back; a device's work, after
the wait for its first op and before the way back from its last; and what has been started already. Together they give a
makespan that cannot be beaten from a given state, so that the search can skip most schedules.

Best first (A*): of all states seen, go on from the one whose lower bound is smallest. The first finished state taken up
that way is optimal, since nothing left can beat its bound. Two things keep the number of states small, and neither
loses a schedule that matters: where micro-batches are alike, states that differ only in their numbers are one; and of
two states in which the same has run, one that is nowhere later makes the other moot.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from time import perf_counter
from typing import NamedTuple

from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.schedule.op import SENDS_GRADIENT

from .levels import Level
from .states import Marks, MicroBatchState, Move, State, StateSpace


def lower_bound(level: Level) -> float:
    """A makespan that no schedule of `level` can beat: the bound for an empty board."""
    space = StateSpace(level)
    return Bounds(space)(space.start)


class _Outlook(NamedTuple):
    """Of a micro-batch at some point: the devices its output and gradient go to (-1: none), and what is left.

    rest: the least time from the arrival of its front to its end. work, hurry: per device, the time of all its ops,
    and of those up to the last gradient. arrival: per device, the least time from the arrival of its front to its
    first op there, None if nothing is left there, -1 if it could start at once.
    """

    output: int
    gradient: int
    rest: float
    work: tuple[float, ...]
    hurry: tuple[float, ...]
    arrival: tuple[float | None, ...]


class Bounds:
    """`bounds(state)`: a makespan that no continuation from `state` can beat."""

    def __init__(self, space: StateSpace) -> None:
        self.space, self.level = space, space.level
        journeys = {first: _Journey(space, first) for first in space.level.alike}
        self._journeys = [journeys[first] for first in space.level.alike]
        backs = [journey.way_back for journey in journeys.values()]
        self._way_back = [[min(least) for least in zip(*each, strict=True)] for each in zip(*backs, strict=True)]

    def __call__(self, state: State) -> float:
        """The largest of: a device's free time, a micro-batch's way, a device's wait, work and way back."""
        free, devices = state.free, range(self.level.K)
        best = max(free)
        work, hurry = [0.0] * len(free), [0.0] * len(free)
        first = [float("inf")] * len(free)
        for left, journey in zip(self._journeys, state.journeys, strict=True):
            outlook = left.outlook(journey.marks)
            front = 0.0
            if outlook.output >= 0:
                front = max(journey.output, free[outlook.output])
            elif outlook.gradient >= 0:
                front = max(journey.gradient, free[outlook.gradient])
            if outlook.rest:
                best = max(best, front + outlook.rest)
            for device in devices:
                wait = outlook.arrival[device]
                if wait is None:
                    continue
                work[device] += outlook.work[device]
                hurry[device] += outlook.hurry[device]
                start = 0.0 if wait < 0 else front + wait
                if start < first[device]:
                    first[device] = start
        for device in devices:
            if work[device]:
                begin = max(free[device], first[device])
                best = max(best, begin + work[device] + self._way_back[1][device])
                if hurry[device]:
                    best = max(best, begin + hurry[device] + self._way_back[0][device])
        return best

    def settle(self, state: State, micro_batch: int) -> MicroBatchState:
        """The journey, with 0 for arrivals that no longer matter because their device is not free before them."""
        journey = state.journeys[micro_batch]
        outlook = self._journeys[micro_batch].outlook(journey.marks)
        _, output, gradient = journey
        if output and (outlook.output < 0 or output <= state.free[outlook.output]):
            output = 0.0
        if gradient and (outlook.gradient < 0 or gradient <= state.free[outlook.gradient]):
            gradient = 0.0
        return MicroBatchState(journey.marks, output, gradient)


class _Journey:
    """What is left of the ways of those micro-batches whose ops take as long as those of `micro_batch`."""

    def __init__(self, space: StateSpace, micro_batch: int) -> None:
        self.level = space.level
        times = [row[micro_batch] for row in space.times]
        self.table = {
            kind: [cost * much for cost, much in zip(costs, times, strict=True)] for kind, costs in space.table.items()
        }
        self._outlooks: dict[Marks, _Outlook] = {}

    def outlook(self, marks: Marks) -> _Outlook:
        """What is left for a micro-batch with these marks."""
        if marks not in self._outlooks:
            self._outlooks[marks] = self._look(marks)
        return self._outlooks[marks]

    def _look(self, marks: Marks) -> _Outlook:
        level, last = self.level, self.level.stages - 1
        forward = next((k for k, mark in enumerate(marks) if not mark), None)
        backward = next((k for k in range(last, -1, -1) if SENDS_GRADIENT.isdisjoint(marks[k])), None)
        work, hurry = [0.0] * level.K, [0.0] * level.K
        arrival: list[float | None] = [None] * level.K
        for k, mark in enumerate(marks):
            ways = self._ways(mark)
            if not any(ways):
                continue
            device, time = level.home(k), self.table
            work[device] += min(sum(time[kind][k] for kind in way) for way in ways)
            hurry[device] += min(sum(time[kind][k] for kind in way if kind != "W") for way in ways)
            wait = self._wait(k, mark, forward, backward)
            known = arrival[device]
            arrival[device] = wait if known is None else min(known, wait)
        rest = 0.0
        if forward is not None:
            rest = self._chain_forward(forward, last + 1) + self._chain_backward(last, -1) + self._after
        elif backward is not None:
            rest = self._chain_backward(backward, -1) + self._after
        return _Outlook(
            -1 if forward is None else level.home(forward),
            -1 if backward is None or (forward is not None and backward == last) else level.home(backward),
            rest,
            tuple(work),
            tuple(hurry),
            tuple(arrival),
        )

    def _ways(self, mark: str) -> list[str]:
        """What may still have to run after `mark`: the rest of each way that begins with it."""
        plain = mark.replace("~", "")
        rests = [way[len(plain) :] for way in self.level.ways if way.startswith(plain)]
        return [rest for rest in rests if mark != "F~" or rest[0] in "RC"] if "~" in mark else rests

    def _wait(self, k: int, mark: str, forward: int | None, backward: int | None) -> float:
        """The least time from the arrival of the front to the next op of stage k, -1 if it need not wait."""
        last = self.level.stages - 1
        if not mark:
            return self._chain_forward(forward or 0, k)
        gradient_first = all(rest[0] in SENDS_GRADIENT for rest in self._ways(mark))
        if not gradient_first or k == last:
            return -1.0
        if forward is not None:
            return self._chain_forward(forward, last + 1) + self._chain_backward(last, k)
        return self._chain_backward(k if backward is None else backward, k)

    def _chain_forward(self, first: int, end: int) -> float:
        """Least time from the start of F on stage `first` until stage `end` has its input."""
        return sum(self.table["F"][k] + self._send(k, k + 1) for k in range(first, end))

    def _chain_backward(self, first: int, end: int) -> float:
        """Least time from the start of the gradient op on stage `first` until stage `end` has its gradient."""
        return sum(self._gradient[k] + self._send(k, k - 1) for k in range(first, end, -1))

    def _send(self, k: int, other: int) -> float:
        inside = 0 <= other < self.level.stages
        return self.level.costs.send if inside and self.level.home(k) != self.level.home(other) else 0.0

    @cached_property
    def _gradient(self) -> list[float]:
        """Per stage: the shortest op that sends a gradient."""
        kinds = {kind for way in self.level.ways for kind in way} & SENDS_GRADIENT
        return [min(self.table[kind][k] for kind in kinds) for k in range(self.level.stages)]

    @cached_property
    def _after(self) -> float:
        """What must follow the last gradient on stage 0: a W if there is no other way."""
        return min(self.table["W"][0] if way.endswith("W") else 0.0 for way in self.level.ways)

    @cached_property
    def way_back(self) -> tuple[list[float], list[float]]:
        """Per device, the least time from its last gradient op, and from its last op, to the end of the step."""
        gradients, ends = [], []
        splits = any(way.endswith("W") for way in self.level.ways)
        for device in range(self.level.K):
            stages = [k for k in range(self.level.stages) if self.level.home(k) == device]
            # The op itself is part of the device's work, so the way back begins with the next stage's.
            backs = [self._chain_backward(k, -1) - self._gradient[k] for k in stages]
            least = min(back + (self._after if k else 0.0) for back, k in zip(backs, stages, strict=True))
            gradients.append(least)
            ends.append(0.0 if splits else least)
        return gradients, ends


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
        and space.level.alike[a] == space.level.alike[b]
        and earlier.marks == later.marks
        and earlier.output <= later.output
        and earlier.gradient <= later.gradient
        and (a < b or (earlier.output, earlier.gradient) != (later.output, later.gradient))
    }
    return (move for move in space.moves(state) if move.micro_batch not in moot)


def _moot(bounds: Bounds, state: State, seen: dict[tuple[Marks, ...], list[tuple[float, ...]]]) -> bool:
    """True if a state was seen in which the same has run, and nowhere later; else notes this one."""
    journeys = sorted(
        (alike, bounds.settle(state, micro_batch)) for micro_batch, alike in enumerate(bounds.level.alike)
    )
    key = tuple(journey.marks for _, journey in journeys)
    times = (*state.free, *(time for _, journey in journeys for time in journey[1:]))
    front = seen.setdefault(key, [])
    if any(all(a <= b for a, b in zip(old, times, strict=True)) for old in front):
        return True
    front[:] = [old for old in front if not all(b <= a for a, b in zip(old, times, strict=True))]
    front.append(times)
    return False
