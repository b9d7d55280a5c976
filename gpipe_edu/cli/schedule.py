"""`schedule`: is it legal, how long does it take, what does it look like.

Options, schedules by name or file, and pictures by file name are those of all commands that run schedules.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated
from warnings import catch_warnings, simplefilter

import typer
from rich.console import Console

from gpipe_edu.base.bounded import read_bytes
from gpipe_edu.base.terminal import bad_arguments, needing
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.notation import MOST_LETTERS
from gpipe_edu.schedule.pipeline_csv import torchtitan_flags
from gpipe_edu.schedule.reading import parse_any
from gpipe_edu.schedule.recipes import RECIPES, by_name, form_of, recipe_name
from gpipe_edu.split import balance_uniform
from gpipe_edu.timeline import Costs, Timeline, simulate
from gpipe_edu.timeline.stuck_schedule import standstill
from gpipe_edu.view.stuck import stuck_lanes
from gpipe_edu.view.text import render_text

from .as_json import AsJson, order_of, step_of, tell

PICTURES = (".svg", ".png")

_MOST_IN_LANES = 20_000
"""Ops."""

MOST_PROBLEMS = 100
"""Sentences on what is wrong with a schedule; whoever mends so many has others then."""

Partitions = Annotated[
    int, typer.Option(min=1, help="K: how many devices the layers are cut over. A schedule file says so itself.")
]
MicroBatches = Annotated[
    int, typer.Option(min=1, help="M: how many micro-batches a mini-batch is cut into. A schedule file says so itself.")
]


def find_schedule(what: str, partitions: int, micro_batches: int, layers: int | None = None) -> Schedule:
    """The recipe called `what`, or else the schedule written in the file `what`.

    layers: those of the model that is to run by it, if any. Raises ValueError if `what` is neither, or, before a recipe
    is built, for fewer layers than stages; ScheduleError if the file cannot be read as a schedule.
    """
    if found := recipe_name(what):
        if layers is not None:
            balance_uniform(layers, partitions * form_of(found).stages)
        return by_name(found, partitions, micro_batches)
    path = Path(what)
    if not path.is_file():
        raise ValueError(f"schedule is {what!r}; it must be one of {', '.join(RECIPES)}, or an existing file")
    try:
        with catch_warnings(record=True) as notes:
            simplefilter("always")
            data = read_bytes(path, 4 * MOST_LETTERS)
            written = parse_any(data.decode("utf-8"), name=path.stem)
    except UnicodeDecodeError:
        raise ValueError(f"{what} is no text file; a schedule has a line per device, such as F0 F1 B1 B0") from None
    for note in notes:
        typer.echo(f"note: {note.message}", err=True)
    return written


def is_drawn(schedule: Schedule) -> bool:
    """Whether where a schedule stops is shown: if it has ops, and not so many that their lanes fill many screens."""
    return bool(schedule.stages) and sum(map(len, schedule.rows)) <= _MOST_IN_LANES


def check_targets(trace: Path | None, figure: Path | None, csv: Path | None = None) -> None:
    """Refuse, before any work is done, files that could not be written after it."""
    if figure is not None and figure.suffix not in PICTURES:
        raise ValueError(f"figure is {str(figure)!r}; its name must end in {' or '.join(PICTURES)}")
    for path in filter(None, (trace, figure, csv)):
        if not path.parent.is_dir():
            raise ValueError(f"the folder of {str(path)!r} does not exist; create it first")
        there = path.exists()
        try:
            path.open("ab").close()
        except OSError as error:
            raise ValueError(f"{str(path)!r} cannot be written ({error.strerror}); name another file") from error
        if not there:
            path.unlink()
    if figure is not None and figure.suffix == ".png":
        with needing("notebooks", "a .png (a .svg needs nothing)"):
            import_module("matplotlib")


def write(timeline: Timeline, trace: Path | None, figure: Path | None) -> list[Path]:
    """Write what was asked for; returns the paths written."""
    if trace is not None:
        timeline.save_trace(trace)
    if figure is not None:
        if figure.suffix == ".svg":
            figure.write_text(timeline.to_svg(), encoding="utf-8")
        else:
            from gpipe_edu.view.matplotlib_painter import to_png  # loads matplotlib

            figure.write_bytes(to_png(timeline))
    return [path for path in (trace, figure) if path is not None]


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
    csv: Annotated[Path | None, typer.Option(help="Write the schedule as PyTorch's pipeline CSV.")] = None,
    as_json: AsJson = False,
) -> int:
    """Check a schedule and draw its plan. Exit code 1, with every problem named, if it cannot run.

    A file has a line per device, such as F0 F1 B1 B0, or is PyTorch's pipeline
    CSV, or an order written by zero bubble or Megatron-LM.
    """
    console = Console(highlight=False, quiet=as_json)
    with bad_arguments():
        check_targets(trace, figure, csv)
        schedule = find_schedule(what, partitions, micro_batches)
        costs = Costs(F=forward, B=backward, send=send)
    problems = schedule.problems()
    if as_json:
        tell(order_of(schedule) | {"step": None if problems else step_of(simulate(schedule, costs))})
    for problem in problems[:MOST_PROBLEMS]:
        console.print(problem.message, style="bold red", markup=False)
    if problems and is_drawn(schedule):
        console.print(stuck_lanes(standstill(schedule, costs), console.width), markup=False)
    if problems:
        return 1
    if csv is not None:
        with bad_arguments():
            schedule.to_csv(csv)
    if text:
        console.print(str(schedule), markup=False, soft_wrap=True)
        return 0
    timeline = simulate(schedule, costs)
    console.print(render_text(timeline, width=console.width, color=True))
    with bad_arguments():
        for path in write(timeline, trace, figure):
            console.print(f"wrote {path}", markup=False)
    if csv is not None:
        console.print(f"wrote {csv}", markup=False)
        if flags := torchtitan_flags(schedule.rows, str(csv)):
            console.print(f"torchtitan takes it with {flags}", markup=False, soft_wrap=True)
    return 0
