"""`train`: the digits through the NumPy pipeline, with progress, and then what happened on one screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from gpipe_edu import reference as ref
from gpipe_edu.data import Digits, digits, minibatches
from gpipe_edu.reference.layer import Layer, Params
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.recipes import RECIPES
from gpipe_edu.split import balance_uniform
from gpipe_edu.timeline import simulate
from gpipe_edu.view.text import render_text

from .common import bad_arguments, check_targets, find_schedule, write

__all__ = ["RECIPES", "Job", "run"]


class Job(NamedTuple):
    """What to train: the options of the command line."""

    partitions: int
    micro_batches: int
    layers: int
    hidden_dim: int
    schedule: str
    epochs: int
    batch: int
    learning_rate: float | None
    seed: int


def run(job: Job, *, trace: Path | None, figure: Path | None) -> None:
    """Train, print a table of figures and a chart of the last step, and write the files asked for."""
    console = Console(highlight=False)
    data = digits()
    with bad_arguments():
        check_targets(trace, figure)
        schedule, layers, optimizer, balance = _prepare(job)
    console.print(
        f"Digits: {len(data.x_train)} images to train, {len(data.x_test)} to test. {len(layers)} layers on "
        f"{schedule.devices} devices as {', '.join(map(str, balance))}; {schedule!r}."
    )
    x, y, result = _train(job, data, schedule, balance, layers, optimizer, console)
    _, expected = ref.train_sequential(layers, x, y)
    difference = _difference(ref.train_pipeline(layers, x, y, schedule, balance).grads, expected)
    console.print()
    console.print(render_text(result.timeline, width=console.width, color=True))
    console.print(_figures(schedule, result, difference))
    for path in write(result.timeline, trace, figure):
        console.print(f"wrote {path}", markup=False)


def _prepare(job: Job) -> tuple[Schedule, list[Layer], ref.SGD, tuple[int, ...]]:
    schedule = find_schedule(job.schedule, job.partitions, job.micro_batches).check()
    layers = ref.mlp([64, *[job.hidden_dim] * (job.layers - 1), 10], "tanh", seed=job.seed)
    rate = 0.4 / job.layers if job.learning_rate is None else job.learning_rate
    return schedule, layers, ref.SGD(layers, rate, momentum=0.9), balance_uniform(len(layers), schedule.stages)


def _train(
    job: Job,
    data: Digits,
    schedule: Schedule,
    balance: Sequence[int],
    layers: Sequence[Layer],
    optimizer: ref.SGD,
    console: Console,
) -> tuple[np.ndarray, np.ndarray, ref.Result]:
    """Train for all epochs; returns the last full mini-batch and what its step gave."""
    steps = -(-len(data.x_train) // job.batch)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"))
    step = 0
    with Progress(*columns, console=console, transient=True) as progress:
        for epoch in range(job.epochs):
            task = progress.add_task(f"epoch {epoch + 1} of {job.epochs}", total=steps)
            losses = []
            for x, y in minibatches(data.x_train, data.y_train, job.batch, seed=job.seed + epoch):
                result = ref.train_pipeline(layers, x, y, schedule, balance, step=step)
                optimizer.step(result.grads)
                losses.append(result.loss)
                if len(x) == min(job.batch, len(data.x_train)):
                    last = x, y, result
                step += 1
                progress.advance(task)
            progress.remove_task(task)
            accuracy = np.mean(ref.predict(layers, data.x_test).argmax(axis=1) == data.y_test)
            console.print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}, test accuracy {accuracy:.1%}")
    return last


def _figures(schedule: Schedule, result: ref.Result, difference: float) -> Table:
    """Bubble, memory and equality, each with what kind of figure it is."""
    table = Table(box=None, show_header=False, pad_edge=False)
    plan = simulate(schedule)
    table.add_row("bubble, planned", f"{plan.bubble_fraction:.1%} of all device time is idle (F=1, B=2)")
    table.add_row("bubble, replayed", f"{result.timeline.bubble_fraction:.1%} with op times measured one by one")
    peaks = ", ".join(f"{peak / 1024:.0f}" for peak in result.peak_memory)
    table.add_row("peak activations", f"{peaks} KiB on device 0 to {schedule.devices - 1}, measured")
    table.add_row("gradients", f"differ from one-device training by {difference:.1e} of their size, measured")
    return table


def _difference(grads: Sequence[Params], expected: Sequence[Params]) -> float:
    """The largest difference of any value, as a share of the largest gradient."""
    pairs = [(a[name], b[name]) for a, b in zip(grads, expected, strict=True) for name in b]
    largest = max(float(np.abs(b).max()) for _, b in pairs)
    return max(float(np.abs(a - b).max()) for a, b in pairs) / largest
