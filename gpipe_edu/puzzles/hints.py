"""Hints in three sizes: where to look, what kind of op, and which op, each with the reason.

A hint follows the level's policy as long as that still reaches the goal from this board. If it does not, a short search
looks for another way; if that finds none, the hint says how many moves to take back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpipe_edu.base.words import plural, with_article
from gpipe_edu.schedule import KINDS, Op

from .board import Board
from .policy import POLICIES, end_of, way_on

SIZES: Final = (1, 2, 3)
"""From a nudge to the move itself."""


@dataclass(frozen=True)
class Hint:
    """A sentence, and where and what to place: None where this size does not say, or where there is no move.

    back: how many moves to take back, if the goal can be reached only from there.
    """

    size: int
    text: str
    device: int | None = None
    op: Op | None = None
    back: int = 0


def hint(board: Board, size: int = 3) -> Hint:
    """The next move for `board`: 1 says where to look, 2 what kind of op, 3 which op. Raises ValueError otherwise."""
    if size not in SIZES:
        raise ValueError(f"hint size is {size!r}; it must be one of {', '.join(map(str, SIZES))}")
    if board.problems:
        return Hint(size, f"First put this right: {board.problems[0].message}.")
    level = board.level
    if board.score.solved:
        return Hint(size, "Solved: there is nothing left to do.")
    moves, policy = way_on(level, board.rows)
    if not moves:
        return _back(size, board)
    move = moves[0]
    device, kind = move.action.device, KINDS[move.action.kind]
    name = POLICIES[level.policy].name
    if policy:
        why = f"{POLICIES[level.policy].why[move.action.kind]} ({name})"
    else:
        order = "" if level.costs.micro_batches is None else " in the order of the numbers"
        why = f"a search finds a way from here that ends at {end_of(moves):g}; {name}{order} has none"
    when = f"time {move.start:g}"
    if size == 1:
        return Hint(size, f"Look at device {device}: it can start something at {when}.", device)
    if size == 2:
        return Hint(size, f"Device {device}, at {when}: {with_article(kind)}; {why}.", device)
    return Hint(size, f"Place {move.op} on device {device}, at {when}: {why}.", device, move.op)


def _back(size: int, board: Board) -> Hint:
    """How many moves to take back until the goal can be reached."""
    for count, rows in enumerate(board.past(), start=1):
        if way_on(board.level, rows)[0]:
            text = f"From here I find no way to the goal. Take back {plural(count, 'move')}, then there is one."
            return Hint(size, text, back=count)
    return Hint(size, "From here I find no way to the goal. Start again with an empty board.")
