"""Policies: well-known schedules as rules for the next move, so that they can go on from any board.

At every moment the op that can start first is placed. Which one, where several can, is the whole difference between
GPipe, 1F1B and zero bubble. A way from a board to its goal is looked for with the level's policy, or else by a short
search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gpipe_edu.schedule.op import SENDS_GRADIENT

from .levels import Level
from .par import prove
from .position import Rows
from .score import NOISE
from .states import Move, State, StateSpace


@dataclass(frozen=True)
class Policy:
    """A name, the kinds it uses in order of preference, and per kind the reason, as a clause.

    most: how many micro-batches may be past a stage and not back yet. puts_off: how many weight gradients a stage
    puts off. newest_first: gradients of the newest micro-batch first, as GPipe has them.
    """

    name: str
    kinds: str
    why: dict[str, str]
    most: Callable[[Level, int], int] = lambda level, stage: level.M
    puts_off: Callable[[int], int] = lambda stage: 0
    newest_first: bool = False


_BACK: Final = "what can go back goes back at once, which frees its memory"
_AGAIN: Final = "R needs only its own F, and the device would wait here for a gradient"
_FORWARD: Final = "the next micro-batch goes forward, so that the stages behind get something to do"

POLICIES: Final[dict[str, Policy]] = {
    "gpipe": Policy(
        "GPipe",
        "FRBC",
        {
            "F": "all forwards go through first, and each needs the output of the stage in front",
            "R": _AGAIN,
            "B": "all forwards are through here, so the newest micro-batch, whose gradient comes first, goes back",
            "C": "all forwards are through here, so the newest micro-batch goes back",
        },
        newest_first=True,
    ),
    "1f1b": Policy(
        "1F1B",
        "BFRC",
        {
            "B": _BACK,
            "F": "device k may hold K - k micro-batches; here is room for one more, and nothing can go back yet",
            "R": _AGAIN,
            "C": _BACK,
        },
        most=lambda level, stage: level.stages - stage,
    ),
    "early recompute": Policy(
        "1F1B with early recompute",
        "BFR",
        {
            "B": _BACK,
            "F": _FORWARD,
            "R": _AGAIN,
        },
        most=lambda level, stage: level.stages - stage,
    ),
    "forward_first": Policy(
        "forwards first, as far as memory goes",
        "FB",
        {
            "F": "there is room for one more, and the slowest stage must never run out of work",
            "B": "no forward can start here, so a micro-batch goes back",
        },
    ),
    "interleaved": Policy(
        "interleaved 1F1B",
        "BF",
        {
            "B": _BACK,
            "F": "the micro-batch that has come farthest goes on, so that gradients come back soon",
        },
    ),
    "zero_bubble": Policy(
        "zero bubble",
        "WFIR",
        {
            "I": "the stage in front waits for this gradient, and for nothing else from here",
            "F": _FORWARD,
            "W": "device k puts off k of its W, and has more than that; nobody waits for them, so they fill holes",
            "R": _AGAIN,
        },
        most=lambda level, stage: level.stages - stage,
        puts_off=lambda stage: stage,
    ),
}
"""By the names that levels use."""


def next_move(policy: Policy, space: StateSpace, state: State) -> Move | None:
    """A policy's next move; None if it has none."""
    choices = (move for move in space.moves(state) if _allows(policy, space.level, state, move))
    return min(choices, key=lambda move: _rank(policy, space.level, move), default=None)


def follow(policy: Policy, space: StateSpace, state: State) -> list[Move] | None:
    """The moves of a policy from `state` to the end; None if it gets stuck."""
    moves: list[Move] = []
    while not space.done(state):
        move = next_move(policy, space, state)
        if move is None:
            return None
        moves.append(move)
        state = space.after(state, move)
    return moves


def keeps_at(level: Level) -> Sequence[int]:
    """Stages on which activations are kept where they may be: the last one, whose gradient is there at once."""
    return (level.stages - 1,)


def _allows(policy: Policy, level: Level, state: State, move: Move) -> bool:
    kind, stage = move.action.kind, move.action.stage
    marks = [journey.marks[stage].replace("~", "") for journey in state.journeys]
    if kind == "F":
        return sum(mark != "" and SENDS_GRADIENT.isdisjoint(mark) for mark in marks) < policy.most(level, stage)
    if kind == "W":
        waiting = [mark for mark in marks if mark not in level.ways]
        late = [mark for mark in waiting if mark.endswith("I")]
        return len(late) > policy.puts_off(stage) or len(late) == len(waiting)
    return kind in policy.kinds


def _rank(policy: Policy, level: Level, move: Move) -> tuple[float, ...]:
    """The smallest goes first: the earliest start, the preferred kind, then the order of micro-batches and stages."""
    action, micro_batch = move.action, move.micro_batch
    newest = policy.newest_first and action.kind in SENDS_GRADIENT | {"R"}
    drops = action.kind == "F" and action.marks[action.stage] == "F~"
    return (
        move.start,
        policy.kinds.index(action.kind),
        -action.stage if level.V > 1 else 0,
        -micro_batch if newest else micro_batch,
        action.stage,
        drops == (action.stage in keeps_at(level)),
    )


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
