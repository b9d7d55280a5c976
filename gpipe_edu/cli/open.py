"""`open`: what is in a file of a pipeline, as a chart, and what could be gained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from warnings import catch_warnings, simplefilter

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from gpipe_edu.base.terminal import bad_arguments, needing
from gpipe_edu.schedule import Schedule
from gpipe_edu.timeline import Timeline, diagnose, simulate
from gpipe_edu.timeline.opened import open_files
from gpipe_edu.timeline.stuck_schedule import standstill
from gpipe_edu.view.stuck import stuck_lanes
from gpipe_edu.view.text import render_text

from .as_json import AsJson, diagnosis_of, order_of, step_of, tell
from .schedule import MOST_PROBLEMS, check_targets, is_drawn, write

_MANY = 20_000_000
"""Bytes, which take some seconds."""


def run(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Traces of all ranks, a folder of them, or an order of ops."),
    ],
    step: Annotated[int | None, typer.Option(min=0, help="Which whole step, from 0; else the last.")] = None,
    replica: Annotated[int | None, typer.Option(min=0, help="Which of several pipelines, from 0.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write the step as a Chrome trace (JSON).")] = None,
    figure: Annotated[Path | None, typer.Option(help="Write the chart as a picture (.svg or .png).")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the interactive chart as a page of its own.")] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write a schedule that would be shorter, if there is one, as PyTorch's CSV.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Open a measured run, or a schedule: the chart, its bubble, and what could be gained.

    Reads torch.profiler's traces, a pipeline timer for Megatron-LM, traces of
    gpipe_edu, and orders of ops. Exit code 1 for a schedule that cannot run.
    """
    console = Console(highlight=False, quiet=as_json)
    with bad_arguments():
        check_targets(trace, figure)
        check_targets(html, None)
        with catch_warnings(record=True) as notes, _reading(files) as watch:
            simplefilter("always")
            opened = open_files(files, step=step, replica=replica, watch=watch)
    doubts = [*opened.doubts, *(str(note.message) for note in notes)]
    answer: dict[str, Any] = {"said": opened.said, "doubts": doubts, "schedule": None, "step": None, "diagnosis": None}
    for line in opened.said:
        console.print(line, markup=False)
    for line in doubts:
        console.print(line, style="bold yellow", markup=False)
    found = opened.found
    if isinstance(found, Schedule):
        answer["schedule"] = order_of(found)
    if isinstance(found, Schedule) and (problems := found.problems()):
        if as_json:
            tell(answer)
        for problem in problems[:MOST_PROBLEMS]:
            console.print(problem.message, style="bold red", markup=False)
        if is_drawn(found):
            console.print(stuck_lanes(standstill(found), console.width), markup=False)
        return 1
    timeline = simulate(found) if isinstance(found, Schedule) else found
    answer["step"] = step_of(timeline)
    console.print(render_text(timeline, width=console.width, color=True))
    shorter, words = None, ""
    if timeline.measured:
        diagnosis = diagnose(timeline if step is not None else opened.steps)
        shorter, words = diagnosis.shorter, str(diagnosis)
        answer["diagnosis"] = diagnosis_of(diagnosis)
        console.print(words, markup=False)
        if shorter is not None and csv is None:
            console.print(
                f"That schedule as a file for your cluster: --csv {shorter.name.replace(' ', '_')}.csv", markup=False
            )
    if as_json:
        tell(answer)
    with bad_arguments():
        if csv is not None and not timeline.measured:
            raise ValueError(f"--csv looks for a shorter schedule at measured costs, and {found.name!r} is an order")
        written = _order(shorter, csv) + write(timeline, trace, figure) + _page(timeline, html, words)  # refused first
        for path in written:
            console.print(f"wrote {path}", markup=False)
    return 0


@contextmanager
def _reading(files: list[Path]) -> Iterator[Callable[[int], None] | None]:
    """What is told how many bytes have been read, with a bar on a terminal where there are many."""
    within = [inner for path in files for inner in (path.rglob("*") if path.is_dir() else [path])]
    total = sum(path.stat().st_size for path in within if path.is_file())
    console = Console(stderr=True)
    if total < _MANY or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda read: bar.update(task, completed=read)


def _order(shorter: Schedule | None, path: Path | None) -> list[Path]:
    if path is None:
        return []
    if shorter is None:
        raise ValueError(f"no schedule would be shorter at these costs and in this memory, so {path} was not written")
    shorter.to_csv(path)
    return [path]


def _page(timeline: Timeline, path: Path | None, words: str) -> list[Path]:
    if path is None:
        return []
    with needing("notebooks", "a page"):
        from gpipe_edu.view.gantt import gantt

        gantt(timeline).to_html(path, note=words)
    return [path]
