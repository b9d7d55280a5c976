"""What the page draws of a board: its boxes as a spec for the chart, and what a chart does not have.

That is: ghosts (ops that could be placed now, where they would be), stuck ops (on the board, but waiting for one that
is not), the ops that are left to place, the goal, par and the cap. The page computes none of it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from gpipe_edu.puzzles import Board, Level, lower_bound
from gpipe_edu.schedule import Op
from gpipe_edu.view.gantt.spec import FORMAT, spec
from gpipe_edu.view.measures import TimeUnit, figures, fullest

_PLAIN: Final = TimeUnit(1, "")

_MOST_NAMED: Final = 24
"""The most ops of a kind that are sent; of more, the page shows the first ones and the last."""

_LEAST_ROOM: Final = 16.0
"""Time on the axis of an empty board without a goal."""


def picture(board: Board) -> dict[str, Any]:
    """Everything to be drawn of `board`, ready for JSON."""
    level, timeline = board.level, board.timeline
    drawn = _empty(level) if timeline is None else spec(timeline, _PLAIN)
    ghosts, stuck = _ghosts(board), _stuck(board, drawn)
    makespan = drawn["end"]
    reach = makespan if board.position.complete else makespan + _longest(level)
    waiting = max((box["end"] for box in stuck), default=0)
    goal = _room(level, max(reach, waiting)) if level.goal is None else level.goal
    return {
        "spec": {
            **drawn,
            "name": level.title,
            "K": level.K,
            "M": level.M,
            "end": max(goal, level.par or 0, reach, waiting),
            "stages": [list(range(device, level.stages, level.K)) for device in range(level.K)],
            "idle": drawn["idle"] if board.position.complete else _inner(drawn["idle"]),
            "flush": [],
            "memory": [[[time for time, _ in steps], [held for _, held in steps]] for steps in board.position.memory],
            "figures": _figures(board),
        },
        "goal": level.goal,
        "par": level.par,
        "cap": level.cap,
        "unit": level.unit,
        "ghosts": ghosts,
        "stuck": stuck,
        "circle": [[str(start), str(end), turn] for start, end, turn in board.position.circle],
        "left": _remaining_ops(board),
    }


def _empty(level: Level) -> dict[str, Any]:
    """The spec of a board on which nothing runs."""
    return {
        "format": FORMAT,
        "end": 0,
        "unit": "step",
        "source": "planned",
        "shown": [1, ""],
        "send": level.costs.send,
        "first": [0] * (level.K + 1),
        "kind": "",
        **{name: [] for name in ("stage", "micro_batch", "start", "stop", "recompute", "critical", "heading")},
        "needs": [[], []],
        "messages": {name: [] for name in ("op", "target", "start", "stop", "there")},
        "idle": {name: [] for name in ("device", "start", "stop", "next", "cause")},
        "cap": None,
        "broken": [],
        "peaks": [0] * level.K,
        "stats": {},
    }


def _inner(idle: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The bubbles that another op ends: on an unfinished board it is unknown what follows the last op."""
    kept = [index for index, following in enumerate(idle["next"]) if following >= 0]
    return {name: [column[index] for index in kept] for name, column in idle.items()}


def _figures(board: Board) -> list[str]:
    """The figures beside the board; for an empty one only what is to be reached."""
    level, timeline = board.level, board.timeline
    aims = [f"goal {level.goal:g}"] if level.goal is not None else []
    aims += [f"par {level.par:g}"] if level.par is not None else []
    if timeline is None:
        return ["makespan 0", *aims]
    makespan, *rest = figures(timeline, _PLAIN)
    peak = max(board.position.peaks)
    held = fullest(timeline, peak) if level.unit == "micro-batches" else level.amount(peak)
    return [makespan, *aims, *rest, f"peak memory {held}"]


