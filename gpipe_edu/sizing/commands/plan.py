"""`plan`: how to divide the training of this model among these devices, and what to recompute.

The first screen has the answer, why it is the answer, a safer one and where it runs; everything else is asked for.
One measured step gives a factor for all plans: stacks of software differ by a quarter on equal devices.
"""

from __future__ import annotations

import inspect
import json
import shlex
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpipe_edu.base.terminal import bad_arguments
from gpipe_edu.base.validate import number
from gpipe_edu.base.words import join_words, plural
from gpipe_edu.sizing import (
    STATES,
    Job,
    Model,
    Plan,
    Planner,
    SearchSpace,
    duration,
    hugging_face,
    like,
    machine_file,
    mlp,
    size,
    transformer,
)
from gpipe_edu.sizing.flags import SYSTEMS, command, flags, lacking, lacks_on, where
from gpipe_edu.sizing.hugging_face import Opened
from gpipe_edu.sizing.in_words import bar
from gpipe_edu.sizing.plan import RECOMPUTES, SCHEDULES
from gpipe_edu.sizing.planner import ANY, LIKELY, TIE, effect
from gpipe_edu.sizing.presets import DEVICES, known_name, presets
from gpipe_edu.sizing.presets import job as preset_job
from gpipe_edu.sizing.presets import model as preset_model
from gpipe_edu.sizing.stages import HIDES
from gpipe_edu.sizing.systems import full_name

SHAPE: Final = {"layers": 24, "width": 1024, "context": 1024, "vocabulary": 32_000}
"""The user's own model, unless options say otherwise."""

SHAPES: Final = {"transformer": tuple(SHAPE), "mlp": ("layers", "width")}
"""Models that the user describes, and the options that do so; others are known by name."""


EXAMPLE: Final = "small"
"""The machine, unless one is given."""

BATCH: Final = 32
"""Samples of a mini-batch, unless the number is given."""

NO_MODEL: Final = "--like does not tell the model in these words; give --model, such as llama3-8b or a config.json"

ROWS: Final = 8
"""How many changes to the user's own plan are shown: those that gain most."""

_WIDTH = 24


def _default(option: str) -> str:
    return f" Default: as published, or {SHAPE[option]}."


