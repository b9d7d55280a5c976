"""`schedule`: is it legal, how long does it take, what does it look like."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from gpipe_edu.timeline import Costs, simulate
from gpipe_edu.timeline.stuck_schedule import standstill
from gpipe_edu.view.stuck_text import stuck_lanes
from gpipe_edu.view.text import render_text

from .common import bad_arguments, check_targets, find_schedule, write


class Request(NamedTuple):
    """A schedule, by recipe or file, and the costs to plan it with."""

    what: str
    partitions: int
    micro_batches: int
    forward: float
    backward: float
    send: float


def run(request: Request, *, text: bool, trace: Path | None, figure: Path | None) -> int:
    """Check and draw; returns the exit code, 1 if the schedule cannot run."""
    console = Console(highlight=False)
    with bad_arguments():
        check_targets(trace, figure)
        schedule = find_schedule(request.what, request.partitions, request.micro_batches)
        costs = Costs(F=request.forward, B=request.backward, send=request.send)
    problems = schedule.problems()
    for problem in problems:
        console.print(problem.message, style="bold red", markup=False)
    if problems and schedule.stages:
        console.print(stuck_lanes(standstill(schedule, costs), console.width), markup=False)
    if problems:
        return 1
    if text:
        console.print(str(schedule), markup=False, soft_wrap=True)
        return 0
    timeline = simulate(schedule, costs)
    console.print(render_text(timeline, width=console.width, color=True))
    for path in write(timeline, trace, figure):
        console.print(f"wrote {path}", markup=False)
    return 0
