"""Does a stage in NumPy keep only its inputs, and compute the rest again?

The reference engine runs the learner's stages, and stages of its own beside them on the same schedule: loss, gradients
and the bytes held after every op must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, chain, pairwise
from random import Random
from typing import Any, Final, TypeAlias

import numpy as np

from gpipe_edu import gpipe, one_f_one_b, split_batch
from gpipe_edu import reference as ref
from gpipe_edu.data import digits
from gpipe_edu.exercises.case import Exam, Sign, Signs
from gpipe_edu.exercises.forms import gathered
from gpipe_edu.exercises.networks import Array
from gpipe_edu.reference.stage import Stage
from gpipe_edu.sandbox.findings import Chart, Success
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.recompute import with_kinds
from gpipe_edu.words import percent, plural

from .learners_stage import LearnersStage, Odd, counting

HIDDEN: Final = {"gpipe_edu.reference.stage.Stage": "Stage"}

Batch: TypeAlias = tuple[Array, Array]
Grads: TypeAlias = list[dict[str, Array]]


def perform(Theirs: Any, sizes: list[int], seed: int, batches: list[Batch], schedule: Schedule) -> Any:
    """Train with the learner's stages, the same ones for all mini-batches. What came out, and what was held and run."""
    layers, calls = ref.mlp(sizes, activation="tanh", seed=seed), [0]
    for layer in layers:
        counting(layer, calls)
    stages: dict[int, LearnersStage] = {}

    def make_stage(mine: Sequence[ref.Layer], *_: Any) -> Stage:
        if id(mine[0]) not in stages:
            stages[id(mine[0])] = LearnersStage(Theirs(list(mine)), mine, calls)
        return stages[id(mine[0])]

    try:
        results = [ref.train_pipeline(layers, x, y, schedule, make_stage=make_stage) for x, y in batches]
    except Odd as odd:
        return {"odd": odd.args}
    grads = [gathered(stage.theirs.grads) for stage in stages.values()]
    return {
        "loss": results[-1].loss,
        "grads": [layer for each in grads for layer in (each if isinstance(each, list) else [each])],
        "held": [[entry.bytes for entry in row] for row in results[-1].memory],
        "forward_runs": sum(stage.runs["forward"] for stage in stages.values()),
        "backward_runs": sum(stage.runs["backward"] for stage in stages.values()),
    }


@dataclass(frozen=True)
class Run:
    """What came of training with a learner's stages, and with those of the engine."""

    schedule: Schedule
    layers: Sequence[ref.Layer]
    batches: list[Batch]
    loss: float
    grads: Any
    held: list[list[int]]
    forward_runs: int
    backward_runs: int

    @property
    def exact(self) -> Grads:
        """The gradients of one device, added up over the mini-batches."""
        return reduce(ref.accumulate_grads, (ref.train_sequential(self.layers, x, y)[1] for x, y in self.batches))

    @property
    def shares(self) -> list[Grads]:
        """What each micro-batch of the last mini-batch adds to the gradients."""
        pieces = split_batch(self.batches[-1], self.schedule.micro_batches)
        N = len(self.batches[-1][0])
        parts = [(len(x) / N, ref.train_sequential(self.layers, x, y)[1]) for x, y in pieces]
        return [[{name: share * value for name, value in layer.items()} for layer in grads] for share, grads in parts]


def examine(exam: Exam, rng: Random) -> Success:
    """One stage and one micro-batch, then several of both, in two schedules; two mini-batches; the digits."""
    cases = [(1, 1, 4), (1, 3, 6), (2, 4, 10), (3, 5, 11)]
    cases += [(rng.randint(1, 3), rng.randint(2, 6), rng.randint(6, 14)) for _ in range(3)]
    sizes, numbers = [5, 7, 6, 8, 4], np.random.default_rng(rng.randrange(2**32))

    def batch(N: int) -> Batch:
        return numbers.normal(size=(N, 5)), numbers.integers(0, 4, size=N)

    for index, (K, M, N) in enumerate(cases):
        for schedule in (gpipe(K, M), one_f_one_b(K, M)):
            # Wrong gradients first, whatever is held: they say more about the idea.
            _judge(exam, rng, sizes, [batch(N)], schedule, memory=index > 2)
    with exam.told_as("second-mini-batch"):
        _judge(exam, rng, sizes, [batch(8), batch(11)], gpipe(2, 3))
    data, first = digits(), rng.randrange(1000)
    chosen = slice(first, first + 48)
    images = np.asarray(data.x_train[chosen], dtype=float)
    schedule = one_f_one_b(3, 6)
    error = _judge(exam, rng, [64, 32, 32, 32, 10], [(images, data.y_train[chosen])], schedule)
    return exam.success(Chart("your stages under 1F1B", str(with_kinds(schedule, {"B": "C"}))), error=error)


