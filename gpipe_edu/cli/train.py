"""`train`: the digits through a pipeline, with progress, and then what happened on one screen."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from gpipe_edu.base.terminal import bad_arguments, needing
from gpipe_edu.base.words import plural
from gpipe_edu.data import digits, minibatches
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.recipes import RECIPES
from gpipe_edu.schedule.recompute import CHECKPOINTS, with_recompute
from gpipe_edu.view.text import render_text

from .schedule import MicroBatches, Partitions, check_targets, find_schedule, write
from .trainer import MOMENTUM, Array, Labels, Trainer

ENGINES = ("numpy", "torch")


def run(
    context: typer.Context,
    engine: Annotated[str, typer.Option(help=f"One of {', '.join(ENGINES)}.")] = "numpy",
    partitions: Partitions = 4,
    micro_batches: MicroBatches = 8,
    layers: Annotated[int, typer.Option(min=1, help="Linear layers of the model, each with tanh but the last.")] = 8,
    hidden_dim: Annotated[int, typer.Option(min=1, help="Width of the hidden layers.")] = 64,
    schedule: Annotated[str, typer.Option(help=f"One of {', '.join(RECIPES)}, or a schedule file.")] = "gpipe",
    checkpoint: Annotated[str, typer.Option(help=f"What recomputes: {', '.join(CHECKPOINTS)}.")] = "never",
    device: Annotated[str, typer.Option(help="Of the torch engine: auto, cpu or cuda.")] = "auto",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training set.")] = 5,
    batch: Annotated[int, typer.Option(min=1, help="N: samples in a mini-batch.")] = 128,
    learning_rate: Annotated[
        float | None, typer.Option(help=f"Of SGD with momentum {MOMENTUM}. Default: 0.4 / layers.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the weights and of the order of the samples.")] = 0,
    save: Annotated[
        Path | None, typer.Option(help="With torchrun: keep the training here, and go on with what is here already.")
    ] = None,
    zero: Annotated[
        bool, typer.Option("--zero", help="With torchrun and replicas: each keeps its share of the optimizer (ZeRO-1).")
    ] = False,
    trace: Annotated[Path | None, typer.Option(help="Write the last step as a Chrome trace (JSON).")] = None,
    figure: Annotated[Path | None, typer.Option(help="Write the last step as a picture (.svg or .png).")] = None,
) -> None:
    """Train on the handwritten digits with a pipeline, and show what happened.

    Started by torchrun, with a process per device: torchrun --nproc-per-node 2 -m gpipe_edu train --partitions 2
    """
    sizes = [64, *[hidden_dim] * (layers - 1), 10]
    rate = 0.4 / layers if learning_rate is None else learning_rate  # deeper models need a smaller one
    started: AbstractContextManager[tuple[Trainer, int]]
    with bad_arguments():
        check_targets(trace, figure)
        found = find_schedule(schedule, partitions, micro_batches, layers=len(sizes[1:]) * 2 - 1)  # with tanh between
        built = with_recompute(found.check(), checkpoint)
        if "WORLD_SIZE" in os.environ:
            from .train_ranks import RanksTrainer, join_job

            job = {**context.params, "schedule": f"{built.name}\n{built}", "trace": None, "figure": None}
            started = join_job(device, job, lambda ranks: RanksTrainer(ranks, built, sizes, rate, seed, save, zero))
        elif save or zero:
            raise ValueError("--save and --zero are for several processes: start this with torchrun")
        else:
            started = nullcontext((_find(engine)(built, sizes, rate, seed, device), 0))
    with started as (trainer, rank):
        console = Console(highlight=False, quiet=rank > 0)  # of several ranks only the first prints and writes
        x, y = _train(trainer, console, epochs, batch, seed)
        timeline = trainer.measure(x, y)
        console.print()
        console.print(render_text(timeline, width=console.width, color=True))
        table = Table(box=None, show_header=False, pad_edge=False)
        for row in trainer.figures(x, y):
            table.add_row(*row)
        console.print(table)
        if rank == 0:
            with bad_arguments():
                for path in write(timeline, trace, figure):
                    console.print(f"wrote {path}", markup=False)


def _find(engine: str) -> Callable[[Schedule, list[int], float, int, str], Trainer]:
    """The trainer of that engine, to be called with a schedule, the layers' sizes, learning rate, seed and device."""
    if engine == "numpy":
        from .train_numpy import NumpyTrainer

        return NumpyTrainer
    if engine == "torch":
        with needing("torch", "--engine torch"):
            from .train_torch import TorchTrainer
        return TorchTrainer
    raise ValueError(f"engine is {engine!r}; it must be one of {', '.join(ENGINES)}")


def _train(trainer: Trainer, console: Console, epochs: int, batch: int, seed: int) -> tuple[Array, Labels]:
    """Train for all epochs; returns a full mini-batch."""
    data = digits()
    console.print(
        f"Digits: {len(data.x_train)} images to train, {len(data.x_test)} to test. {sum(trainer.balance)} layers on "
        f"{plural(trainer.schedule.devices, 'device')} as {', '.join(map(str, trainer.balance))}; {trainer.schedule!r}."
    )
    if trainer.done:
        console.print(f"Goes on after step {trainer.done}, which is saved.")
    steps = -(-len(data.x_train) // batch)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"))
    # Ask the file: Jupyter sets FORCE_COLOR, which makes rich take the output of a cell's child for a terminal.
    hidden = not console.file.isatty()
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        for epoch in range(epochs):
            task = progress.add_task(f"epoch {epoch + 1} of {epochs}", total=steps)
            losses: list[float] = []
            batches = minibatches(data.x_train, data.y_train, batch, seed=seed + epoch)
            for number, (x, y) in enumerate(batches, start=epoch * steps):
                if number >= trainer.done:
                    losses.append(trainer.step(x, y, number))
                progress.advance(task)
            progress.remove_task(task)
            if not losses:
                console.print(f"epoch {epoch + 1}: made by an earlier run")
                continue
            accuracy = trainer.accuracy(data.x_test, data.y_test)
            console.print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}, test accuracy {accuracy:.1%}")
    return next(minibatches(data.x_train, data.y_train, batch, seed=seed))
