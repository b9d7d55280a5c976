"""Unfinished boards, saved with the solved levels, since a kernel may be restarted in the middle of a level.

One board per level, as its share string, which is checked and judged anew when it is read. A board that is solved or
empty is not kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from gpipe_edu.base import store

from .board import Board
from .level import Level
from .share import read, share

_SECTION: Final = "puzzle_boards"


def keep(board: Board, path: Path) -> str:
    """Save the board in the file `path`; returns why that was impossible, in a sentence, else "".

    A board with ops that its level does not have cannot be written as a share string: the one saved before stays.
    """
    try:
        entry = _entry(board)
    except ValueError:
        return ""
    try:
        before = store.read(_SECTION, path)
        if before.get(board.level.key) == entry and (entry is None or list(before)[-1] == board.level.key):
            return ""
        with store.change(_SECTION, path) as kept:
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
        return store.read(_SECTION, path)
    except OSError:
        return {}