def run(
    model: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(SHAPES)}, {', '.join(presets('models'))}, or the config.json of a Hugging Face model. "
            "Default: as --like says, or transformer."
        ),
    ] = None,
    layers: Annotated[
        int | None,
        typer.Option(min=1, help=f"Blocks of a Transformer, or linear layers of the MLP.{_default('layers')}"),
    ] = None,
    width: Annotated[
        int | None, typer.Option(min=1, help=f"Numbers per token, or per hidden layer.{_default('width')}")
    ] = None,
    context: Annotated[
        int | None, typer.Option(min=1, help=f"Tokens per sample of a Transformer.{_default('context')}")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(min=1, help=f"Words of a Transformer.{_default('vocabulary')}")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"N: samples in a mini-batch, over all replicas. Default: as --like says, or {BATCH}."
        ),
    ] = None,
    devices: Annotated[
        int | None, typer.Option(min=1, help=f"How many there are. Default: as the machine's file says, or {DEVICES}.")
    ] = None,
    machine: Annotated[
        str,
        typer.Option(
            help=f"Which: {', '.join(presets('machines'))}, or a file of `calibrate`'s. The options below override it."
        ),
    ] = EXAMPLE,
    memory: Annotated[float | None, typer.Option(help="Memory of each device in GB (10^9 bytes).")] = None,
    speed: Annotated[float | None, typer.Option(help="What a device sustains in matrix products, in TFLOP/s.")] = None,
    bandwidth: Annotated[float | None, typer.Option(help="Of a device's memory, in GB/s.")] = None,
    overhead: Annotated[float | None, typer.Option(help="Fixed time per layer and op, in microseconds.")] = None,
    link: Annotated[float | None, typer.Option(help="Between two devices of a node, one way, in GB/s.")] = None,
    network: Annotated[float | None, typer.Option(help="Between nodes, for each device, in GB/s.")] = None,
    node: Annotated[int | None, typer.Option(min=1, help="Devices in a node.")] = None,
    latency: Annotated[float | None, typer.Option(help="Of a message, in microseconds.")] = None,
    reserve: Annotated[float | None, typer.Option(help="Share of the memory to leave free.")] = None,
    optimizer: Annotated[str | None, typer.Option(help=f"One of {', '.join(STATES)}.")] = None,
    activation_bytes: Annotated[int | None, typer.Option(min=1, help="Bytes per stored or sent number.")] = None,
    tensor: Annotated[int | None, typer.Option(min=1, help="Weigh only tensor groups of so many devices.")] = None,
    sequences: Annotated[int | None, typer.Option(min=1, help="Weigh only sequences cut so many ways.")] = None,
    zero: Annotated[int | None, typer.Option(help="Weigh only this stage of ZeRO, 0 to 3.")] = None,
    schedule: Annotated[str | None, typer.Option(help=f"Weigh only one of {', '.join(SCHEDULES)}.")] = None,
    virtual: Annotated[int | None, typer.Option(min=1, help="V: weigh only so many interleaved stages.")] = None,
    recompute: Annotated[str | None, typer.Option(help=f"Weigh only one of {', '.join(RECOMPUTES)}.")] = None,
    experts: Annotated[
        int | None, typer.Option(min=1, help="Of a mixture: weigh only experts on so many devices.")
    ] = None,
    hide: Annotated[
        str | None,
        typer.Option(help=f"What hides messages with experts, not weighed unless asked for: {', '.join(HIDES)}."),
    ] = None,
    imbalance: Annotated[
        float,
        typer.Option(
            help="Tokens of the device whose experts get most, over the average. Default: 1, as benchmarks do."
        ),
    ] = 1.0,
    on: Annotated[str, typer.Option(help=f"Weigh only what this system runs: {', '.join(SYSTEMS)}.")] = ANY,
    calibrate: Annotated[
        str | None, typer.Option(help='A step that you measured and its plan: "12.3 D=8 K=1 M=8 zero=3" for 12.3 s.')
    ] = None,
    like_text: Annotated[
        str | None,
        typer.Option(
            "--like",
            help="Beside the best: your split, in the words of Megatron-LM or torchtitan, or a file of theirs, of "
            "DeepSpeed's or nanotron's.",
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="Show the best plan of each K, where memory and time go, and each knob turned."),
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show every plan, not only the best of each K.")] = False,
    show_flags: Annotated[
        bool, typer.Option("--flags", help="Show what runs the best plan: here, in Megatron-LM, torchtitan, DeepSpeed.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer for other programs.")] = False,
) -> int:
    """Say how many replicas (D), stages (K) and micro-batches (M) to use, in what groups, and what to recompute.

    It weighs all the ways that --verbose names, unless options narrow them.

    Exit code 1, with what is short, if nothing fits.
    """
    figures = {
        "memory": (memory, 1e9),
        "speed": (speed, 1e12),
        "bandwidth": (bandwidth, 1e9),
        "overhead": (overhead, 1e-6),
        "link": (link, 1e9),
        "network": (network, 1e9),
        "node": (node, 1),
        "latency": (latency, 1e-6),
        "reserve": (reserve, 1),
    }
    only = {"tensor": tensor, "context": sequences, "zero": zero, "schedules": schedule, "V": virtual}
    only |= {"recompute": recompute, "experts": experts, "hide": hide}
    console = Console(highlight=False)
    factor = None
    with bad_arguments():
        shape = {"layers": layers, "width": width, "context": context, "vocabulary": vocabulary}
        asked = {name: value for name, value in shape.items() if value is not None}
        mine = None if like_text is None else like.read(like_text)
        planned, notes = _model(model, asked, mine)
        job = preset_job(planned, batch or BATCH, machine, devices or (mine and mine.devices))
        if mine and not batch:
            job = job._replace(batch=like.batch_of(mine, job) or BATCH)
        if optimizer is not None and optimizer not in STATES:
            raise ValueError(f"optimizer is {optimizer!r}; it must be one of {', '.join(STATES)}")
        given: dict[str, Any] = {name: value * unit for name, (value, unit) in figures.items() if value is not None}
        job = job._replace(
            machine=job.machine._replace(**given),
            state=job.state if optimizer is None else STATES[optimizer],
            activation=job.activation if activation_bytes is None else activation_bytes,
            imbalance=imbalance,
        )
        if calibrate is not None:
            seconds, knobs = measured_step(calibrate)
            job, factor = calibrated(job, seconds, **knobs)
        chosen: dict[str, Any] = {name: (value,) for name, value in only.items() if value is not None} | {"on": on}
        guide = Planner(job, SearchSpace()._replace(**chosen))
        own_plan = mine and like.plan_like(mine, job)
    best, shows_table = guide.best, verbose or everything
    plans = list(guide.plans) if everything else guide.rows() if verbose or as_json else []
    if as_json:
        more = {"notes": notes, "like": own_plan and own_plan.as_dict()}
        typer.echo(json.dumps(_answer(guide, plans, factor) | more, indent=1))
        return 0 if best else 1
    own = machine if machine.endswith(machine_file.SUFFIX) else None
    if machine == EXAMPLE and not given:
        notes = (f"The machine is `{EXAMPLE}`, an example: name yours, such as --machine h100.", *notes)
    _describe(console, guide.job, factor, own, notes, verbose)
    if best:
        _advise(console, guide, best, compare=factor is None and own is None)
    else:
        console.print(guide.shortage(), style="bold red", markup=False)
        _warn(console, guide)
        console.print("What alone would cure it:", *guide.cures(), sep="\n  ", markup=False)
    if shows_table:
        _table(console, guide, plans)
    if best and verbose:
        _explain(console, guide, best)
    if mine and own_plan:
        _beside(console, guide, mine, own_plan)
    if best and show_flags:
        _run(console, best, on)
    if verbose:
        console.print(f"\n{guide.ways}", markup=False)
    else:
        console.print(f"\n{_MORE}", markup=False)
    if best and (shows_table or mine or show_flags):  # once more, where a terminal is after a long answer
        console.print(f"\nSo take {best.knobs}: {_figures(best)}.", style="bold", markup=False)
    return 0 if best else 1


