"""How far the planner is from training runs that others have published, and how its three fitted numbers are found.

    python -m benchmarks.published_runs            # shares within 10 %, pairs in order, and a line per stack
    python -m benchmarks.published_runs --rows     # every run
    python -m benchmarks.published_runs --fit      # twenty times, fitted on one half of the runs, judged by the other
    python -m benchmarks.published_runs --draw     # docs/pictures/published_runs.svg and published_residuals.svg

Those of held_out_runs.toml are planned, too; nothing is fitted to them. Nothing is timed. docs/published_runs.md has
the results.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

from gpipe_edu.sizing import Job, Plan, costs, transformer
from gpipe_edu.sizing.planner import TIE
from gpipe_edu.sizing.presets import job

DATA = Path(__file__).with_name("published_runs.toml")
HELD_OUT = Path(__file__).with_name("held_out_runs.toml")
DEFAULTS: dict[str, Any] = {
    "tensor": 1,
    "sequence_parallel": False,
    "context_parallel": 1,
    "pipeline": 1,
    "virtual": 1,
    "zero": 0,
    "schedule": "none",
    "micro_batches": 1,
    "recompute": "none",
    "attention": "fused",
    "relative": False,
}
"""Defaults for what a group of held-out runs leaves out."""
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
MACHINES: dict[str, tuple[str, dict[str, float]]] = {
    "a100-80": ("a100", {}),
    "a100-40": ("a100-40", {}),
    "h100": ("h100", {}),
    "h100-96": ("h100", {"memory": 96e9, "bandwidth": 2.4e12}),
}
SCHEDULES = {"none": "1f1b", "zb-1p": "zero_bubble"}
GRID = tuple(product((0.8, 0.85, 0.9, 0.95, 1), (4, 4.5, 5, 5.5, 6, 6.5), (0.3, 0.5, 0.8)))
"""SHARE, MOVES and OVERLAP that a fit may choose."""


class Run(NamedTuple):
    """A published run and its plan."""

    told: dict[str, Any]
    plan: Plan

    @property
    def off(self) -> float:
        """How much longer than reported the planned step is, as a share."""
        return float(self.plan.step / self.told["step"] - 1)

    @property
    def cut(self) -> bool:
        """Whether it is a pipeline."""
        return self.plan.K > 1


@cache
def data() -> dict[str, list[dict[str, Any]]]:
    """What the file has: runs, and GPipe's Table 1."""
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


def runs() -> list[Run]:
    """All that can be planned."""
    return [Run(told, plan(told)) for told in data()["run"] if "not_planned" not in told]


def held_out() -> list[Run]:
    """Those that nothing was fitted to."""
    groups = tomllib.loads(HELD_OUT.read_text(encoding="utf-8"))["group"]
    found = [DEFAULTS | group | run for group in groups for run in group["runs"]]
    return [Run(told | {"step": _seconds(told)}, plan(told)) for told in found]


def _seconds(told: dict[str, Any]) -> float:
    """The step of a run whose source gives that, tokens per second, or a device's operations per second."""
    tokens = told["data"] * told["micro_batch"] * told["micro_batches"] * told["context"]
    if "tokens_per_second" in told:
        return float(tokens / told["tokens_per_second"])
    if "tps" in told:
        return float(tokens / told["tps"] / told["devices"])
    if "tflops" in told:
        each = 6 * job_of(told).model.parameters + 6 * told["blocks"] * told["width"] * told["context"]
        return float(tokens * each / told["tflops"] / 1e12 / told["devices"])
    return float(told["step"])


def job_of(told: dict[str, Any]) -> Job:
    """The job of a run. Its batch is what its replicas and micro-batches make."""
    model = transformer(
        told["blocks"],
        told["width"],
        told["context"],
        told["vocabulary"],
        hidden=told.get("hidden"),
        gated=told.get("gated", False),
        heads=told["heads"],
        shared_heads=told.get("kv_heads"),
        fused=told["attention"] == "fused",
    )
    name, other = MACHINES.get(told["accelerator"], (told["accelerator"], {}))
    batch = told["data"] * told["micro_batch"] * told["micro_batches"]
    found = job(model, batch, name, told["devices"])
    figures = other | {"node": told["node"]} | ({"network": told["network"]} if "network" in told else {})
    return found._replace(machine=found.machine._replace(**figures))


def plan(told: dict[str, Any]) -> Plan:
    """The plan of a run. Beside a pipeline, stacks scatter gradients once a step, which is the planner's ZeRO-1."""
    schedule = SCHEDULES.get(told["schedule"], told["schedule"])
    return Plan(
        job_of(told),
        told["data"],
        told["pipeline"],
        told["micro_batches"],
        told["recompute"],
        schedule=schedule,
        V=told["virtual"] if schedule == "interleaved" else None,
        zero=min(told["zero"], 1) if told["pipeline"] > 1 else told["zero"],
        tensor=told["tensor"],
        sequence=told["sequence_parallel"],
        context=told["context_parallel"],
        balance=cut(told) if told["pipeline"] > 1 else None,
    )


