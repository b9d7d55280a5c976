"""What has been solved, in one file that its owner can find, read and delete.

The file holds the share string of the best schedule of every level, and what counts is what the judge says of it: an
entry that was edited by hand solves nothing. A file that cannot be read is set aside under another name, never thrown
away.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from .board import Board
from .levels import LEVELS, find_level
from .position import Position
from .score import NOISE, Score, score
from .share import read, share

VARIABLE: Final = "GPIPE_EDU_PROGRESS"
"""The environment variable that names another file."""

_FORMAT: Final = 1


class Record(NamedTuple):
    """The best solution of a level: its makespan, how far that is over par (None without one), its share string."""

    makespan: float
    over_par: float | None
    share: str


def default_path() -> Path:
    """The file: what `GPIPE_EDU_PROGRESS` names, else puzzle.json in the user's folder for application data."""
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    if sys.platform == "win32":
        folder = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support"
    else:
        folder = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return folder / "gpipe_edu" / "puzzle.json"


class Progress:
    """`Progress(path=None)`: read from the file when asked, so that two open notebooks agree.

    notice: a sentence when something was wrong with the file, else "".
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = default_path() if path is None else Path(path)
        self.notice = ""
        self.records: dict[str, Record] = {}
        self._entries = self._load()

    @property
    def where(self) -> str:
        """Where the file is, in a sentence."""
        return f"Progress is kept in {self.path}; delete that file to start again."

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
        self._entries = self._load()
        best = self.records.get(key)
        if self.unlocked(key) and (best is None or result.makespan < best.makespan - NOISE):
            text = share(board.level, board.rows)
            self.records[key] = Record(result.makespan, result.over_par, text)
            self._entries[key] = {"makespan": result.makespan, "share": text}
            self._save()
        return result

    def _load(self) -> dict[str, Any]:
        """The entries of the file, after judging them into `records`."""
        self.records = {}
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if data["format"] != _FORMAT:
                raise ValueError(f"its format is {data['format']!r}")
            entries = dict(data["solved"])
        except FileNotFoundError:
            return {}
        except OSError as error:
            self.notice = f"{self.path} cannot be read: {error.strerror}"
            return {}
        except (ValueError, TypeError, KeyError) as error:
            self._set_aside(error)
            return {}
        for key, entry in entries.items():
            try:
                self.records[key] = _judge(key, entry["share"])
            except (ValueError, TypeError, KeyError) as error:
                self.notice = f"in {self.path} the entry of {key!r} does not count: {error}"
        return entries

    def _set_aside(self, error: Exception) -> None:
        number = 1
        while (aside := self.path.with_name(f"{self.path.stem}.broken-{number}{self.path.suffix}")).exists():
            number += 1
        try:
            self.path.rename(aside)
        except OSError as failure:
            self.notice = f"{self.path} cannot be read as progress ({error}), nor set aside: {failure.strerror}"
        else:
            self.notice = f"{self.path} could not be read as progress ({error}); it is kept as {aside}"

    def _save(self) -> None:
        """Write the whole file anew and put it in the place of the old one at once."""
        text = json.dumps({"format": _FORMAT, "solved": self._entries}, indent=1)
        written: Path | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self.path.parent, prefix=self.path.stem, suffix=".tmp", delete=False
            ) as file:
                written = Path(file.name)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(written, self.path)
        except OSError as error:
            self.notice = f"progress could not be saved in {self.path}: {error.strerror}"
            if written is not None:
                written.unlink(missing_ok=True)


def _judge(key: str, text: str) -> Record:
    """The record that a share string earns. Raises ValueError if it does not solve the level `key`."""
    level, rows = read(text)
    if level.key != key:
        raise ValueError(f"its share string is of the level {level.key!r}")
    result = score(Position(level, rows))
    if not result.solved:
        raise ValueError(f"its schedule does not solve the level: {result.reasons[0]}")
    return Record(result.makespan, result.over_par, text)
