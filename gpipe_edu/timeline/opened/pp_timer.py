"""The files of a pipeline timer for Megatron-LM, a patch of github.com/Victarry/PP-Schedule-Visualization: one for each
rank, with the start and the end of each op, in milliseconds.

    event_times_PP2_VPP1_TPxCPxDP_rank_0_pp_rank_1_rank_1.json
    {"forward-0-start": 1.0, "forward-0-end": 2.0, ...}           with VPP of 2 and more "forward-<chunk>-0-start"

A rank's chunk c is stage c * PP + pp_rank. The first rank in the name counts the places in tensor, context and data
groups: each of its values is a pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpipe_edu.base.bounded import name_of
from gpipe_edu.base.words import shown
from gpipe_edu.schedule import Op
from gpipe_edu.schedule.op import MOST_MICRO_BATCHES, MOST_STAGES

from .refusals import MissingRankError
from .steps import PlacedOp, Step

_KEY: Final = re.compile(r"(forward|backward)-(?:(\d{1,9})-)?(\d{1,9})-(start|end)", re.ASCII)
_NAME: Final = re.compile(
    r"PP(\d{1,9})_VPP(\d{1,9})_TPxCPxDP_rank_(\d{1,9})_pp_rank_(\d{1,9})_rank_(\d{1,9})", re.ASCII
)

_LATEST: Final = 1e14
"""Milliseconds, 3,000 years."""

SECONDS: Final = 1e-3
"""Seconds in one unit of its times."""


class Timed(NamedTuple):
    """What a file says: of which pipeline it is, which of its `size` ranks, and what that ran. file: its name."""

    file: str
    pipeline: int
    position: int
    size: int
    rank: int
    step: Step


def looks_like_timer(content: Mapping[str, Any]) -> bool:
    """Whether a JSON object is such a file."""
    return bool(content) and all(_KEY.fullmatch(key) for key in content)


def read_timer(file: Path, content: Mapping[str, Any]) -> Timed:
    """Read one; raises ValueError for a name without ranks, or an op that lacks its start or end or ends before it."""
    name = _NAME.search(file.name)
    told = name_of(file)
    if name is None:
        raise ValueError(
            f"{told} has times of a pipeline timer for Megatron-LM, and its name does not say of which rank: give "
            "it the one that the timer gave it,\n    event_times_PP2_VPP1_TPxCPxDP_rank_0_pp_rank_1_rank_1.json"
        )
    size, _, pipeline, position, rank = map(int, name.groups())
    times: dict[Op, dict[str, float]] = {}
    for key, time in content.items():
        kind, chunk, micro_batch, side = _KEY.fullmatch(key).groups()  # type: ignore[union-attr]  # all keys match
        if not isinstance(time, (int, float)) or not abs(time) < _LATEST:
            raise ValueError(f"{told}: “{key}” is {shown(str(time))}; it must be a time in milliseconds")
        op = Op("F" if kind == "forward" else "B", int(micro_batch), int(chunk or 0) * size + position)
        if op.stage >= MOST_STAGES or op.micro_batch >= MOST_MICRO_BATCHES:
            raise ValueError(
                f"{told} has {op}, and what is opened here has at most {MOST_STAGES} stages and {MOST_MICRO_BATCHES} "
                "micro-batches"
            )
        times.setdefault(op, {})[side] = time
    for op, sides in times.items():
        if len(sides) < 2 or sides["start"] > sides["end"]:
            lacks = "has no " + ("end" if "start" in sides else "start") if len(sides) < 2 else "ends before it starts"
            raise ValueError(f"{told}: {op} {lacks}; the step was cut off there. Give the files of a whole step")
    ops = [PlacedOp(op, sides["start"], sides["end"]) for op, sides in times.items()]
    return Timed(told, pipeline, position, size, rank, Step(sorted(ops, key=lambda op: (op.start, op.end))))


def in_pipelines(timed: Sequence[Timed]) -> list[list[Timed]]:
    """The files of each pipeline, in the order of their ranks. Raises ValueError for a rank that is there twice, or not
    at all."""
    found: dict[int, dict[int, Timed]] = {}
    for one in timed:
        ranks = found.setdefault(one.pipeline, {})
        if one.position in ranks:
            raise ValueError(
                f"{ranks[one.position].file} and {one.file} are both of pipeline rank {one.position}: give one"
            )
        ranks[one.position] = one
    for ranks in found.values():
        size = max(one.size for one in ranks.values())
        if missing := set(range(min(size, len(ranks) + 1))) - set(ranks):
            raise MissingRankError(
                f"the pipeline has {size} ranks by the names of the files, and no file is of pipeline rank "
                f"{min(missing)}: give the files of all of them"
            )
    return [[ranks[position] for position in sorted(ranks)] for _, ranks in sorted(found.items())]
