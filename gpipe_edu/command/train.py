"""`train`: the digits through a pipeline, with progress, and then what happened on one screen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from gpipe_edu.data import Digits, digits, minibatches
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.recompute import with_recompute
from gpipe_edu.timeline import Timeline
from gpipe_edu.view.text import render_text

from .common import bad_arguments, check_targets, find_schedule, write

ENGINES = ("numpy", "torch")
Array = NDArray[np.float64]
Labels = NDArray[np.int64]


class Training(NamedTuple):
    """What to train: the options of the command line."""

    engine: str
    partitions: int
    micro_batches: int
    layers: int
    hidden_dim: int
    schedule: str
    checkpoint: str
    device: str
    epochs: int
    batch: int
    learning_rate: float | None
    seed: int
    save: Path | None = None
    zero: bool = False

    @property
    def rate(self) -> float:
        """The learning rate; deeper models need a smaller one."""
        return 0.4 / self.layers if self.learning_rate is None else self.learning_rate


class Trainer(Protocol):
    """One engine with a model on it. With several ranks, each has one, and all call the same methods in turn."""

    schedule: Schedule
    balance: tuple[int, ...]
    done: int
    """Steps that an earlier run has made, whose training goes on."""

    def step(self, x: Array, y: Labels, number: int) -> float:
        """Train on one mini-batch; returns its loss."""

    def accuracy(self, x: Array, y: Labels) -> float:
        """The share of samples that the model reads right."""

    def measure(self, x: Array, y: Labels) -> Timeline:
        """Run one mini-batch without an update; returns when its ops ran."""

    def figures(self, x: Array, y: Labels) -> list[tuple[str, str]]:
        """What is worth knowing, measured on one mini-batch: names and sentences."""


def run(training: Training, *, trace: Path | None, figure: Path | None) -> None:
    """Train, print a chart of the last step and a table of figures, and write the files asked for.

    Started by torchrun, this is one of several ranks, of which the first prints and writes.
    """
    with bad_arguments():
        check_targets(trace, figure)
    if "WORLD_SIZE" not in os.environ:
        with bad_arguments():
            if training.save or training.zero:
                raise ValueError("--save and --zero are for several processes: start this with torchrun")
            trainer = _trainer(training)
        _show(training, trainer, Console(highlight=False), trace, figure)
        return
    from .train_ranks import joined

    with joined(training, _schedule(training)) as (trainer, rank):
        if rank > 0:
            trace = figure = None
        _show(training, trainer, Console(highlight=False, quiet=rank > 0), trace, figure)


def _show(training: Training, trainer: Trainer, console: Console, trace: Path | None, figure: Path | None) -> None:
    data = digits()
    console.print(
        f"Digits: {len(data.x_train)} images to train, {len(data.x_test)} to test. {sum(trainer.balance)} layers on "
        f"{trainer.schedule.devices} devices as {', '.join(map(str, trainer.balance))}; {trainer.schedule!r}."
    )
    x, y = _train(training, data, trainer, console)
    timeline = trainer.measure(x, y)
    console.print()
    console.print(render_text(timeline, width=console.width, color=True))
    table = Table(box=None, show_header=False, pad_edge=False)
    for row in trainer.figures(x, y):
        table.add_row(*row)
    console.print(table)
    for path in write(timeline, trace, figure):
        console.print(f"wrote {path}", markup=False)


def _schedule(training: Training) -> Schedule:
    schedule = find_schedule(training.schedule, training.partitions, training.micro_batches).check()
    return with_recompute(schedule, training.checkpoint)


def _trainer(training: Training) -> Trainer:
    schedule = _schedule(training)
    if training.engine == "numpy":
        from .train_numpy import NumpyTrainer

        return NumpyTrainer(training, schedule)
    if training.engine == "torch":
        try:
            from .train_torch import TorchTrainer
        except ModuleNotFoundError as error:
            raise ValueError(f'--engine torch needs {error.name}: python -m pip install "gpipe_edu[torch]"') from error
        return TorchTrainer(training, schedule)
    raise ValueError(f"engine is {training.engine!r}; it must be one of {', '.join(ENGINES)}")


def _train(training: Training, data: Digits, trainer: Trainer, console: Console) -> tuple[Array, Labels]:
    """Train for all epochs; returns a full mini-batch."""
    steps = -(-len(data.x_train) // training.batch)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"))
    # Asked of the file: Jupyter sets FORCE_COLOR, by which rich takes what a cell starts for a terminal.
    hidden = not console.file.isatty()
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        for epoch in range(training.epochs):
            task = progress.add_task(f"epoch {epoch + 1} of {training.epochs}", total=steps)
            losses: list[float] = []
            batches = minibatches(data.x_train, data.y_train, training.batch, seed=training.seed + epoch)
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
    return next(minibatches(data.x_train, data.y_train, training.batch, seed=training.seed))


def kib(sizes: tuple[int, ...]) -> str:
    """Bytes per device, as people read them."""
    return ", ".join(f"{size / 1024:,.0f}" for size in sizes) + f" KiB on device 0 to {len(sizes) - 1}"


def same(difference: float) -> tuple[str, str]:
    """The row about gradients."""
    return "gradients", f"differ from one-device training by {difference:.1e} of their size, measured"