def _judge(
    exam: Exam, rng: Random, sizes: list[int], batches: list[Batch], schedule: Schedule, memory: bool = True
) -> float:
    """Judge one run; returns the error of its gradients."""
    count = f"{plural(schedule.stages, 'stage')}, {plural(schedule.micro_batches, 'micro-batch')}"
    second = ", the second mini-batch" if len(batches) > 1 else ""
    case = exam.case(f"{count}, {schedule.name}{second}")
    seed, schedule = rng.randrange(1000), with_kinds(schedule, {"B": "C"})
    found = case.ask({"KeyError": "key"}, sizes=sizes, seed=seed, batches=batches, schedule=schedule)
    if "odd" in found:
        slip, expected, came = found["odd"]
        case.judge([Sign(slip, expected=expected, came=came)])
    run = Run(schedule, ref.mlp(sizes, activation="tanh", seed=seed), batches, **found)
    case.judge(_about_the_output(run))
    error = ref.gradient_difference(run.grads, run.exact)
    if not error < 1e-9:
        case.expected, case.came = "the gradients of one device", f"off by {percent(error)}"
        case.judge(_about_gradients(run))
    if memory:
        case.judge(_about_memory(run))
    case.judge(_about_runs(run, memory))
    return error


def _about_the_output(run: Run) -> Signs:
    loss, _ = ref.train_sequential(run.layers, *run.batches[-1])
    wrong = not abs(run.loss - loss) < 1e-9
    yield Sign("other-output", wrong, expected=f"loss {loss:.6f}", came=f"loss {run.loss:.6f}")
    yield Sign("other-grads", _forms(run.grads) != _forms(run.exact))


def _forms(grads: Any) -> list[Any]:
    """The names and shapes in gradients."""
    return [isinstance(layer, dict) and {name: np.shape(value) for name, value in layer.items()} for layer in grads]


def _about_gradients(run: Run) -> Signs:
    """For gradients that are not those of one device."""
    several = run.schedule.micro_batches > 1
    yield Sign("no-gradients", not any(np.any(value) for grads in run.grads for value in grads.values()))
    yield Sign("not-added", several and any(ref.gradient_difference(run.grads, share) < 1e-9 for share in run.shares))
    yield Sign("other-input", several)
    yield Sign("other-gradient")


def _about_memory(run: Run) -> Signs:
    """What is held after each op, beside the engine's own stages."""
    inputs = _inputs(run, run.batches[-1])
    left = sum(row[-1] for row in run.held)
    yield Sign("never-freed", left > 0, expected="0 bytes after the last backward", came=f"{left} bytes")
    if left:  # who frees nothing need not keep more than inputs for that
        before = [_inputs(run, batch) for batch in run.batches[:-1]]
        inputs = [_never_freed(chain(*rows))[-len(rows[-1]) :] for rows in zip(*before, inputs, strict=True)]
    more = max(held - allowed for held, allowed in zip(chain(*run.held), chain(*inputs), strict=True))
    yield Sign("keeps-more", more > 0, expected="only the inputs", came=f"{more} bytes more")


def _inputs(run: Run, batch: Batch) -> list[list[int]]:
    """Bytes of the inputs that each of the engine's own stages holds after each op of a mini-batch."""
    return [[entry.bytes for entry in row] for row in ref.train_pipeline(run.layers, *batch, run.schedule).memory]


def _never_freed(held: Iterable[int]) -> list[int]:
    """What a device would hold after each op if it freed nothing."""
    return list(accumulate(max(0, after - before) for before, after in pairwise([0, *held])))


def _about_runs(run: Run, memory: bool) -> Signs:
    """How often layers run forward, in the forward and in the backward."""
    once = len(run.layers) * run.schedule.micro_batches * len(run.batches)
    expected, forward, backward = f"{once} runs of a layer", run.forward_runs, run.backward_runs
    yield Sign("twice-forward", forward > once, expected, str(forward))
    yield Sign("too-many-recomputes", backward > once, expected, str(backward))
    yield Sign("kept-elsewhere", memory and backward < once, expected, str(backward))