_MORE: Final = (
    "More: --verbose (the best plan of each K, where memory and time go, each knob turned), --flags (how to run it), "
    "--calibrate (your own measured step)."
)


def _figures(plan: Plan) -> str:
    held = f"{size(max(plan.memory))} of {size(plan.job.machine.usable)} on device {plan.fullest}"
    return f"{duration(plan.step)} a step, {held}"


def _model(name: str | None, asked: dict[str, int], mine: like.Like | None) -> Opened:
    """asked: the options of `SHAPE` that were given. mine: what --like says."""
    more = mine.notes if mine else ()
    if name is None and mine and mine.lacks and asked:
        renamed = {"blocks" if option == "layers" else option: value for option, value in asked.items()}
        mine = like.completed(mine, renamed)
        asked = {} if mine.model else asked
    if name is None and mine and mine.model:
        if asked:
            raise ValueError(
                f"--{next(iter(asked))} and what --like says both tell the model; give --model, or leave it out"
            )
        return Opened(mine.model, more)
    if name is None and mine and mine.lacks:
        lacks = join_words(mine.lacks, last=" and ")
        ours = [option for word in mine.lacks if (option := like.LACKING[word])]
        tokenizer = ", which Megatron-LM leaves to the tokenizer's files" * ("--vocab-size" in mine.lacks)
        add = f"give {join_words(ours, last=' and ')} here" if len(ours) == len(mine.lacks) else "add what is missing"
        raise ValueError(f"the words lack {lacks}{tokenizer}, so they do not tell the model; {add}, or give --model")
    if name is None and mine and not asked:
        raise ValueError(NO_MODEL)
    if mine and mine.context and name != "mlp":
        asked = {"context": mine.context} | asked
    opened = _named_model(name or "transformer", asked)
    return Opened(opened.model, opened.notes + more)


