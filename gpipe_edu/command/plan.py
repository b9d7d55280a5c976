"""`plan`: which K, M and checkpoint mode for this model on these devices."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from gpipe_edu.sizing import Guide, Job, Machine, Model, Plan, mlp, size, transformer
from gpipe_edu.sizing.plan import STATE_BYTES

from .common import bad_arguments

MODELS = ("transformer", "mlp")


class Wish(NamedTuple):
    """The options of the command line, in their units."""

    model: str
    layers: int
    width: int
    context: int
    vocabulary: int
    batch: int
    devices: int
    memory: float  # GB
    speed: float  # TFLOP/s
    overhead: float  # microseconds
    link: float  # GB/s
    reserve: float
    optimizer: str
    activation_bytes: int
    schedule: str


def run(wish: Wish, *, everything: bool) -> int:
    """Print the table and the advice; returns the exit code, 1 if nothing fits."""
    console = Console(highlight=False)
    with bad_arguments():
        guide = Guide(_job(wish))
    _describe(console, guide.job, wish)
    _table(console, guide, list(guide.plans) if everything else guide.rows())
    best = guide.best
    if best is None:
        console.print(guide.shortage(), style="bold red", markup=False)
        console.print("What alone would cure it:", *guide.cures(), sep="\n  ", markup=False)
        return 1
    each = ", ".join(map(str, best.balance)) if best.K <= 8 else f"{min(best.balance)} to {max(best.balance)}"
    console.print(f"Best: {best.knobs}; layers per stage: {each}.", style="bold")
    console.print(guide.reason(), markup=False)
    console.print()
    table = Table("one knob turned", "planned effect", box=None, pad_edge=False)
    for plan, effect in guide.changes():
        table.add_row(plan.knobs, effect)
    console.print(table)
    return 0


def _job(wish: Wish) -> Job:
    if wish.model not in MODELS:
        raise ValueError(f"model is {wish.model!r}; it must be one of {', '.join(MODELS)}")
    if wish.optimizer not in STATE_BYTES:
        raise ValueError(f"optimizer is {wish.optimizer!r}; it must be one of {', '.join(STATE_BYTES)}")
    model: Model
    if wish.model == "mlp":
        model = mlp([wish.width] * (wish.layers + 1))
    else:
        model = transformer(wish.layers, wish.width, wish.context, wish.vocabulary)
    machine = Machine(
        wish.devices, wish.memory * 1e9, wish.speed * 1e12, wish.overhead * 1e-6, wish.link * 1e9, wish.reserve
    )
    return Job(model, wish.batch, machine, STATE_BYTES[wish.optimizer], wish.activation_bytes, wish.schedule)


def _describe(console: Console, job: Job, wish: Wish) -> None:
    console.print(
        f"{job.model.name}, {job.model.parameters:,} parameters; N={job.batch} on {job.machine.devices} devices of "
        f"{wish.memory:g} GB, of which {size(job.machine.usable)} may be used. Schedule {job.schedule}; "
        f"{wish.optimizer}, {job.state} bytes per parameter.",
        markup=False,
    )
    console.print(
        f"Assumed, not measured: {wish.speed:g} TFLOP/s a device (--speed), {wish.overhead:g} µs per layer and op "
        f"(--overhead), {wish.link:g} GB/s between devices (--link). All times below are planned.",
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
