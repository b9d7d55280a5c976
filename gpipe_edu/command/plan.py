"""`plan`: how many replicas, stages and micro-batches, and what to recompute, for this model on these devices."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from gpipe_edu.sizing import STATES, WAYS, Guide, Job, Model, Plan, mlp, size, transformer
from gpipe_edu.sizing.presets import job as preset_job
from gpipe_edu.sizing.presets import model as preset_model
from gpipe_edu.sizing.presets import presets

from .common import bad_arguments

SHAPES = ("transformer", "mlp")
"""Models whose layers, width and so on one gives; others are known by name."""


class Wish(NamedTuple):
    """The options of the command line, in their units; None: as the machine has it."""

    model: str
    layers: int
    width: int
    context: int
    vocabulary: int
    batch: int
    devices: int
    machine: str
    tensor: int
    memory: float | None  # GB
    speed: float | None  # TFLOP/s
    overhead: float | None  # microseconds
    link: float | None  # GB/s
    network: float | None  # GB/s
    node: int | None
    latency: float | None  # microseconds
    reserve: float | None
    optimizer: str | None
    activation_bytes: int | None
    schedule: str
    virtual: int
    zero: bool


def run(wish: Wish, *, everything: bool) -> int:
    """Print the table and the advice; returns the exit code, 1 if nothing fits."""
    console = Console(highlight=False)
    with bad_arguments():
        guide = Guide(_job(wish))
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


def _job(wish: Wish) -> Job:
    job = preset_job(_model(wish), wish.batch, wish.machine, wish.devices, wish.tensor)
    units = {"memory": 1e9, "speed": 1e12, "overhead": 1e-6, "link": 1e9, "network": 1e9, "latency": 1e-6}
    given = {name: getattr(wish, name) * unit for name, unit in units.items() if getattr(wish, name) is not None}
    given |= {name: getattr(wish, name) for name in ("node", "reserve") if getattr(wish, name) is not None}
    if wish.optimizer is not None and wish.optimizer not in STATES:
        raise ValueError(f"optimizer is {wish.optimizer!r}; it must be one of {', '.join(STATES)}")
    return job._replace(
        schedule=wish.schedule,
        virtual=wish.virtual,
        zero=wish.zero,
        machine=job.machine._replace(**given),
        state=job.state if wish.optimizer is None else STATES[wish.optimizer],
        activation=job.activation if wish.activation_bytes is None else wish.activation_bytes,
    )


def _model(wish: Wish) -> Model:
    if wish.model == "mlp":
        return mlp([wish.width] * (wish.layers + 1))
    if wish.model == "transformer":
        return transformer(wish.layers, wish.width, wish.context, wish.vocabulary)
    if wish.model not in presets("models"):
        raise ValueError(f"model is {wish.model!r}; it must be one of {', '.join((*SHAPES, *presets('models')))}")
    return preset_model(wish.model)


def _describe(console: Console, job: Job) -> None:
    machine, state = job.machine, job.state
    groups = f", each {machine.tensor} accelerators" if machine.tensor > 1 else ""
    console.print(
        f"{job.model.name}, {job.model.parameters:,} parameters; N={job.batch} on {machine.devices} devices{groups} of "
        f"{size(machine.memory)}, of which {size(machine.usable)} may be used. Schedule {job.schedule}; "
        f"{sum(state)} bytes per parameter{', of which ZeRO-1 spreads ' * job.zero}{str(state.optimizer) * job.zero}.",
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