def _named_model(name: str, asked: dict[str, int]) -> Opened:
    mine = name.endswith(hugging_face.SUFFIX)
    if not mine and name not in SHAPES and known_name("models", name) is None:
        names = ", ".join((*SHAPES, *presets("models")))
        raise ValueError(f"model is {name!r}; it must be one of {names}, or end in {hugging_face.SUFFIX}")
    # The heads and hidden layers of a published model belong to its width: another width is another model.
    known = SHAPES.get(name, ("layers", "context", "vocabulary"))
    for option in asked:
        if option not in known:
            raise ValueError(f"--{option} does not apply to {name}; it takes --{', --'.join(known)}")
    changes = {"blocks" if option == "layers" else option: asked[option] for option in asked}
    if mine:
        return hugging_face.read(name, **changes)
    if name not in SHAPES:
        return Opened(preset_model(name, **changes), ())
    layers, width, *rest = (asked.get(option, SHAPE[option]) for option in known)
    return Opened(transformer(layers, width, *rest) if rest else mlp([width] * (layers + 1)), ())


def _answer(guide: Planner, plans: list[Plan], factor: float | None) -> dict[str, Any]:
    best, second = guide.best, guide.second
    return {
        "planned": True,
        "factor": factor,
        "best": best and best.as_dict(),
        "command": best and command(best).words,
        "flags": best and {system: {flag.knob: flag.text for flag in found} for system, found in flags(best).items()},
        "lacking": best and lacking(best),
        "fastest": guide.fastest and guide.fastest.as_dict(),
        "safer": guide.safer and guide.safer.as_dict(),
        "second": second and second.as_dict(),
        "reason": guide.reason() if best else guide.shortage(),
        "cures": guide.cures(),
        "warnings": guide.warnings(),
        "ways": guide.ways._asdict(),
        "plans": [plan.as_dict() for plan in plans],
    }


def _describe(
    console: Console, job: Job, factor: float | None, file: str | None, notes: tuple[str, ...], verbose: bool
) -> None:
    machine = job.machine
    console.print(
        f"{job.model.name}, {job.model.parameters:,} parameters{_active(job.model)}; "
        f"N={job.batch} on {plural(machine.devices, 'device')} of "
        f"{size(machine.memory)}, of which {size(machine.usable)} may be used; {sum(job.state)} bytes per parameter.",
        markup=False,
    )
    figures = [f"{machine.speed / 1e12:.3g} TFLOP/s a device (--speed)"]
    if verbose:
        memory = [f"{machine.bandwidth / 1e9:.4g} GB/s to its memory (--bandwidth)"] if machine.bandwidth else []
        figures += [*memory, f"{machine.overhead * 1e6:g} µs per layer and op (--overhead)"]
    link = "sending free" if machine.link is None else f"{machine.link / 1e9:g} GB/s between devices (--link)"
    network = [f"{machine.network / 1e9:g} GB/s between nodes (--network)"] if machine.network else []
    figures += [link, *network]
    known = f"As {file} says" if file else "Assumed, not measured"
    known = f"As your step says, {factor:.3g} times as slow" if factor else known
    console.print(f"{known}: {', '.join(figures)}. All times below are planned.", markup=False)
    for note in notes:
        console.print(note, markup=False)
    console.print()


