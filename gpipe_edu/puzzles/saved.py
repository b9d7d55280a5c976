"""What is kept with the rest of a learner's progress (see `store.py`): solved levels and unfinished boards.

The file holds the share string of the best schedule of every level, and each is judged when it is read: an entry that
was edited by hand solves nothing.

Boards are kept since a kernel may be restarted in the middle of a level: one per level, as its share string, which is
checked and judged anew when it is read. A board that is solved or empty is not kept.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpipe_edu.base import store

from .board import Board
from .levels import LEVELS, Level
from .position import Position
from .score import NOISE, Score, score
from .share import read, share

_SOLVED: Final = "puzzle"


class Record(NamedTuple):
    """The best solution of a level: its makespan, how far that is over par (None without one), its share string, and
    how many hints it took.
    """

    makespan: float
    over_par: float | None
    share: str
    hints: int = 0


class SolvedLevels:
    """`SolvedLevels(path=None)`: read from the file when asked, so that two open notebooks agree.

    path: instead of the learner's own file. notice: a sentence if something was wrong with the file, else "".
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = store.path() if path is None else Path(path)
        self.notice = ""
        self.records: dict[str, Record] = {}
        self._load()

    @property
    def where(self) -> str:
        """Where the file is, in a sentence."""
        return f"Progress is kept in {self.path}, under {_SOLVED!r}; delete the file to start the whole course again."

    def next_level(self) -> str:
        """The key of the first level that is not solved; the last one if all are."""
        return next((level.key for level in LEVELS if level.key not in self.records), LEVELS[-1].key)

    def record(self, board: Board) -> Score:
        """Judge a board, and record it if it solves its level better than before; returns its score."""
        result = board.score
        key = board.level.key
        if not result.solved:
            return result
        self._load()
        best = self.records.get(key)
        if best is None or _better(result.makespan, board.hints, best):
            text = share(board.level, board.rows)
            self.records[key] = Record(result.makespan, result.over_par, text, board.hints)
            try:
                with store.change(_SOLVED, self.path) as kept:
                    kept[key] = {"makespan": result.makespan, "share": text, "hints": board.hints}
            except OSError as error:
                self.notice = f"progress could not be saved in {self.path}: {error.strerror or error}"
        return result

    def _load(self) -> None:
        """Judge the entries of the file into `records`."""
        self.records = {}
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                entries: dict[str, Any] = store.read(_SOLVED, self.path)
            except OSError as error:
                self.notice = f"{self.path} cannot be read: {error.strerror or error}"
                return
        if said:
            self.notice = str(said[0].message)
        for key, entry in entries.items():
            try:
                self.records[key] = _judge(key, entry["share"])._replace(hints=int(entry["hints"]))
            except (ValueError, TypeError, KeyError) as error:
                self.notice = f"in {self.path} the entry of {key!r} does not count: {error}"


def _better(makespan: float, hints: int, best: Record) -> bool:
    """Whether a solution takes less time than the best one, or as long with fewer hints."""
    return makespan < best.makespan - NOISE or (makespan < best.makespan + NOISE and hints < best.hints)


def _judge(key: str, text: str) -> Record:
    """The record that a share string earns. Raises ValueError if it does not solve the level `key`."""
    level, rows = read(text)
    if level.key != key:
        raise ValueError(f"its share string is of the level {level.key!r}")
    result = score(Position(level, rows))
    if not result.solved:
        raise ValueError(f"its schedule does not solve the level: {result.reasons[0]}")
    return Record(result.makespan, result.over_par, text)


_BOARDS: Final = "puzzle_boards"


def keep(board: Board, path: Path) -> str:
    """Save the board in the file `path`; returns why that was impossible, in a sentence, else "".

    A board with ops that its level does not have cannot be written as a share string: the one saved before stays.
    """
    try:
        entry = _entry(board)
    except ValueError:
        return ""
    try:
        before = store.read(_BOARDS, path)
        if before.get(board.level.key) == entry and (entry is None or list(before)[-1] == board.level.key):
            return ""
        with store.change(_BOARDS, path) as kept:
            kept.pop(board.level.key, None)
            if entry is not None:
                kept[board.level.key] = entry  # last, so that the player continues with it
    except OSError as error:
        return f"the board could not be kept in {path}: {error.strerror or error}"
    return ""


def last(path: Path) -> str:
    """The key of the level whose unfinished board was played last; "" if there is none."""
    return next(reversed(_entries(path)), "")


def load_unfinished(level: Level, path: Path) -> Board:
    """The board of `level` as it was left, or an empty one."""
    try:
        entry = _entries(path)[level.key]
        known, rows = read(entry["share"])
        if known.key == level.key:
            board = Board(known, rows)
            board.free = bool(entry["free"]) or bool(board.problems)
            board.hints = int(entry["hints"])
            return board
    except (KeyError, TypeError, ValueError):
        pass  # none is kept, or the file was edited: a board is quickly built again
    return Board(level)


def _entry(board: Board) -> dict[str, Any] | None:
    if not any(board.rows) or board.score.solved:
        return None
    return {"share": share(board.level, board.rows), "free": board.free, "hints": board.hints}


def _entries(path: Path) -> dict[str, Any]:
    try:
        return store.read(_BOARDS, path)
    except OSError:
        return {}
