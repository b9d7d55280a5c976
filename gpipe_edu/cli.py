"""The command line: `python -m gpipe_edu lab`, and what else there is to type, which its `--help` lists.

`build`, for who changes the course, works and is not listed. Each command is a function in `gpipe_edu.command`; this
file only says how they are called and how errors leave: bad arguments are one sentence on stderr and exit code 2,
without a traceback.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gpipe_edu.command import (
    classroom,
    environment,
    exercises,
    grade,
    lab,
    lecture,
    personal,
    plan,
    platforms,
    puzzle,
    schedule,
    train,
    watch,
)
from gpipe_edu.course.building.build import WORK
from gpipe_edu.grading.writing import escape_on_terminals
from gpipe_edu.schedule.recipes import RECIPES
from gpipe_edu.schedule.recompute import CHECKPOINTS
from gpipe_edu.sizing.plan import SCHEDULES, STATES
from gpipe_edu.sizing.presets import presets

app = typer.Typer(help=__doc__.splitlines()[0], no_args_is_help=True, add_completion=False)

Partitions = Annotated[
    int, typer.Option(min=1, help="K: how many devices the layers are cut over. A schedule file says so itself.")
]
MicroBatches = Annotated[
    int, typer.Option(min=1, help="M: how many micro-batches a mini-batch is cut into. A schedule file says so itself.")
]


@app.command("lab", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def lab_command(
    context: typer.Context,
    folder: Annotated[Path, typer.Option(help="Where your copy of the course is, or will be.")] = WORK,
    port: Annotated[int, typer.Option(help="Of the address that is printed.")] = 8888,
) -> None:
    """Open the course in JupyterLab, on a copy that is yours; further options are JupyterLab's."""
    raise typer.Exit(lab.run(folder, port, context.args))