def _active(model: Model) -> str:
    """What is said of a mixture of experts."""
    return f", {model.active:,} of them active" if model.active < model.parameters else ""


def _table(console: Console, guide: Planner, plans: list[Plan]) -> None:
    heading, *lines = guide.lines(plans, console.width)
    console.print(f"\n{heading}", style="bold", markup=False, soft_wrap=True)
    for plan, line in zip(plans, lines, strict=True):
        style = "bold" if plan is guide.best else "" if plan.fits else "dim"
        console.print(line, style=style, markup=False, soft_wrap=True)
    console.print(
        "D replicas of K stages, with M micro-batches each; T: devices of a tensor group, x: of a cut sequence"
        f"{', e: with different experts' if guide.job.model.routed else ''}; "
        f"sizes are those of the fullest device{'; *: the best' if guide.best in plans else ''}."
    )


def _advise(console: Console, guide: Planner, best: Plan, compare: bool) -> None:
    """The answer, why, a safer one, and where it runs. compare: with published runs."""
    each = ", ".join(map(str, best.balance))
    if len(best.balance) > 8 or len(set(best.balance)) == 1:
        each = " to ".join(map(str, sorted({min(best.balance), max(best.balance)})))
    ends = " with embedding and head" if guide.job.model.tokens > 1 else ""
    cut = f"{len(best.balance)} stages of {each} layers{ends}" if best.K > 1 else "the whole model"
    rate = f"{best.tokens_per_second:,.0f} {'tokens' if guide.job.model.tokens > 1 else 'samples'} a second"
    low, high = (duration(best.step * times) for times in LIKELY)
    likely = (
        f" Four in five of the runs that the planner was fitted to, and half of the others, took {LIKELY[0]:.2f} to "
        f"{LIKELY[1]:.2f} times the time planned: here {low} to {high}."
    ) * (compare and guide.job.machine.bandwidth is not None and not guide.job.model.routed)
    pieces = plural(best.M, "micro-batch")
    rows = {
        "take": best.knobs,
        "": f"{plural(best.D, 'replica')} of {cut}, {pieces} of {plural(best.samples, 'sample')}",
        " ": f"{_figures(best)}; {rate}, MFU {best.mfu:.0%}.{likely}",
        "why": guide.reason(),
        "safer": guide.room(),
    }
    if guide.job.model.tokens > 1:
        rows["runs in"] = f"{where(best).removeprefix('runs in ')}."
    answer = Table.grid(padding=(0, 2))
    for name, words in rows.items():
        answer.add_row(Text(name, style="bold"), Text(words, style="bold" if name == "take" else ""))
    console.print(answer)
    _warn(console, guide)


def _explain(console: Console, guide: Planner, best: Plan) -> None:
    """Where the fastest run, what takes the best one's memory and time, and what turning a knob would change."""
    if guide.job.model.tokens > 1:
        console.print("\nthe fastest, and where they run", style="bold")
        for plan, words in guide.homes():
            console.print(f"  {plan.knobs}: {duration(plan.step)}; {words}.", markup=False)
    console.print()
    usable = guide.job.machine.usable
    held = {name: (count / usable, size(count)) for name, count in best.held.items()}
    _bars(console, f"memory of device {best.fullest}", held)
    spent = {name: seconds for name, seconds in best.parts.items() if seconds > 0.005 * best.step}
    _bars(console, "a step", {name: (seconds / best.step, duration(seconds)) for name, seconds in spent.items()})
    table = Table("one knob turned", "planned effect", box=None, pad_edge=False)
    for plan, change in guide.changes():
        table.add_row(plan.knobs, change)
    console.print(table)