def cut(told: dict[str, Any]) -> list[int] | None:
    """The layers of each stage, where a run has a cut. "blocks": equally many blocks each, as in Megatron-LM, the
    embedding with the first and the head with the last; "slots": these two take the place of a block each."""
    stages, blocks = told["pipeline"] * told["virtual"], told["blocks"]
    if told.get("cut") == "slots":
        return [(blocks + 2) // stages] * stages
    if told.get("cut") == "blocks":
        ends, each = (0, stages - 1), blocks // stages
        return [each + (stage in ends) for stage in range(stages)]
    return None


def within(offs: Iterable[float], share: float = 0.1) -> float:
    """The share of runs whose planned step is that close to the reported one."""
    found = [abs(off) <= share for off in offs]
    return sum(found) / len(found)


def by_stack(found: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each stack of software, the largest first."""
    groups: dict[str, list[Run]] = {}
    for run in found:
        groups.setdefault(run.told["stack"], []).append(run)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def calibrated(found: Sequence[Run]) -> list[float]:
    """How far plans are off with one factor per stack, the median of its own runs; stacks of one run are left out."""
    offs = []
    for group in by_stack(found).values():
        factor = _factor(group)
        offs += [(1 + run.off) / factor - 1 for run in group if len(group) > 1]
    return offs


def calibrated_by_one(found: Sequence[Run], measured: Sequence[Run] = ()) -> list[float]:
    """How far these are off when each other run of their stack in turn is the one measured. measured: the runs that may
    be, the same unless there are others."""
    every = by_stack(measured or found)
    named = [(run, one) for run in found for one in every[run.told["stack"]]]
    return [(1 + run.off) / (1 + one.off) - 1 for run, one in named if run is not one]


def pairs(found: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Runs of one model with one mini-batch on the same devices that are divided in two ways, the faster plan first."""
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in found:
        groups.setdefault((run.told["stack"], run.plan.job), []).append(run)
    both = (sorted(two, key=lambda run: run.plan.step) for group in groups.values() for two in combinations(group, 2))
    return [(fast, slow) for fast, slow in both if fast.plan.knobs != slow.plan.knobs]


def told_apart(found: Sequence[Run], tie: float) -> list[tuple[int, int]]:
    """How many pairs there are, and how many of them were reported in the planned order: of those whose planned steps
    differ by less than the tie, and of the others."""
    groups: tuple[list[bool], list[bool]] = [], []
    for fast, slow in pairs(found):
        groups[slow.plan.step / fast.plan.step >= 1 + tie].append(fast.told["step"] < slow.told["step"])
    return [(len(group), sum(group)) for group in groups]


def likely(found: Sequence[Run]) -> tuple[float, float]:
    """Reported over planned: a tenth of the runs is below the first, a tenth above the second."""
    cuts = statistics.quantiles([1 / (1 + run.off) for run in found], n=10)
    return cuts[0], cuts[-1]


def fit() -> None:
    """Choose the three on one half, judge them on the other. The bound stands in for the step, which takes longer."""
    kept = costs.SHARE, costs.MOVES, costs.OVERLAP
    told = [told for told in data()["run"] if "not_planned" not in told]
    table = []
    try:
        for costs.SHARE, costs.MOVES, costs.OVERLAP in GRID:
            table.append([plan(each).bound / each["step"] - 1 for each in told])
    finally:
        costs.SHARE, costs.MOVES, costs.OVERLAP = kept

    def best(chosen: Sequence[int]) -> int:
        def offs(point: int) -> list[float]:
            return [table[point][index] for index in chosen]

        return max(range(len(GRID)), key=lambda point: within(offs(point)) - _mean(offs(point)))

    everything = range(len(told))
    print(f"on all: SHARE, MOVES, OVERLAP = {GRID[best(everything)]}")
    shares = []
    for seed in range(20):
        order = random.Random(seed).sample(everything, len(told))
        half = len(order) // 2
        for chosen, others in ((order[:half], order[half:]), (order[half:], order[:half])):
            point = best(chosen)
            shares.append(within(table[point][index] for index in others))
            print(f"fitted on one half: {GRID[point]}; of the other, within 10 %: {shares[-1]:.0%}")
    print(f"mean {statistics.mean(shares):.1%}, {min(shares):.0%} to {max(shares):.0%}")


def draw(folder: Path) -> None:
    """Two pictures: planned against reported, and how far plans are off over the width, without and with a factor."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "published runs", "font.size": 9}
    groups = by_stack(runs())
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.subplots()
    _dots(axes, groups, lambda run: run.told["step"], lambda run, _: run.plan.step)
    ends = (0.4, 300)
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.fill_between(ends, [0.9 * end for end in ends], [1.1 * end for end in ends], color="black", alpha=0.12)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="seconds of a step, reported", ylabel="planned")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    figure.legend(loc="outside right center", fontsize=8, frameon=False)
    figure.savefig(folder / "published_runs.svg", metadata={"Date": None})

    figure = Figure(figsize=(7, 5.2), layout="constrained")
    for axes, calibrate in zip(figure.subplots(2, sharex=True, sharey=True), (False, True), strict=True):
        _dots(
            axes,
            groups,
            lambda run: run.told["width"],
            lambda run, group, calibrate=calibrate: 100 * ((1 + run.off) / (_factor(group) if calibrate else 1) - 1),
        )
        axes.axhline(0, color="black", linewidth=0.8)
        axes.axhspan(-10, 10, color="black", alpha=0.12, linewidth=0)
        title = "with one factor for each stack" if calibrate else "as planned"
        axes.set(ylim=(-75, 60), ylabel="planned step off by, %")
        axes.set_title(title, loc="left", fontsize=9)
    axes.set(xscale="log", xlabel="width of the model")
    axes.set_xticks(widths := [1024, 2048, 4096, 8192, 16384, 24576], [f"{width:,}" for width in widths])
    axes.minorticks_off()
    figure.savefig(folder / "published_residuals.svg", metadata={"Date": None})


def _dots(axes: Any, groups: dict[str, list[Run]], across: Any, up: Any) -> None:
    """A colour for each of the larger stacks; the others share grey, and have shapes."""
    colours = ("#0b57a4", "#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e", "#a6761d", "#e6ab02")
    for (stack, group), colour, shape in zip(
        groups.items(), (*colours, *("#666666",) * 8), "o" * 8 + "sD^v<>Px", strict=True
    ):
        heights = [up(run, group) for run in group]
        edge = {} if shape == "x" else {"edgecolor": "white", "linewidth": 0.4}
        axes.scatter(
            [across(run) for run in group], heights, s=22, color=colour, marker=shape, label=stack, gid=stack, **edge
        )


def _factor(group: Sequence[Run]) -> float:
    return statistics.median(1 + run.off for run in group)


def _mean(offs: list[float]) -> float:
    return statistics.mean(min(abs(off), 0.4) for off in offs)


def signed(off: float) -> str:
    """A deviation as the page has it: "+13 %", "-5 %" or, where it rounds to that, "0 %"."""
    return f"{off:+.0%}".replace("%", " %") if round(100 * off) else "0 %"


def span(offs: list[float]) -> str:
    """The smallest and the largest deviation, once where they are the same."""
    low, high = signed(min(offs)), signed(max(offs))
    return low if low == high else f"{low} to {high}"


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if options.draw:
        draw(PICTURES)
        return
    if options.fit:
        fit()
        return
    found = runs()
    for name, group in (
        ("all", found),
        ("pipelines", [run for run in found if run.cut]),
        ("others", [run for run in found if not run.cut]),
    ):
        offs = [run.off for run in group]
        print(
            f"{name:10} {len(group):3}: within 10 % {within(offs):.1%}, 15 % {within(offs, 0.15):.1%}, "
            f"median {statistics.median(map(abs, offs)):.1%}"
        )
    print(f"with a factor per stack within 10 %: {within(calibrated(found)):.1%}")
    print(f"with a factor from one of its runs: {within(calibrated_by_one(found)):.1%}")
    low, high = likely(found)
    print(f"four in five took {low:.2f} to {high:.2f} times what is planned")
    for share in (0.01, 0.02, 0.03, TIE, 0.05, 0.07, 0.1):
        near, far = told_apart(found, share)
        print(f"planned less than {share:.0%} apart: {near[1]} of {near[0]} pairs in order; more: {far[1]} of {far[0]}")
    others = held_out()
    print()
    for stack, group in (*by_stack(found).items(), *by_stack(others).items()):
        offs = sorted(run.off for run in group)
        kept = " (held out)" if group[0] in others else ""
        print(f"{stack + kept:38} {len(group):3}: {span(offs)}, median {signed(statistics.median(offs))}")
    if options.rows:
        print()
        for run in (*found, *others):
            memory = (
                f"{max(run.plan.memory) / 1e9:.1f} of {run.told['memory_gb']} GB" if "memory_gb" in run.told else ""
            )
            step = f"{run.plan.step:8.3g} s for {run.told['step']:8.3g} s"
            print(f"{run.told['name']:48} {step} {run.off:+6.1%}  {memory}")


if __name__ == "__main__":
    main()
