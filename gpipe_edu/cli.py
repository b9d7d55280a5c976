"""The command line: `python -m gpipe_edu train | schedule | doctor`.

Each command is a function in `gpipe_edu.command`; this file only says how they are called and how errors leave: bad
arguments are one sentence on stderr and exit code 2, without a traceback.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gpipe_edu.schedule.recipes import RECIPES
from gpipe_edu.schedule.recompute import CHECKPOINTS

from .command import doctor, schedule, train

app = typer.Typer(help=__doc__.splitlines()[0], no_args_is_help=True, add_completion=False)

Partitions = Annotated[
    int, typer.Option(min=1, help="K: how many devices the layers are cut over. A schedule file says so itself.")
]
MicroBatches = Annotated[
    int, typer.Option(min=1, help="M: how many micro-batches a mini-batch is cut into. A schedule file says so itself.")
]


@app.command("train")
def train_command(
    engine: Annotated[str, typer.Option(help=f"One of {', '.join(train.ENGINES)}.")] = "numpy",
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
        float | None, typer.Option(help="Of SGD with momentum 0.9. Default: 0.4 / layers.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the weights and of the order of the samples.")] = 0,
    trace: Annotated[Path | None, typer.Option(help="Write the last step as a Chrome trace (JSON).")] = None,
    figure: Annotated[Path | None, typer.Option(help="Write the last step as a picture (.svg or .png).")] = None,
) -> None:
    """Train on the handwritten digits with a pipeline, and show what happened."""
    job = train.Job(
        engine=engine,
        partitions=partitions,
        micro_batches=micro_batches,
        layers=layers,
        hidden_dim=hidden_dim,
        schedule=schedule,
        checkpoint=checkpoint,
        device=device,
        epochs=epochs,
        batch=batch,
        learning_rate=learning_rate,
        seed=seed,
    )
    train.run(job, trace=trace, figure=figure)


@app.command("schedule")
def schedule_command(
    what: Annotated[str, typer.Argument(metavar="SCHEDULE", help=f"One of {', '.join(RECIPES)}, or a schedule file.")],
    partitions: Partitions = 4,
    micro_batches: MicroBatches = 8,
    forward: Annotated[float, typer.Option(help="Time of a forward.")] = 1,
    backward: Annotated[float, typer.Option(help="Time of a backward.")] = 2,
    send: Annotated[float, typer.Option(help="Time from one device to the next.")] = 0,
    text: Annotated[bool, typer.Option("--text", help="Print only the schedule in its written form.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write the plan as a Chrome trace (JSON).")] = None,
    figure: Annotated[Path | None, typer.Option(help="Write the plan as a picture (.svg or .png).")] = None,
) -> None:
    """Check a schedule and draw its plan. Exit code 1, with every problem named, if it cannot run."""
    options = schedule.Plan(what, partitions, micro_batches, forward, backward, send)
    raise typer.Exit(schedule.run(options, text=text, trace=trace, figure=figure))


@app.command("doctor")
def doctor_command() -> None:
    """Say what the course needs, what this machine has, and how to get what is missing."""
    raise typer.Exit(doctor.run())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0, 1 for a schedule that cannot run, 2 for bad arguments."""
    try:
        code: Any = app(arguments, prog_name="gpipe_edu", standalone_mode=False)
    except typer.TyperException as error:
        if error.format_message():  # without arguments the help has been printed, and nothing is left to say
            print(f"error: {error.format_message()}", file=sys.stderr)
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)
