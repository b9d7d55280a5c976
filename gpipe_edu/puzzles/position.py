"""What is known about the ops on a board: judged by the schedule doctor, timed by the simulator.

Both need a whole schedule, and a board is one only at the end. So the board is completed first, in an order that breaks
no rule that is still kept: a board is sound if what is on it is part of a schedule that can run. The times of
its ops do not depend on the completion, which comes after them on every device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import cached_property, lru_cache
from typing import Final

from gpipe_edu.base.words import plural
from gpipe_edu.schedule import KINDS, Op, Problem, Schedule, doctor
from gpipe_edu.schedule.deadlock import circle, links
from gpipe_edu.schedule.needs import Needs
from gpipe_edu.schedule.op import SENDS_GRADIENT
from gpipe_edu.schedule.order import run_order
from gpipe_edu.timeline import Span, Timeline, simulate
from gpipe_edu.timeline.memory import memory_over_time

from .levels import Level
from .states import Move, PlayedRows, StateSpace

Rows = tuple[tuple[Op, ...], ...]

CODES: Final[dict[str, str]] = {
    **doctor.CODES,
    "level": "the level does not have such an op",
    "cap": "a device would hold more than it may",
    "waiting": "an op needs another that is not on the board yet",
}
"""Codes of problems on a board: those of the doctor, and three that only a board can have."""


class Position:
    """`Position(level, rows)`: rows of ops, one per device, on the way to a schedule for `level`. Immutable.

    Raises ValueError if there is not one row per device.
    """

    def __init__(self, level: Level, rows: Iterable[Iterable[Op]]) -> None:
        self.level = level
        self.rows: Rows = tuple(tuple(row) for row in rows)
        if len(self.rows) != level.K:
            raise ValueError(
                f"there are {len(self.rows)} rows of ops; this level has {plural(level.K, 'device')}, with a row each"
            )

    @cached_property
    def problems(self) -> list[Problem]:
        """What is wrong and will stay wrong: the first kind of rule that is broken; [] for a sound board."""
        return self._foreign or self._whole.problems() or self._over

    @cached_property
    def circle(self) -> list[tuple[Op, Op, bool]]:
        """Of a deadlock: (op, the one it waits for, False) and (that one, the one it stands behind, True), in turn."""
        deadlocked = any(problem.code == "deadlock" for problem in self.problems)
        return links(circle(self._whole)) if deadlocked else []

    @cached_property
    def waiting(self) -> list[Problem]:
        """Per device, the first op whose input is made by an op that is not on the board yet."""
        found = []
        ran = {span.op for span in self._spans}
        for device, row in enumerate(self.rows):
            op = next((op for op in row if op not in ran), None)
            need = op and next((need for need in self._whole.needs(op) if need in self._lacking), None)
            if op and need:
                message = (
                    f"{op} on device {device} waits for {need}, which is not on the board: {doctor.reason(op, need)}"
                )
                found.append(Problem("waiting", message, op))
        return found

    @cached_property
    def missing(self) -> list[Op]:
        """The ops that would complete the board; where there are several ways to finish, those of one of them."""
        return [*self._lacking, *_untouched(self.level, self._reach)]

    @property
    def complete(self) -> bool:
        """True if this is a whole schedule that can run within the cap."""
        return not self.problems and not self.missing

    @cached_property
    def schedule(self) -> Schedule:
        """The rows as they are."""
        return Schedule(self.rows, name=self.level.title)

    @cached_property
    def timeline(self) -> Timeline | None:
        """When the ops that can already run would run; None if none can."""
        return (
            Timeline(self._spans, self.level.K, name=self.level.title, send=self.level.costs.send)
            if self._spans
            else None
        )

    @cached_property
    def memory(self) -> list[list[tuple[float, float]]]:
        """Per device: (time, activations held from then on), in the unit of the level, for `timeline`."""
        if self.timeline is None:
            return [[] for _ in self.rows]
        end = self.timeline.end
        # The missing ops come after the end, so that they tell what will be recomputed and change nothing before.
        ran = {span.op for span in self._spans}
        later = [
            Span(device, op, end + 1, end + 1)
            for device, row in enumerate(self._runs._whole.rows)
            for op in row
            if op not in ran
        ]
        timeline, sizes = Timeline([*self._spans, *later], self.level.K), self.level.costs.sizes or None
        levels = memory_over_time(timeline, self.level.boundary, self.level.interior, sizes)
        return [[(time, held) for time, held in level if time <= end] for level in levels]

    @cached_property
    def peaks(self) -> tuple[float, ...]:
        """Per device: the most it holds at one time."""
        return tuple(max((held for _, held in level), default=0) for level in self.memory)

    @cached_property
    def moves(self) -> dict[Op, Move]:
        """The ops that can start now, and when; not those behind an op that waits on their device."""
        there = {op for row in self.rows for op in row}
        moves = _space(self.level).moves(self._played.state)
        return {move.op: move for move in moves if move.op not in there and not self._stuck[move.action.device]}

    @cached_property
    def ready(self) -> list[list[Op]]:
        """Per device: the ops that could be placed behind its row now."""
        found = {(move.action.device, op) for op, move in self.moves.items()}
        there = {op for row in self.rows for op in row}
        # A forward is assumed to drop its activations where it may; the judge knows if there is room to keep them.
        for micro_batch, journey in enumerate(self._played.state.journeys):
            for stage, mark in enumerate(journey.marks):
                device = self.level.home(stage)
                if mark != "F~" or self._stuck[device]:
                    continue
                for kind in _space(self.level).if_kept(journey.marks, stage):
                    op = Op(kind, micro_batch, stage)
                    if op not in there and (self.level.cap is None or self.with_op(device, op).sound):
                        found.add((device, op))
        return [sorted(op for home, op in found if home == device) for device in range(self.level.K)]

    @property
    def sound(self) -> bool:
        """True if nothing is wrong and no op waits for one that is not on the board."""
        return not self.problems and not self.waiting

    def with_op(self, device: int, op: Op) -> Position:
        """This board with one more op, behind those of `device`."""
        rows = list(self.rows)
        rows[device] = (*rows[device], op)
        return Position(self.level, rows)

    @cached_property
    def _played(self) -> PlayedRows:
        return _space(self.level).run(self.rows)

    @cached_property
    def _stuck(self) -> list[bool]:
        """Per device: whether an op on it waits, so that no op behind it can run."""
        return [len(ran) < len(row) for ran, row in zip(self._played.rows, self.rows, strict=True)]

    @cached_property
    def _foreign(self) -> list[Problem]:
        level, problems = self.level, []
        for device, row in enumerate(self.rows):
            for op in row:
                message = ""
                if op.kind not in level.kinds:
                    allowed = ", ".join(f"{kind} {KINDS[kind]}" for kind in level.kinds)
                    message = f"{op} on device {device}: this level is played with {allowed}"
                elif op.micro_batch >= level.M:
                    message = f"{op} on device {device}: the micro-batches of this level are 0 to {level.M - 1}"
                elif op.stage >= level.stages:
                    message = f"{op} on device {device}: the stages of this level are 0 to {level.stages - 1}"
                if message:
                    problems.append(Problem("level", message, op))
        return problems

    @cached_property
    def _over(self) -> list[Problem]:
        """Devices that would hold more than they may."""
        problems = []
        for device, most in enumerate(self.level.cap or ()):
            over = next(((time, held) for time, held in self.memory[device] if held > most), None)
            if over:
                op = next((span.op for span in self._spans if (span.device, span.start) == (device, over[0])), None)
                held = self.level.amount(over[1])
                cure = "; recompute would free some of it" if {"R", "C"} & set(self.level.kinds) else ""
                message = f"with {op}, device {device} would hold {held}, the cap is {most:g}{cure}"
                problems.append(Problem("cap", message, op))
        return problems

    @cached_property
    def _reach(self) -> int:
        """How many micro-batches have to be completed to judge the board: up to the last one that is on it.

        Later ones could always run after everything else, so they would change no verdict and only cost time. If an op
        is on the wrong device, all count: the doctor tells by the number of ops where a stage belongs. So they do where
        micro-batches differ, since costs have a number for each.
        """
        level = self.level
        here = ((device, op) for device, row in enumerate(self.rows) for op in row)
        if level.costs.micro_batches or any(level.home(op.stage) != device for device, op in here):
            return level.M
        return min(level.M, max((op.micro_batch + 1 for row in self.rows for op in row), default=1))

    @cached_property
    def _lacking(self) -> dict[Op, None]:
        """The missing ops of the micro-batches to be completed, in order; a dict, for fast lookup."""
        level = self.level
        ways: dict[frozenset[str], str] = {}
        there: dict[tuple[int, int], set[str]] = {}
        for device, row in enumerate(self.rows):
            for kind, micro_batch, stage in row:
                if level.home(stage) == device:
                    there.setdefault((micro_batch, stage), set()).add(kind)
        lacking: dict[Op, None] = {}
        for micro_batch in range(self._reach):
            for stage in range(level.stages):
                kinds = frozenset(there.get((micro_batch, stage), ()))
                if kinds not in ways:
                    ways[kinds] = _way(level, kinds)
                for kind in ways[kinds]:
                    if kind not in kinds:
                        lacking[Op(kind, micro_batch, stage)] = None
        return lacking

    @cached_property
    def _whole(self) -> Schedule:
        return _complete(self.level, self.rows, self._lacking)

    @cached_property
    def _runs(self) -> Position:
        """This board, if it is sound; else one with only those of its ops that can run."""
        if not self._foreign and not self._whole.problems():
            return self
        return Position(self.level, self._played.rows)

    @cached_property
    def _spans(self) -> list[Span]:
        """The spans of the ops on the board that wait for nothing missing."""
        board = self._runs
        ran = {op for _, op, _ in run_order(board.rows, board._whole.needs)}
        return [span for span in simulate(board._whole, self.level.costs).spans if span.op in ran] if ran else []


@lru_cache(maxsize=4)
def _space(level: Level) -> StateSpace:
    """The state space of a level, cached since it is the same for every move."""
    return StateSpace(level)


@lru_cache(maxsize=4)
def _untouched(level: Level, first: int) -> tuple[Op, ...]:
    """The ops of the micro-batches from `first` on, none of them on the board; cached since they rarely change."""
    way = _way(level, set())
    return tuple(Op(kind, m, k) for m in range(first, level.M) for k in range(level.stages) for kind in way)


def _way(level: Level, kinds: Set[str]) -> str:
    """The most lenient way to finish a micro-batch that has these kinds; "" if there is none.

    It recomputes as long as that is possible: whether there is room to keep its activations shows once it is not.
    """
    ways = [way for way in level.ways if kinds <= set(way)]
    if kinds & SENDS_GRADIENT:
        return min(ways, key=len, default="")
    return next((way for way in ways if set("RC") & set(way)), ways[0] if ways else "")


def _complete(level: Level, rows: Sequence[Sequence[Op]], lacking: Iterable[Op]) -> Schedule:
    """`rows` with `lacking` behind them, in an order that adds no deadlock."""
    lacking = list(lacking)
    ops = [op for row in rows for op in row]
    last = {op: row[-1] for op in lacking if (row := rows[level.home(op.stage)])}
    # Every missing op has a row of its own, behind the last op of its device, so that every op that can run does.
    order = [op for _, op, _ in run_order([*rows, *([op] for op in lacking)], _Behind([*ops, *lacking], last))]
    place = {op: index for index, op in enumerate(order)}
    finished = [list(row) for row in rows]
    for op in sorted(lacking, key=lambda op: place.get(op, len(place))):
        finished[level.home(op.stage)].append(op)
    return Schedule(finished, name=level.title)


class _Behind(Needs):
    """`Needs`, with one more op that must have run before some ops."""

    def __init__(self, ops: Iterable[Op], before: dict[Op, Op]) -> None:
        super().__init__(ops)
        self._before = before

    def __call__(self, op: Op) -> list[Op]:
        needs = super().__call__(op)
        return [*needs, self._before[op]] if op in self._before else needs