@app.command("classroom", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def classroom_command(
    context: typer.Context,
    port: Annotated[int, typer.Option(help="Of the address that is printed.")] = 8888,
) -> None:
    """Serve the puzzle alone on a page, for a projector; further options are Voila's."""
    raise typer.Exit(classroom.run(port, context.args))


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
    training = train.Training(
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
        save=save,
        zero=zero,
    )
    train.run(training, trace=trace, figure=figure)


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
    options = schedule.Request(what, partitions, micro_batches, forward, backward, send)
    raise typer.Exit(schedule.run(options, text=text, trace=trace, figure=figure))


@app.command("plan")
def plan_command(
    model: Annotated[
        str, typer.Option(help=f"{', '.join(plan.SHAPES)}, or {', '.join(presets('models'))}.")
    ] = "transformer",
    layers: Annotated[int, typer.Option(min=1, help="Blocks of the Transformer, or linear layers of the MLP.")] = 24,
    width: Annotated[int, typer.Option(min=1, help="Numbers per token, or per hidden layer.")] = 1024,
    context: Annotated[int, typer.Option(min=1, help="Tokens per sample (Transformer).")] = 1024,
    vocabulary: Annotated[int, typer.Option(min=1, help="Words (Transformer).")] = 32000,
    batch: Annotated[int, typer.Option(min=1, help="N: samples in a mini-batch, over all replicas.")] = 32,
    devices: Annotated[int, typer.Option(min=1, help="How many devices there are.")] = 4,
    machine: Annotated[
        str, typer.Option(help=f"Which: {', '.join(presets('machines'))}. What follows says otherwise.")
    ] = "small",
    tensor: Annotated[int, typer.Option(min=1, help="Devices that share every layer (tensor parallelism).")] = 1,
    memory: Annotated[float | None, typer.Option(help="Memory of each device in GB (10^9 bytes).")] = None,
    speed: Annotated[float | None, typer.Option(help="What a device sustains, in TFLOP/s.")] = None,
    overhead: Annotated[float | None, typer.Option(help="Fixed time per layer and op, in microseconds.")] = None,
    link: Annotated[float | None, typer.Option(help="Between two devices of a node, one way, in GB/s.")] = None,
    network: Annotated[float | None, typer.Option(help="Between nodes, for each device, in GB/s.")] = None,
    node: Annotated[int | None, typer.Option(min=1, help="Devices in a node.")] = None,
    latency: Annotated[float | None, typer.Option(help="Of a message, in microseconds.")] = None,
    reserve: Annotated[float | None, typer.Option(help="Share of the memory to leave free.")] = None,
    optimizer: Annotated[str | None, typer.Option(help=f"One of {', '.join(STATES)}.")] = None,
    activation_bytes: Annotated[int | None, typer.Option(min=1, help="Bytes per stored or sent number.")] = None,
    schedule: Annotated[str, typer.Option(help=f"One of {', '.join(SCHEDULES)}.")] = "1f1b",
    virtual: Annotated[int, typer.Option(min=1, help="V: stages per device where they are interleaved.")] = 2,
    zero: Annotated[bool, typer.Option("--zero", help="ZeRO-1: replicas share the optimizer's state.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show every plan, not only the best of each K.")] = False,
) -> None:
    """Say how many replicas (D), stages (K) and micro-batches (M) to use, and what to recompute.

    The last lines of the answer say which ways it weighs, and which not, such as sharded weights (FSDP).

    Exit code 1, with what is short, if nothing fits.
    """
    wish = plan.Wish(
        model=model,
        layers=layers,
        width=width,
        context=context,
        vocabulary=vocabulary,
        batch=batch,
        devices=devices,
        machine=machine,
        tensor=tensor,
        memory=memory,
        speed=speed,
        overhead=overhead,
        link=link,
        network=network,
        node=node,
        latency=latency,
        reserve=reserve,
        optimizer=optimizer,
        activation_bytes=activation_bytes,
        schedule=schedule,
        virtual=virtual,
        zero=zero,
    )
    raise typer.Exit(plan.run(wish, everything=everything))


@app.command("puzzle")
def puzzle_command(
    level: Annotated[str, typer.Argument(help="A level's name or number. Default: the first that is not solved.")] = "",
    share: Annotated[str, typer.Option(help="Open the board of a share string.")] = "",
    partitions: Annotated[int | None, typer.Option(help="K of the sandbox, the last level.")] = None,
    micro_batches: Annotated[int | None, typer.Option(help="M of the sandbox.")] = None,
    stages: Annotated[int | None, typer.Option(help="Stages on each device of the sandbox.")] = None,
    backward: Annotated[
        float | None, typer.Option(help="Time of a backward in the sandbox; a forward takes 1.")
    ] = None,
    send: Annotated[float | None, typer.Option(help="Time from one device to the next in the sandbox.")] = None,
    cap: Annotated[float | None, typer.Option(help="Micro-batches that a device of the sandbox may hold.")] = None,
) -> None:
    """Build schedules by hand, level by level: a move per line, refused with the reason if it breaks a rule."""
    sizes = {"K": partitions, "M": micro_batches, "V": stages, "B": backward, "send": send, "cap": cap}
    given = {name: value for name, value in sizes.items() if value is not None}
    raise typer.Exit(puzzle.run(level, share, given))


@app.command("build", hidden=True)
def build_command(
    beside: Annotated[
        bool, typer.Option("--beside", help="Write new versions beside notebooks you worked in.")
    ] = False,
) -> None:
    """Build exercises/ from solutions/. A notebook somebody has worked in is left alone; exit code 1 then."""
    raise typer.Exit(exercises.build(beside))


@app.command("progress")
def progress_command() -> None:
    """Say how far you are in lessons, puzzles and exercises, and where to go on."""
    raise typer.Exit(exercises.progress())


@app.command("watch")
def watch_command(
    key: Annotated[str, typer.Argument(metavar="EXERCISE", help="Such as ex07, or ex02/clock for one part of it.")],
    notebook: Annotated[Path | None, typer.Option(help="Its notebook, if it lies elsewhere.")] = None,
) -> None:
    """Check an exercise again at each save of its notebook."""
    raise typer.Exit(watch.watch(key, notebook))


@app.command("reset")
def reset_command(
    key: Annotated[str, typer.Argument(metavar="EXERCISE", help="Such as ex01/splitting.")],
) -> None:
    """Start one exercise anew; what was written is kept in a dated copy."""
    raise typer.Exit(exercises.reset(key))


@app.command("grade")
def grade_command(
    place: Annotated[Path, typer.Argument(metavar="HAND-INS", help="A folder of hand-ins, or a zip archive of one.")],
    out: Annotated[Path, typer.Option(help="Where the marks go; the same again judges only what is new.")] = Path(
        "marks"
    ),
    one: Annotated[bool, typer.Option("--one", help="HAND-INS is one notebook: show its report.")] = False,
    tasks: Annotated[str, typer.Option(help="Such as 02,07 or ex02/clock. Default: all.")] = "",
    roster: Annotated[Path | None, typer.Option(help="A CSV of participants, whose columns come back.")] = None,
    seeds: Annotated[int, typer.Option(min=1, max=20, help="How often each answer is judged; the worst counts.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="How many answers at once.")] = 2,
    student: Annotated[str, typer.Option(help="A regular expression: its first group in a path is the student.")] = "",
    all_or_nothing: Annotated[
        bool, typer.Option("--all-or-nothing", help="No points for what is partly right.")
    ] = False,
    trust: Annotated[bool, typer.Option("--trust", help="Run answers without a cage, as yourself.")] = False,
    container: Annotated[
        str, typer.Option("--in", metavar="ENGINE", help="podman or docker: run answers in a container.")
    ] = "",
) -> None:
    """Grade a class: cut answers out of notebooks, judge them in a cage. Exit code 2 if some could not be judged."""
    asked = grade.Request(place, out, one, tasks, roster, seeds, jobs, student, all_or_nothing, trust, container)
    raise typer.Exit(grade.run(asked))


@app.command("nbgrader")
def nbgrader_command(
    course: Annotated[Path, typer.Argument(metavar="COURSE", help="The folder of nbgrader's course, new or not.")],
    tasks: Annotated[str, typer.Option(help="Such as 02,07 or ex02/clock. Default: all.")] = "",
) -> None:
    """Write a course for nbgrader: the exercises as its sources, and our judge in the place of its own."""
    raise typer.Exit(platforms.nbgrader(course, tasks))


@app.command("gradescope")
def gradescope_command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The zip archive to write.")],
    tasks: Annotated[str, typer.Option(help="Such as 02,07 or ex02/clock. Default: all.")] = "",
    seeds: Annotated[int, typer.Option(min=1, max=20, help="How often each answer is judged; the worst counts.")] = 1,
    all_or_nothing: Annotated[
        bool, typer.Option("--all-or-nothing", help="No points for what is partly right.")
    ] = False,
) -> None:
    """Write an autograder for Gradescope: our judge, for its containers."""
    raise typer.Exit(platforms.gradescope(path, tasks, seeds, all_or_nothing))


@app.command("lecture")
def lecture_command(
    number: Annotated[str, typer.Argument(metavar="LESSON", help="Its number, such as 03.")],
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The HTML file to write.")],
) -> None:
    """Write the slides for a lesson: one file with live charts and votes, which needs no network."""
    raise typer.Exit(lecture.run(number, path))


@app.command("personal")
def personal_command(
    roster: Annotated[Path, typer.Argument(metavar="ROSTER", help="A CSV of participants.")],
    sheets: Annotated[Path, typer.Argument(metavar="SHEETS", help="The folder for a page for each of them.")],
    secret: Annotated[Path, typer.Option(help="A file with a word that nobody else knows.")],
    count: Annotated[int, typer.Option(min=1, max=6, help="Puzzles on a sheet.")] = 3,
    answers: Annotated[Path | None, typer.Option(help="Mark the answers in this folder instead.")] = None,
) -> None:
    """Write a sheet of puzzles for each student, with a proven best that no textbook schedule reaches; or mark them."""
    done = personal.mark(sheets, answers) if answers else personal.sheets(roster, sheets, secret, count)
    raise typer.Exit(done)


@app.command("kit")
def kit_command(path: Annotated[Path, typer.Argument(metavar="FILE", help="The zip archive to write.")]) -> None:
    """Write the course without its solutions, for students."""
    raise typer.Exit(personal.write_kit(path))


@app.command("quiz")
def quiz_command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The GIFT file to write.")],
    items: Annotated[str, typer.Option(help="inventory, a lesson such as 03, or predictions' keys with commas.")] = (
        "inventory"
    ),
) -> None:
    """Write predictions as a quiz that Moodle reads (GIFT); inventory are twelve for before and after a unit."""
    raise typer.Exit(personal.write_quiz(items, path))


@app.command("environment")
def environment_command() -> None:
    """Say what the course needs, what this machine has, and how to get what is missing."""
    raise typer.Exit(environment.run())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0, 1 for a schedule that cannot run, 2 for bad arguments."""
    escape_on_terminals()
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
