"""A board as numbers, so that search and hints can look at very many boards.

The rules are not repeated here: `Needs` says what an op waits for and `memory_over_time` what it holds, asked once for
every way to finish a micro-batch on a stage; the answers become small tables.

A state is reached by starting ops one after another, each as soon as its device is free and its inputs are there.
Waiting longer never helps, so every schedule worth looking at is a path from the first state to a last one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from gpipe_edu.schedule import Op
from gpipe_edu.schedule.needs import Needs
from gpipe_edu.schedule.op import SENDS_GRADIENT
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.timeline.memory import memory_over_time

from .levels import Level

Marks = tuple[str, ...]
"""Of one micro-batch, per stage: the kinds of the ops that have run, "F~" if its activations were dropped after F."""


class MicroBatchState(NamedTuple):
    """One micro-batch: its marks, and when its newest output and its newest gradient arrive at the next stage."""

    marks: Marks
    output: float
    gradient: float


class State(NamedTuple):
    """Per device: when it is free and what it holds; per micro-batch a `MicroBatchState`."""

    free: tuple[float, ...]
    held: tuple[float, ...]
    journeys: tuple[MicroBatchState, ...]


class Action(NamedTuple):
    """What a stage can do next with a micro-batch that has certain marks, and what that changes: times and memory of
    a micro-batch of the usual size.
    """

    kind: str
    stage: int
    device: int
    duration: float
    takes: str  # "F": waits for the newest output, "B": for the newest gradient, "": for neither
    gives: str  # "F": its end makes a new output, "B": a new gradient, "": neither
    lag: float  # from its end until that is there
    during: float  # the memory it adds to its device while it runs
    after: float  # and once it has ended
    marks: Marks


class Move(NamedTuple):
    """An action on one micro-batch, and when it would start and end."""

    start: float
    end: float
    micro_batch: int
    action: Action

    @property
    def op(self) -> Op:
        """The op that this move places."""
        return Op(self.action.kind, self.micro_batch, self.action.stage)


class PlayedRows(NamedTuple):
    """How much of given rows could run, and the state after it."""

    state: State
    rows: list[list[Op]]


class StateSpace:
    """`StateSpace(level)`: the states and moves of a level."""

    def __init__(self, level: Level) -> None:
        self.level, self.K = level, level.K
        self.table, self.times = level.costs.table(level.stages), level.costs.times_usual(level.stages, level.M)
        self.sizes = level.sizes
        self._actions: dict[Marks, tuple[Action, ...]] = {}

    @cached_property
    def start(self) -> State:
        """Nothing has run."""
        blank = MicroBatchState(("",) * self.level.stages, 0.0, 0.0)
        return State((0.0,) * self.K, (0.0,) * self.K, (blank,) * self.level.M)

    def moves(self, state: State) -> Iterator[Move]:
        """Every op whose inputs are there and whose memory fits."""
        for micro_batch in range(len(state.journeys)):
            yield from self._moves(state, micro_batch, self.level.cap)

    def _moves(self, state: State, micro_batch: int, cap: tuple[float, ...] | None) -> Iterator[Move]:
        marks, output, gradient = state.journeys[micro_batch]
        size = self.sizes[micro_batch]
        for action in self.actions(marks):
            device = action.device
            if cap is not None and state.held[device] + action.during * size > cap[device]:
                continue
            start = state.free[device]
            there = output if action.takes == "F" else gradient if action.takes == "B" else 0.0
            if there > start:
                start = there
            yield Move(start, start + action.duration * self.times[action.stage][micro_batch], micro_batch, action)

    def after(self, state: State, move: Move) -> State:
        """The state once `move` has been made."""
        action, device = move.action, move.action.device
        free, held, journeys = list(state.free), list(state.held), list(state.journeys)
        free[device] = move.end
        held[device] += action.after * self.sizes[move.micro_batch]
        _, output, gradient = journeys[move.micro_batch]
        if action.takes == "F":
            output = 0.0
        elif action.takes == "B":
            gradient = 0.0
        if action.gives == "F":
            output = move.end + action.lag
        elif action.gives == "B":
            gradient = move.end + action.lag
        journeys[move.micro_batch] = MicroBatchState(action.marks, output, gradient)
        return State(tuple(free), tuple(held), tuple(journeys))

    def run(self, rows: Iterable[Iterable[Op]], keeps_at: Container[int] = ()) -> PlayedRows:
        """How far rows of ops get, one row per device, without a limit on memory.

        Where a forward may keep its activations or drop them and the ops don't say, it keeps them on the stages
        `keeps_at` and drops them on the others.
        """
        queues = [deque(row) for row in rows]
        ops = [op for queue in queues for op in queue]
        needs, finished = Needs(ops), {op[1:] for op in ops if op.kind in SENDS_GRADIENT}
        state = self.start
        played: list[list[Op]] = [[] for _ in range(self.K)]
        moved = True
        while moved:
            moved = False
            for device, queue in enumerate(queues):
                while queue:
                    op = queue[0]
                    moves = self._moves(state, op.micro_batch, None) if op.micro_batch < self.level.M else ()
                    found = [move for move in moves if move.op == op and move.action.device == device]
                    if not found:
                        break
                    decided = op[1:] in finished or needs.rematerializes(*op[1:])
                    keeps = not needs.rematerializes(*op[1:]) if decided else op.stage in keeps_at
                    state = self.after(state, found[0 if keeps else -1])
                    played[device].append(queue.popleft())
                    moved = True
        return PlayedRows(state, played)

    def done(self, state: State) -> bool:
        """True if every micro-batch is finished on every stage."""
        return all(self.finished(mark) for journey in state.journeys for mark in journey.marks)

    def finished(self, mark: str) -> bool:
        """True if nothing is left to do for a micro-batch on a stage where `mark` has run."""
        return mark.replace("~", "") in self.level.ways

    def actions(self, marks: Marks) -> tuple[Action, ...]:
        """What can be done next with a micro-batch; of a forward that may keep or drop, keeping comes first."""
        if marks not in self._actions:
            self._actions[marks] = tuple(self._find(marks))
        return self._actions[marks]

    def if_kept(self, marks: Marks, stage: int) -> list[str]:
        """The kinds that could follow on `stage` if its forward had kept its activations."""
        kept = (*marks[:stage], "F", *marks[stage + 1 :])
        return [action.kind for action in self.actions(kept) if action.stage == stage]

    def _find(self, marks: Marks) -> Iterator[Action]:
        level = self.level
        for stage, mark in enumerate(marks):
            for kind, following, cross, during, after in self._turns.get(mark, ()):
                neighbour = {"F": stage - 1, "B": stage + 1, "": stage}[cross]
                inside = 0 <= neighbour < level.stages
                if cross and inside and not _passed(marks[neighbour], cross):
                    continue
                gives = "F" if kind == "F" else "B" if kind in SENDS_GRADIENT else ""
                target = stage + 1 if gives == "F" else stage - 1
                if not 0 <= target < level.stages:
                    gives = ""
                far = bool(gives) and level.home(target) != level.home(stage)
                yield Action(
                    kind,
                    stage,
                    level.home(stage),
                    self.table[kind][stage],
                    takes=cross if cross and inside and neighbour != stage else "",
                    gives=gives,
                    lag=level.costs.send if far else 0.0,
                    during=during,
                    after=after,
                    marks=(*marks[:stage], following, *marks[stage + 1 :]),
                )

    @cached_property
    def _turns(self) -> dict[str, list[tuple[str, str, str, float, float]]]:
        """Per mark: (kind, next mark, which neighbour it waits for, memory while it runs, memory after)."""
        turns: dict[str, list[tuple[str, str, str, float, float]]] = {}
        for way in self.level.ways:
            ops = [Op(kind, 0, stage) for stage in range(3) for kind in way]
            needs = Needs(ops)
            drops = needs.rematerializes(0, 1)
            levels = _memory(way, self.level)
            mark = ""
            for index, kind in enumerate(way):
                crosses = [need.kind for need in needs(Op(kind, 0, 1)) if need.stage != 1]
                cross = "" if not crosses else "F" if crosses[0] == "F" else "B"
                following = way[:index] + kind if index else kind
                if drops:
                    following = following[0] + "~" + following[1:]
                before = levels[index][0]
                turn = (kind, following, cross, levels[index][1] - before, levels[index][2] - before)
                if turn not in turns.setdefault(mark, []):
                    turns[mark].append(turn)
                mark = following
        turns[""].sort(key=lambda turn: turn[1] != "F")
        return turns


def _passed(mark: str, cross: str) -> bool:
    """True if a stage with this mark has sent what its neighbour waits for: an output or a gradient."""
    return bool(mark) if cross == "F" else not SENDS_GRADIENT.isdisjoint(mark)


def _memory(way: str, level: Level) -> list[tuple[float, float, float]]:
    """Per op of a way, what a device holds before, while and after it runs."""
    spans = [Span(0, Op(kind, 0, 0), 2.0 * index, 2.0 * index + 1) for index, kind in enumerate(way)]
    changes = dict(memory_over_time(Timeline(spans, 1), level.boundary, level.interior)[0])
    found, held = [], 0.0
    for span in spans:
        during = changes.get(span.start, held)
        after = changes.get(span.end, during)
        found.append((held, during, after))
        held = after
    return found