def _beside(console: Console, guide: Planner, theirs: like.Like, mine: Plan) -> None:
    """The split that runs elsewhere, beside the best, and with one knob turned."""
    console.print(f"\nyours, as {theirs.system} would divide it", style="bold", markup=False)
    usable = guide.job.machine.usable
    held = f"{size(max(mine.memory))} of {size(usable)} on device {mine.fullest}"
    there = guide.job.machine.devices
    held += f", on {mine.devices} of {there} devices" * (mine.devices < there)
    short = "" if mine.fits else f", {size(mine.short)} too much"
    console.print(f"{mine.knobs}: {duration(mine.step)} a step, bubble {mine.bubble:.1%}, {held}{short}.", markup=False)
    if guide.best:
        times = mine.step / guide.best.step
        tied = (
            "The planner cannot tell it from the best."
            if times <= 1 + TIE
            else f"The best takes {1 / times:.0%} of its time."
        )
        console.print(tied, markup=False)
    table = Table("one knob of yours turned", "planned effect", box=None, pad_edge=False)
    system = theirs.knobs["system"]

    def lacks(plan: Plan) -> set[str]:
        return set(lacks_on(plan, system)) if system in SYSTEMS else set()

    already = lacks(mine)
    possible = [(words, plan) for words, plan in like.turned(mine) if lacks(plan) <= already]
    for words, plan in sorted(possible, key=lambda turn: (not turn[1].fits, turn[1].step))[:ROWS]:
        table.add_row(words, effect(plan, mine))
    console.print(table)


def _warn(console: Console, guide: Planner) -> None:
    for warning in guide.warnings():
        console.print(warning, style="yellow", markup=False)


def _run(console: Console, best: Plan, on: str) -> None:
    """The command of this package, and what the knobs are called in others, or in the one that was asked for."""
    found = command(best)
    console.print("\nfrom plan to run", style="bold")
    console.print("The course's MLP on its digits, divided like this:\n")
    console.print(f"    {shlex.join(found.words)}\n", markup=False, soft_wrap=True)
    if found.differs:
        console.print(f"It leaves out {', '.join(found.differs)}.", markup=False)
    for system, rows in flags(best).items():
        if on == ANY or system == full_name(on):
            console.print(f"\n{system}", style="bold", markup=False)
            for flag in rows:
                console.print(f"  {flag.knob:<10} {flag.text}", markup=False, soft_wrap=True)


def _bars(console: Console, title: str, values: dict[str, tuple[float, str]]) -> None:
    console.print(title, style="bold")
    for name, (share, text) in values.items():
        console.print(f"  {name:<12} {bar(share, _WIDTH)} {text:>8} {share:>4.0%}", markup=False)
    console.print()


_KNOBS = {name for name in inspect.signature(Plan).parameters if name not in ("job", "balance", "counter")}


def measured_step(text: str) -> tuple[float, dict[str, int | str | bool]]:
    """Seconds and knobs from words like "12.3 D=8 K=1 M=8 zero=3 recompute=full".

    Raises ValueError for anything else, saying what is expected.
    """
    seconds, *words = text.replace(",", " ").split() or [""]
    try:
        measured = number("the measured step", float(seconds))
    except ValueError:
        measured = 0.0
    knobs: dict[str, int | str | bool] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in _KNOBS or not value:
            raise ValueError(f"{word!r} is not a knob of a plan; write {', '.join(sorted(_KNOBS))}, such as K=4")
        knobs[name] = int(value) if value.isdigit() else value == "yes" if name in ("sequence", "once") else value
    if not measured or not {"D", "K", "M"} <= knobs.keys():
        raise ValueError(
            f'{text!r} is not a measured step; write its seconds and its plan, such as "12.3 D=8 K=1 M=8 zero=3"'
        )
    return measured, knobs


def calibrated(job: Job, seconds: float, **knobs: int | str | bool) -> tuple[Job, float]:
    """The same job on a machine so slow that its plan with these knobs takes `seconds`, and the factor.

    Raises ValueError or TypeError for an impossible plan.
    """
    factor = seconds / Plan(job, **knobs).step  # type: ignore[arg-type]  # Plan checks them
    return job._replace(machine=job.machine.slowed(factor)), factor
