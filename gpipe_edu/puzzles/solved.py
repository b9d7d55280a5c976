"""What has been solved, kept with the rest of what a learner has done (see `store.py`).

The file holds the share string of the best schedule of every level, and what counts is what the judge says of it: an
entry that was edited by hand solves nothing.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpipe_edu import store

from .board import Board
from .levels import LEVELS, find_level
from .position import Position
from .score import NOISE, Score, score
from .share import read, share

_SECTION: Final = "puzzle"


class Record(NamedTuple):
    """The best solution of a level: its makespan, how far that is over par (None without one), its share string."""

    makespan: float
    over_par: float | None
    share: str


class SolvedLevels:
    """`SolvedLevels(path=None)`: read from the file when asked, so that two open notebooks agree.

    path: instead of the learner's own file. notice: a sentence when something was wrong with the file, else "".
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = store.path() if path is None else Path(path)
        self.notice = ""
        self.records: dict[str, Record] = {}
        self._load()

    @property
    def where(self) -> str:
        """Where the file is, in a sentence."""
        return f"Progress is kept in {self.path}, under {_SECTION!r}; delete the file to start the whole course again."

    def unlocked(self, key: str) -> bool:
        """True for the first level and for every one behind a solved level. Raises ValueError for an unknown key."""
        index = LEVELS.index(find_level(key))
        return index == 0 or LEVELS[index - 1].key in self.records

    def next_level(self) -> str:
        """The key of the first level that is not solved; the last one if all are."""
        return next((level.key for level in LEVELS if level.key not in self.records), LEVELS[-1].key)

    def refusal(self, key: str) -> str:
        """Why a level is not open, in a sentence; "" if it is."""
        if self.unlocked(key):
            return ""
        index = LEVELS.index(find_level(key))
        before = LEVELS[index - 1]
        return f"level {index + 1}, {LEVELS[index].title}, is locked: first solve level {index}, {before.title}"

    def record(self, board: Board) -> Score:
        """Judge a board, and note it if it solves its level better than before; returns its score.

        Nothing is noted of a level that is locked.
        """
        result = board.score
        key = board.level.key
        if not result.solved:
            return result
        self._load()
        best = self.records.get(key)
        if self.unlocked(key) and (best is None or result.makespan < best.makespan - NOISE):
            text = share(board.level, board.rows)
            self.records[key] = Record(result.makespan, result.over_par, text)
            try:
                with store.change(_SECTION, self.path) as kept:
                    kept[key] = {"makespan": result.makespan, "share": text}
            except OSError as error:
                self.notice = f"progress could not be saved in {self.path}: {error.strerror or error}"
        return result

    def _load(self) -> None:
        """Judge the entries of the file into `records`."""
        self.records = {}
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                entries: dict[str, Any] = store.read(_SECTION, self.path)
            except OSError as error:
                self.notice = f"{self.path} cannot be read: {error.strerror or error}"
                return
        if said:
            self.notice = str(said[0].message)
        for key, entry in entries.items():
            try:
                self.records[key] = _judge(key, entry["share"])
            except (ValueError, TypeError, KeyError) as error:
                self.notice = f"in {self.path} the entry of {key!r} does not count: {error}"


def _judge(key: str, text: str) -> Record:
    """The record that a share string earns. Raises ValueError if it does not solve the level `key`."""
    level, rows = read(text)
    if level.key != key:
        raise ValueError(f"its share string is of the level {level.key!r}")
    result = score(Position(level, rows))
    if not result.solved:
        raise ValueError(f"its schedule does not solve the level: {result.reasons[0]}")
    return Record(result.makespan, result.over_par, text)
