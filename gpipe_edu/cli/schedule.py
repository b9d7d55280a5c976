"""`schedule`: is it legal, how long does it take, what does it look like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gpipe_edu.base.terminal import bad_arguments
from gpipe_edu.schedule.recipes import RECIPES
from gpipe_edu.timeline import Costs, simulate
from gpipe_edu.timeline.stuck_schedule import standstill
from gpipe_edu.view.stuck import stuck_lanes
from gpipe_edu.view.text import render_text

from .common import MicroBatches, Partitions, check_targets, find_schedule, write


def run(
    what: Annotated[str, typer.Argument(metavar="SCHEDULE", help=f"One of {', '.join(RECIPES)}, or a schedule file.")],
    partitions: Partitions = 4,
    micro_batches: MicroBatches = 8,
    forward: Annotated[float, typer.Option(help="Time of a forward.")] = 1,
    backward: Annotated[float, typer.Option(help="Time of a backward.")] = 2,
    send: Annotated[float, typer.Option(help="Time from one device to the next.")] = 0,
    text: Annotated[bool, typer.Option("--text", help="Print only the schedule in its written form.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write the plan as a Chrome trace (JSON).")] = None,
    figure: Annotated[Path | None, typer.Option(help="Write the plan as a picture (.svg or .png).")] = None,
) -> int:
    """Check a schedule and draw its plan. Exit code 1, with every problem named, if it cannot run."""
    console = Console(highlight=False)
    with bad_arguments():
        check_targets(trace, figure)
        schedule = find_schedule(what, partitions, micro_batches)
        costs = Costs(F=forward, B=backward, send=send)
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
    with bad_arguments():
        for path in write(timeline, trace, figure):
            console.print(f"wrote {path}", markup=False)
    return 0
