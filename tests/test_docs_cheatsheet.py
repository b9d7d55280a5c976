"""Every figure of the cheatsheet, three ways: its formula as written, `ge.formulas`, and the simulator."""

import math
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer.main

import gpipe_edu as ge
from gpipe_edu.base import store
from gpipe_edu.cli import app, main
from gpipe_edu.schedule import with_recompute
from gpipe_edu.sizing import STATES, Job, Machine, costs, presets, transformer
from gpipe_edu.sizing.stages import ExpertGroup, Group, _layer
from tests.each import each

PAGE = (Path(__file__).resolve().parents[1] / "docs/cheatsheet.md").read_text(encoding="utf-8")
EXAMPLE = {"K": 4, "M": 8, "V": 2, "F": 1, "B": 2, "R": 1, "I": 1, "W": 1, "k": 0, "c": [2, 2, 2, 5], "sum": sum}
EXAMPLE |= {
    "L": 16,
    "boundary": 1,
    "layer": 1,
    "fixed": 0.04,
    "work": 3,
    "sqrt": math.sqrt,
    "max": max,
    "min": min,
    "__builtins__": {},
}


def table(heading):
    """The rows of the first table under a heading, without its head."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def number(text):
    """(27.3 %) as (0.273, 0.0005): the number and half a unit of its last place."""
    digits = re.match(r"[\d.]+", text)[0]
    scale = 100 if "%" in text else 1
    places = len(digits.partition(".")[2])
    return float(digits) / scale, 0.5 * 10**-places / scale + 1e-12


def simulated(**costs):
    return lambda schedule: ge.simulate(schedule, ge.Costs(**costs))


def messages(schedule):
    """Values that an op needs from another device."""
    device = schedule.device_of_stage
    ops = [op for row in schedule.rows for op in row]
    return sum(device[need.stage] != device[op.stage] for op in ops for need in schedule.needs(op))


def idle_over_ideal(timeline):
    busy = sum(timeline.busy(k) for k in range(timeline.devices))
    return (timeline.devices * timeline.makespan - busy) / busy


def best_utilization(costs):
    """Uneven stages after very many micro-batches, so that filling and draining hardly count."""
    schedule = ge.gpipe(len(costs), 4000)
    return 1 - ge.simulate(schedule, ge.Costs(F=costs, B=costs)).bubble_fraction


def best_M(K, fixed, work):
    """The M with the shortest step, by trying them."""
    prices = {M: (fixed + work / M) / 3 for M in range(1, 40)}
    return min(prices, key=lambda M: simulated(F=prices[M], B=2 * prices[M])(ge.gpipe(K, M)).makespan)


def stored(L, K, M):
    """Bytes on the last device when its last micro-batch is recomputed: all inputs, and one micro-batch's inside."""
    return sum(1 / M for _ in range(M)) + sum(1 / M for _ in range(L // K))


plan = simulated(F=1, B=2)
SIMULATED = {
    "bubble: idle / all device time": lambda: plan(ge.gpipe(4, 8)).bubble_fraction,
    "idle / *ideal* time (Megatron's)": lambda: idle_over_ideal(plan(ge.one_f_one_b(4, 8))),
    "utilization": lambda: 1 - plan(ge.gpipe(4, 8, "late")).bubble_fraction,
    "speed-up over one device": lambda: simulated(F=4, B=8)(ge.gpipe(1, 8)).makespan / plan(ge.gpipe(4, 8)).makespan,
    "makespan of a step": lambda: plan(ge.one_f_one_b(4, 8)).makespan,
    "makespan, naive": lambda: plan(ge.naive(4, 8)).makespan,
    "makespan, late recompute": lambda: plan(ge.gpipe(4, 8, "late")).makespan,
    "makespan, early recompute": lambda: plan(ge.gpipe(4, 8, "early")).makespan,
    "bubble, early recompute": lambda: plan(ge.gpipe(4, 8, "early")).bubble_fraction,
    "makespan, interleaved": lambda: plan(ge.interleaved(4, 8, 2)).makespan,
    "makespan, interleaved ZB-H1": lambda: plan(ge.interleaved_zero_bubble(4, 8, 2)).makespan,
    "makespan, ZB-H1": lambda: plan(ge.zero_bubble(4, 8)).makespan,
    "makespan, unequal micro-batches": lambda: simulated(F=1, B=2, micro_batches=EXAMPLE["c"])(ge.gpipe(4, 4)).makespan,
    "what ZB-H1 leaves of 1F1B's idle time": lambda: (
        plan(ge.zero_bubble(4, 8)).idle(0) / plan(ge.one_f_one_b(4, 8)).idle(0)
    ),
    "best M": lambda: best_M(4, 0.04, 3),
    "in flight at the peak, F-then-B": lambda: plan(ge.gpipe(4, 8)).peak_in_flight[2],
    "in flight at the peak, 1F1B": lambda: plan(ge.one_f_one_b(4, 8)).peak_in_flight[0],
    "utilization, uneven stages": lambda: best_utilization([2, 2, 2, 5]),
    "activations at the peak, re-materialized": lambda: stored(16, 4, 8),
    "extra work of recompute": lambda: plan(ge.gpipe(1, 8, "late")).makespan / plan(ge.gpipe(1, 8)).makespan - 1,
    "messages between stages": lambda: messages(ge.gpipe(4, 8)),
}


def test_every_formula_has_a_simulation_to_stand_beside():
    assert [row[0] for row in table("Formulas")] == list(SIMULATED)


@each("row", table("Formulas"))
def test_a_formula_its_function_and_the_simulator_agree(row):
    what, formula, _, example = row
    value = eval(formula.strip("`"), dict(EXAMPLE))
    assert SIMULATED[what]() == pytest.approx(value, rel=1e-3 if "uneven" in what else 1e-12)
    if example:
        call, stated = re.fullmatch(r"`(.+)` = (.+)", example).groups()
        assert eval(f"formulas.{call}", {"formulas": ge.formulas}) == pytest.approx(value, rel=1e-12)
        wanted, precision = number(stated)
        assert value == pytest.approx(wanted, abs=precision)


@each("row", table("Schedules side by side"))
def test_a_schedule_has_the_figures_that_stand_beside_it(row):
    recipe, makespan, bubble, peaks, _ = row
    schedule = eval(recipe.strip("`"), {"ge": ge, "with_recompute": with_recompute})
    halves = schedule.stages // schedule.devices  # an op of one of a device's stages takes that part of the time
    timeline = simulated(F=1 / halves, B=2 / halves)(schedule)
    assert timeline.makespan == pytest.approx(float(makespan))
    wanted, precision = number(bubble)
    assert timeline.bubble_fraction == pytest.approx(wanted, abs=precision)
    assert timeline.peak_in_flight == tuple(map(int, peaks.split(",")))


def a_block(S, tokens=1, width=4096, group=Group(), samples=1, **options):  # noqa: B008 (it can't change)
    """One block's costs on a machine that does S operations while its link sends a byte, with 16-bit numbers."""
    machine = Machine(1024, memory=1e12, speed=S, link=1.0, bandwidth=options.pop("bandwidth", None))
    model = transformer(1, width, tokens, 1, **options)
    job = Job(model, samples, machine, STATES["mixed-adam"], 2)
    return machine, _layer(job, model.layers[1], tokens * width, samples, group, ExpertGroup())


def replicas_wait(S, n):
    machine, block = a_block(S, samples=n)
    return 2 * machine.ring(4 * block.parameters, 1024), 2 * block.products


def shards_wait(S, n):
    machine, block = a_block(S, samples=n)
    return machine.ring(2 * block.parameters, 1024) + machine.ring(4 * block.parameters, 1024), 2 * block.products


def tensor_waits(S, w):
    _, block = a_block(S, width=w, group=Group(tensor=4))
    return block.messages, block.products


def context_waits(S, C):
    _, block = a_block(S, 8192, 64, Group(context=round(C)), heads=4, shared_heads=2)
    return block.messages * C / (C - 1), block.products  # of many devices


def experts_wait(S, h):
    machine, width, copies = a_block(S)[0], 64, 8
    return 2 * costs.exchange(2 * width, copies, 1024, 1, 0, False, machine), copies * 6 * width * h / machine.speed


def pipeline_waits(S, w):
    machine, block = a_block(S, width=w)
    return costs.boundary_message(block.entering, 2, machine), block.products


def bubble_is(S, M):
    timeline = simulated(F=1, B=2)(ge.interleaved(3, round(M), 2))
    return timeline.bubble_fraction, 0.1


def memory_waits(S, n):
    machine, block = a_block(S, samples=n, bandwidth=1.0)
    return costs.accumulate(block.parameters, machine), 3 * block.products


WAITS = {
    "replicas, ZeRO-1": replicas_wait,
    "ZeRO-3": shards_wait,
    "tensor, T devices": tensor_waits,
    "context, C devices": context_waits,
    "experts, over many devices": experts_wait,
    "pipeline": pipeline_waits,
    "pipeline, its bubble": bubble_is,
    "every way, the memory": memory_waits,
}
FIGURES = {"T": 4, "w": 64, "s": 8192, "g": 2, "K": 3, "V": 2}
"""Of the block and the schedule with which a bound is looked at."""


@each("row", table("Bound by what"))
def test_where_a_way_is_bound_sending_takes_as_long_as_the_work(row):
    way, formula, _, near, far = row
    S = 1072 if way.startswith("context") else 12288
    limit = max(formula.strip("`").split(" <= "), key=len)  # the other side is what it bounds
    waits, works = WAITS[way](S, round(eval(limit, FIGURES | {"S": S})))
    assert waits == pytest.approx(works, rel=0.02)
    machine = presets.job(presets.model("llama3-8b"), 8, "h100", 8).machine
    for stated, rate in ((near, machine.link), (far, machine.network)):
        S = machine.speed / (machine.bandwidth if "memory" in way else rate)
        shown = re.search(r"[<>]= ([\d,.]+)$", stated)
        value = eval(limit, {"S": S, "T": 8, "w": 4096, "s": 131072, "g": 4, "K": 8, "V": 2})
        assert shown is None or float(shown[1].replace(",", "")) == pytest.approx(value, abs=1)
        assert shown or not stated or stated == "the same"
        assert f"(S = {machine.speed / rate:,.0f})" in " ".join(PAGE.split())


def test_a_ring_hides_the_keys_of_causal_attention_up_to_the_bound_with_half_of_the_square():
    """3,000 random blocks, counted pair by pair for a device that has two of 2C equal pieces, the first with the last.
    A ring sends C - 1 of C parts, the bound counts all: so hidden up to it, and bound by links from one device more."""
    draw = np.random.default_rng(0)
    sizes = (draw.integers(low, high, 3000) for low, high in ((2, 65), (8, 129), (16, 257), (1, 9)))
    for C, piece, w, g, near in zip(*sizes, draw.uniform(0.5, 2, 3000), strict=True):
        s = 2 * C * piece
        S = near * (6 * w + s / 2) * g / C
        mine = np.r_[:piece, s - piece : s]  # of each token, how many stand in front of it
        work = 24 * w**2 * len(mine) + 4 * w * np.sum(mine + 1)
        sent = (C - 1) * (s / C) * 2 * 2 * w / g  # keys and values of 2 bytes
        bound = (6 * w + s / 2) * g / S
        if bound >= C:
            assert sent * S <= work
        if bound * (1 + 1 / s) < C - 1:
            assert sent * S > work
    assert "context parallelism has s / 2 in place of s" in " ".join(PAGE.split())


def test_the_knobs_are_arguments():
    gpipe = pytest.importorskip("gpipe_edu.pytorch", reason="the PyTorch engine needs torch").GPipe
    names = {name for knob, _, _ in table("Knobs") for name in re.findall(r"`(\w+)`", knob)}
    assert names <= set(gpipe.__init__.__annotations__)
    import gpipe_edu.pytorch as engine

    assert all(hasattr(engine, name) for name in re.findall(r"`(balance_by_\w+)`", PAGE))


def test_the_rule_of_thumb_says_what_the_formula_says():
    assert "by the formula 15.8 % of the time is still idle at K = 4" in PAGE
    assert round(ge.formulas.bubble_fraction(4, 16), 3) == 0.158


def commands():
    return [shlex.split(line, comments=True)[3:] for line in PAGE.splitlines() if line.startswith("python -m")]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_has_these_options_and_the_quick_ones_run(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(store.HOME, str(tmp_path))
    command = typer.main.get_command(app).commands[words[0]]
    command.make_context(words[0], words[1:])
    if words[0] == "schedule":
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 0


def test_the_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [block] = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict = {}
    exec(block, names)
    assert names["schedule"].problems() == []
