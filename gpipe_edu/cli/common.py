"""What commands that run schedules share: options, schedules by name or file, pictures by file name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from gpipe_edu.base.terminal import needing
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.recipes import RECIPES, by_name, form_of, recipe_name
from gpipe_edu.split import balance_uniform
from gpipe_edu.timeline import Timeline

PICTURES = (".svg", ".png")

Partitions = Annotated[
    int, typer.Option(min=1, help="K: how many devices the layers are cut over. A schedule file says so itself.")
]
MicroBatches = Annotated[
    int, typer.Option(min=1, help="M: how many micro-batches a mini-batch is cut into. A schedule file says so itself.")
]


def find_schedule(what: str, partitions: int, micro_batches: int, layers: int | None = None) -> Schedule:
    """The recipe called `what`, or else the schedule written in the file `what`.

    layers: of the model that is to run by it, if there is one. Raises ValueError if it is neither, or, before a recipe
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
        return Schedule.parse(path.read_text(encoding="utf-8"), name=path.stem)
    except UnicodeDecodeError:
        raise ValueError(f"{what} is no text file; a schedule has a line per device, such as F0 F1 B1 B0") from None


def check_targets(trace: Path | None, figure: Path | None) -> None:
    """Refuse, before any work is done, files that could not be written after it."""
    if figure is not None and figure.suffix not in PICTURES:
        raise ValueError(f"figure is {str(figure)!r}; its name must end in {' or '.join(PICTURES)}")
    for path in filter(None, (trace, figure)):
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
            from gpipe_edu.view.figures import to_png  # loads matplotlib

            figure.write_bytes(to_png(timeline))
    return [path for path in (trace, figure) if path is not None]