def _ghosts(board: Board) -> list[dict[str, Any]]:
    """The ops that could be placed, with the times at which they would run; of ops that differ only in their
    micro-batch, which takes as long, only the first, and how many `more` there are.
    """
    moves = board.position.moves
    found: dict[tuple[int, str, int, int], dict[str, Any]] = {}
    for device, ops in enumerate(board.ready):
        for op in ops:
            alike = (device, op.kind, op.stage, board.level.alike[op.micro_batch])
            if alike in found:
                found[alike]["more"] += 1
                continue
            start, end = moves[op][:2] if op in moves else _times(board, device, op)
            found[alike] = {"op": str(op), "device": device, "start": start, "end": end, "more": 0}
    return list(found.values())


def _times(board: Board, device: int, op: Op) -> tuple[float, float]:
    """When `op` would run after the last op of `device`."""
    timeline = board.position.with_op(device, op).timeline
    return next((span.start, span.end) for span in timeline.spans if span.op == op) if timeline else (0.0, 0.0)


def _stuck(board: Board, drawn: dict[str, Any]) -> list[dict[str, Any]]:
    """The ops that cannot run yet, side by side after those of their device that can."""
    level, found = board.level, []
    table, times = level.costs.table(level.stages), level.costs.times_usual(level.stages, level.M)
    for device, row in enumerate(board.rows):
        first, beyond = drawn["first"][device], drawn["first"][device + 1]
        time = drawn["stop"][beyond - 1] if beyond > first else 0.0
        for at, op in enumerate(row[beyond - first :], start=beyond - first):
            stage, micro_batch = min(op.stage, level.stages - 1), min(op.micro_batch, level.M - 1)
            end = time + table[op.kind][stage] * times[stage][micro_batch]
            found.append({"op": str(op), "device": device, "at": at, "start": time, "end": end})
            time = end
    return found


def _remaining_ops(board: Board) -> list[list[dict[str, Any]]]:
    """Per device, the ops that it can still be given, by kind and stage; where a way is chosen, those of that way, and
    none where a micro-batch is finished. Named are the first ones and the last; more: how many others there are.
    """
    level = board.level
    there: dict[tuple[int, int], frozenset[str]] = {}
    nothing = frozenset[str]()
    for row in board.rows:
        for kind, micro_batch, stage in row:
            there[micro_batch, stage] = there.get((micro_batch, stage), nothing) | {kind}
    fits = {kinds: _fitting(level, kinds) for kinds in {*there.values(), nothing}}
    cells = [[fits[there.get((m, k), nothing)] for m in range(level.M)] for k in range(level.stages)]
    left: list[list[dict[str, Any]]] = [[] for _ in range(level.K)]
    for kind in level.kinds:
        for stage, column in enumerate(cells):
            open_ones = [m for m, kinds in enumerate(column) if kind in kinds]
            if open_ones:
                named = open_ones if len(open_ones) <= _MOST_NAMED else [*open_ones[: _MOST_NAMED - 1], open_ones[-1]]
                ops = [f"{kind}{m}@{stage}" for m in named]
                left[level.home(stage)].append(
                    {"kind": kind, "stage": stage, "ops": ops, "more": len(open_ones) - len(ops)}
                )
    return left


def _fitting(level: Level, kinds: frozenset[str]) -> set[str]:
    """The kinds of op still possible for a micro-batch on a stage, after these `kinds`."""
    if any(kinds == set(way) for way in level.ways):
        return set()
    return {kind for way in level.ways if kinds <= set(way) for kind in way} - kinds


def _longest(level: Level) -> float:
    """The longest op there is, so that the next one has room."""
    table = level.costs.table(level.stages)
    return max(cost for kind in level.kinds for cost in table[kind])


def _room(level: Level, reach: float) -> float:
    """How much time to show without a goal: it grows by doubling, so that boxes seldom change their size."""
    end = _LEAST_ROOM
    while end < reach:
        end *= 2
    return min(end, max(reach, _bound(level)))


@lru_cache(maxsize=8)
def _bound(level: Level) -> float:
    return lower_bound(level)
