"""The board on which a schedule is built, move by move, without a screen: page, command line and tests share it.

In guided mode a move is made only if all that is on the board can still become a schedule that runs: every op's input
is there, and no device holds more than it may. In free mode anything goes, and what is wrong is listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpipe_edu.base.validate import whole
from gpipe_edu.base.words import plural
from gpipe_edu.schedule import Op, Problem, ScheduleError
from gpipe_edu.schedule.notation import parse_rows
from gpipe_edu.timeline import Timeline

from .helpers import play_forced, rest, stamp_pattern
from .levels import MODES, Level
from .position import Position, Rows
from .score import Score, score


@dataclass(frozen=True)
class Verdict:
    """Whether a move was made, and a sentence that says why not, or what was done.

    code: "" if it was made, else a key of `position.CODES`, or "place" (no such device or place) or "history" (nothing
    to take back).
    """

    accepted: bool
    message: str
    code: str = ""


class Board:
    """`Board(level, rows=None)`: by default an empty board; `rows` are the ops of each device, in running order.

    hints: how many the player has taken; each op placed for them counts as one.

    Raises ValueError if there is not one row per device.
    """

    def __init__(self, level: Level, rows: Iterable[Iterable[Op]] | None = None) -> None:
        self.level = level
        self.free = level.mode == "free"
        self.hints = 0
        self._past: list[Position] = []
        self._future: list[Position] = []
        self.position = Position(level, [()] * level.K if rows is None else rows)

    @property
    def rows(self) -> Rows:
        """Per device: its ops, in running order."""
        return self.position.rows

    def place(self, device: int, op: Op, at: int | None = None) -> Verdict:
        """Put `op` behind the ops of `device`, or before the one that stands `at` that place, counted from 0."""
        if refused := self._outside(device, at, whole=True):
            return refused
        row = self.rows[device]
        where = len(row) if at is None else at
        return self._try(self._with(device, (*row[:where], op, *row[where:])), f"{op} placed on device {device}", op)

    def remove(self, device: int, at: int = -1) -> Verdict:
        """Take away the op of `device` that stands `at` that place, by default its last one."""
        if refused := self._outside(device, at):
            return refused
        row = self.rows[device]
        where = at % len(row)
        rows = self._with(device, (*row[:where], *row[where + 1 :]))
        return self._try(rows, f"{row[where]} taken from device {device}")

    def move(self, device: int, at: int, to_device: int, to: int) -> Verdict:
        """Take the op of `device` that stands `at` that place, and put it `to` that place of `to_device`."""
        if refused := self._outside(device, at):
            return refused
        row = self.rows[device]
        op, without = row[at], Position(self.level, self._with(device, (*row[:at], *row[at + 1 :])))
        if refused := self._outside(to_device, to, rows=without.rows, whole=True):
            return refused
        target = without.rows[to_device]
        rows = list(without.rows)
        rows[to_device] = (*target[:to], op, *target[to:])
        return self._try(rows, f"{op} moved to device {to_device}", op)

    def type(self, text: str) -> Verdict:
        """What a player types: "F0@1", several ops, "1: F0 B0" for device 1, or all rows, as in `Schedule.parse`.

        Ops are placed one after another until one is refused; rows replace what is there, or are refused whole.
        """
        lines = [line for line in text.splitlines() if line.partition("#")[0].strip()]
        try:
            if len(lines) > 1:
                return self.load(parse_rows(text, self.level.kinds))
            return self._type_ops(lines[0].partition("#")[0] if lines else "")
        except ScheduleError as error:
            return Verdict(False, str(error), error.problems[0].code)

    def load(self, rows: Sequence[Iterable[Op]]) -> Verdict:
        """Replace all rows."""
        if len(rows) != self.level.K:
            message = (
                f"there are {len(rows)} rows; this level has {plural(self.level.K, 'device')}, so give one row for each"
            )
            return Verdict(False, message, "level")
        return self._try(rows, "rows replaced")

    def clear(self) -> Verdict:
        """Take everything away; `undo` brings it back."""
        return self._try([()] * self.level.K, "the board is empty")

    def run_on(self) -> Verdict:
        """Place what leaves nothing to decide, and say where that ends."""
        if problems := self.problems:
            return Verdict(False, f"first put right what is wrong: {problems[0].message}", problems[0].code)
        position, moves, why = play_forced(self.position)
        if not moves:
            return Verdict(False, f"you decide: {why}", "place")
        return self._try(position.rows, f"{plural(moves, 'op')} placed; {why}")

    def stamp(self) -> Verdict:
        """Repeat the pattern of micro-batch 0 for all, at the shortest interval that fits."""
        try:
            rows, interval = stamp_pattern(self.position)
        except ValueError as error:
            return Verdict(False, str(error), "missing")
        return self._try(rows, f"the pattern of micro-batch 0, again every {interval:g}")

    def finish(self) -> Verdict:
        """Place all ops that are left, as the hints would; each counts as one."""
        if problems := self.problems:
            return Verdict(False, f"first put right what is wrong: {problems[0].message}", problems[0].code)
        if self.score.solved:
            return Verdict(False, "the level is solved, so nothing is left to place", "place")
        ops = rest(self.position)
        if not ops:
            return Verdict(False, "from here I find no way to the goal; ask for a hint", "place")
        rows = [[*row, *(op for home, op in ops if home == device)] for device, row in enumerate(self.rows)]
        verdict = self._try(rows, f"{plural(len(ops), 'op')} placed for you; each counts as a hint")
        self.hints += len(ops) * verdict.accepted
        return verdict

    def back(self, moves: int) -> Verdict:
        """Take back several changes at once. Raises ValueError for fewer than one."""
        for done in range(whole("moves to take back", moves, 1)):
            verdict = self.undo()
            if not verdict.accepted:
                text = f"{plural(done, 'move')} taken back, there are no more"
                return Verdict(True, text) if done else verdict
        return Verdict(True, f"{plural(moves, 'move')} taken back")

    def set_mode(self, mode: str) -> Verdict:
        """Go on in guided or free mode. Guided is refused while something is wrong. Raises ValueError for any other."""
        if mode not in MODES:
            raise ValueError(f"mode is {mode!r}; it must be one of {', '.join(MODES)}")
        problems = [] if mode == "free" else self._wrong(self.position)
        if problems:
            return Verdict(False, f"first put right what is wrong: {problems[0].message}", problems[0].code)
        self.free = mode == "free"
        return Verdict(True, f"{mode}: {MODES[mode]}")

    def undo(self) -> Verdict:
        """Take back the last change."""
        return self._step(self._past, self._future, "nothing to take back", "taken back")

    def redo(self) -> Verdict:
        """Redo the change that was taken back last."""
        return self._step(self._future, self._past, "nothing to make again", "made again")

    def past(self) -> Iterator[Rows]:
        """The rows before the last change, before the one before, and so on."""
        return (position.rows for position in reversed(self._past))

    @property
    def ready(self) -> list[list[Op]]:
        """Per device: the ops that could be placed behind its row now."""
        return self.position.ready

    @property
    def problems(self) -> list[Problem]:
        """What is wrong with the board, and which ops on it wait for one that is not."""
        return self._wrong(self.position)

    @property
    def timeline(self) -> Timeline | None:
        """When the ops on the board run, as far as they can; None while none can."""
        return self.position.timeline

    @property
    def score(self) -> Score:
        """Whether the level is solved, and every figure of the board."""
        return score(self.position)

    def _type_ops(self, text: str) -> Verdict:
        head, colon, rest = text.partition(":")
        device = None
        if colon:
            if not head.strip().isdecimal() or int(head) >= self.level.K:
                message = f'"{head.strip()}:" is no device; the devices are 0 to {self.level.K - 1}, such as "0: F0 F1"'
                return Verdict(False, message, "unreadable")
            device = int(head)
        words = (rest if colon else text).split()
        if not words:
            return Verdict(False, "nothing to place; write an op such as F0@0", "unreadable")
        for word in words:
            if "@" not in word and device is None and word.upper()[:1] in self.level.kinds:
                message = f"{word} on which stage? Write {word}@0 for stage 0, or 0: {word} for device 0"
                return Verdict(False, message, "unreadable")
        whole = " ".join(word if "@" in word or device is None else f"{word}@{device}" for word in words)
        placed: list[str] = []
        for op in parse_rows(whole, self.level.kinds)[0]:
            verdict = self.place(self.level.home(op.stage) if device is None else device, op)
            if not verdict.accepted:
                done = f" ({' '.join(placed)} placed before)" if placed else ""
                return Verdict(False, verdict.message + done, verdict.code)
            placed.append(str(op))
        return Verdict(True, f"{' '.join(placed)} placed")

    def _try(self, rows: Iterable[Iterable[Op]], done: str, op: Op | None = None) -> Verdict:
        """Make the change, unless it is wrong in guided mode; of what is wrong, `op` is named first."""
        after = Position(self.level, rows)
        problems = [] if self.free else self._wrong(after)
        if problems:
            problem = next((problem for problem in problems if problem.op == op), problems[0])
            elsewhere = op is not None and problem.op != op
            return Verdict(False, f"{op} not here: {problem.message}" if elsewhere else problem.message, problem.code)
        self._past.append(self.position)
        self._future.clear()
        self.position = after
        return Verdict(True, done)

    def _step(self, source: list[Position], target: list[Position], nothing: str, done: str) -> Verdict:
        if not source:
            return Verdict(False, nothing, "history")
        after = source[-1]
        if not self.free and (problems := self._wrong(after)):
            return Verdict(False, f"that board was built in free mode: {problems[0].message}", problems[0].code)
        target.append(self.position)
        self.position = source.pop()
        return Verdict(True, done)

    def _wrong(self, position: Position) -> list[Problem]:
        return position.problems or position.waiting

    def _with(self, device: int, row: Iterable[Op]) -> list[tuple[Op, ...]]:
        rows = list(self.rows)
        rows[device] = tuple(row)
        return rows

    def _outside(self, device: int, at: int | None, rows: Rows | None = None, whole: bool = False) -> Verdict | None:
        """A refusal for a device or a place that does not exist; `whole`: behind the last op counts as a place."""
        if not 0 <= device < self.level.K:
            return Verdict(False, f"device is {device}; the devices are 0 to {self.level.K - 1}", "place")
        count = len((self.rows if rows is None else rows)[device])
        if at is not None and not (0 if whole else -count) <= at < count + whole:
            have = f"its ops stand at 0 to {count - 1}" if count else "it has no ops"
            return Verdict(False, f"there is no place {at} on device {device}: {have}", "place")
        return None
