"""A way from a board to the goal, if there is one: by the level's policy, or else by a short search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .level import Level
from .par import prove
from .policy import POLICIES, follow, keeps_at, next_move
from .position import Rows
from .score import NOISE
from .states import Move, StateSpace

_SEARCH_SECONDS: Final = 2.0


def way_on(level: Level, rows: Rows) -> tuple[list[Move], bool]:
    """Moves from a board to the goal, [] if none was found; and whether they are those of the level's policy.

    If the level has no goal, any next move will do.
    """
    space = StateSpace(level)
    state = space.run(rows, keeps_at(level)).state
    if level.goal is None:
        move = next_move(POLICIES[level.policy], space, state)
        return ([move] if move else []), True
    moves = follow(POLICIES[level.policy], space, state)
    if moves and _reaches(level, moves):
        return moves, True
    found = list(prove(level, _SEARCH_SECONDS, state).moves)
    return (found, False) if found and _reaches(level, found) else ([], False)


def _reaches(level: Level, moves: Sequence[Move]) -> bool:
    return level.goal is not None and end_of(moves) <= level.goal + NOISE


def end_of(moves: Sequence[Move]) -> float:
    """When the last of the moves ends."""
    return max(move.end for move in moves)
