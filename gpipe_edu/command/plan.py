"""`plan`: how many replicas, stages and micro-batches, and what to recompute, for this model on these devices."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gpipe_edu.sizing import STATES, WAYS, Guide, Job, Model, Plan, mlp, size, transformer
from gpipe_edu.sizing.plan import SCHEDULES
from gpipe_edu.sizing.presets import job as preset_job
from gpipe_edu.sizing.presets import model as preset_model
from gpipe_edu.sizing.presets import presets
from gpipe_edu.words import plural

from .common import bad_arguments

SHAPES = ("transformer", "mlp")
"""Models that take layers, width and so on as options; others are known by name."""


def run(
    model: Annotated[str, typer.Option(help=f"{', '.join(SHAPES)}, or {', '.join(presets('models'))}.")] = (
        "transformer"
    ),
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
) -> int:
    """Say how many replicas (D), stages (K) and micro-batches (M) to use, and what to recompute.

    The last lines of the answer say which ways it weighs, and which not, such as sharded weights (FSDP).

    Exit code 1, with what is short, if nothing fits.
    """
    figures = {
        "memory": (memory, 1e9),
        "speed": (speed, 1e12),
        "overhead": (overhead, 1e-6),
        "link": (link, 1e9),
        "network": (network, 1e9),
        "node": (node, 1),
        "latency": (latency, 1e-6),
        "reserve": (reserve, 1),
    }
    console = Console(highlight=False)
    with bad_arguments():
        job = preset_job(_model(model, layers, width, context, vocabulary), batch, machine, devices, tensor)
        if optimizer is not None and optimizer not in STATES:
            raise ValueError(f"optimizer is {optimizer!r}; it must be one of {', '.join(STATES)}")
        given: dict[str, Any] = {name: value * unit for name, (value, unit) in figures.items() if value is not None}
        guide = Guide(
            job._replace(
                schedule=schedule,
                virtual=virtual,
                zero=zero,
                machine=job.machine._replace(**given),
                state=job.state if optimizer is None else STATES[optimizer],
                activation=job.activation if activation_bytes is None else activation_bytes,
            )
        )
    _describe(console, guide.job)
    _table(console, guide, list(guide.plans) if everything else guide.rows())
    best = guide.best
    if best is None:
        console.print(guide.shortage(), style="bold red", markup=False)
        console.print("What alone would cure it:", *guide.cures(), sep="\n  ", markup=False)
        console.print(f"\n{WAYS}", markup=False)
        return 1
    each = (
        ", ".join(map(str, best.balance)) if len(best.balance) <= 8 else f"{min(best.balance)} to {max(best.balance)}"
    )
    console.print(f"Best: {best.knobs}; layers per stage: {each}.", style="bold")
    console.print(guide.reason(), markup=False)
    console.print()
    table = Table("one knob turned", "planned effect", box=None, pad_edge=False)
    for plan, effect in guide.changes():
        table.add_row(plan.knobs, effect)
    console.print(table)
    console.print(f"\n{WAYS}", markup=False)
    return 0


def _model(name: str, layers: int, width: int, context: int, vocabulary: int) -> Model:
    if name == "mlp":
        return mlp([width] * (layers + 1))
    if name == "transformer":
        return transformer(layers, width, context, vocabulary)
    if name not in presets("models"):
        raise ValueError(f"model is {name!r}; it must be one of {', '.join((*SHAPES, *presets('models')))}")
    return preset_model(name)


def _describe(console: Console, job: Job) -> None:
    machine, state = job.machine, job.state
    groups = f", each {machine.tensor} accelerators" if machine.tensor > 1 else ""
    spread = f", of which ZeRO-1 spreads {state.optimizer}" if job.zero else ""
    console.print(
        f"{job.model.name}, {job.model.parameters:,} parameters; "
        f"N={job.batch} on {plural(machine.devices, 'device')}{groups} of "
        f"{size(machine.memory)}, of which {size(machine.usable)} may be used. Schedule {job.schedule}; "
        f"{sum(state)} bytes per parameter{spread}.",
        markup=False,
    )
    network = f", {machine.network / 1e9:g} GB/s between nodes (--network)" if machine.network else ""
    link = "nothing for sending" if machine.link is None else f"{machine.link / 1e9:g} GB/s between devices (--link)"
    console.print(
        f"Assumed, not measured: {machine.speed / 1e12:.3g} TFLOP/s a device (--speed), {machine.overhead * 1e6:g} µs "
        f"per layer and op (--overhead), {link}{network}. All times below are planned.",
        markup=False,
    )
    console.print()


def _table(console: Console, guide: Guide, plans: list[Plan]) -> None:
    heading, *lines = guide.lines(plans)
    console.print(heading, style="bold", markup=False, soft_wrap=True)
    for plan, line in zip(plans, lines, strict=True):
        style = "bold" if plan is guide.best else "" if plan.fits else "dim"
        console.print(line, style=style, markup=False, soft_wrap=True)
    console.print("Sizes are those of the fullest device; state: weights, gradients, optimizer.\n")
