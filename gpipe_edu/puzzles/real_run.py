"""The schedule you built, run for real: does it train as one device would, and take as long as planned?

The model has one block of equal layers per unit of a stage's forward cost, so that uneven stages are uneven here, too.
Plan and measurement stand in seconds on one axis: the plan takes the mean time of every op from the run.

NumPy is loaded with the first run: a page of the site shows the puzzle before it has fetched that.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeAlias

from gpipe_edu.schedule import Schedule
from gpipe_edu.timeline import Timeline, calibrate, simulate

from .levels import Level

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gpipe_edu.reference import Layer
    from gpipe_edu.reference.sequential import Grads

    Array: TypeAlias = NDArray[np.float64]

TOLERANCE: Final = {"numpy": 1e-12, "torch": 1e-10}
"""Per engine: how much gradients may differ by rounding, as a share of the largest one."""

WIDTH: Final = 256
SAMPLES: Final = 128
"""Features of every layer, and samples in a micro-batch: enough work for an op to take longer than its overhead."""

_ROUNDS: Final = 5
"""Steps that are timed; the quickest was disturbed the least."""


@dataclass(frozen=True)
class EngineRun:
    """The results of a run: engine, loss, the largest difference of a gradient from one-device training as a share of
    the largest gradient, and the timelines, both in seconds. `measured.source` tells how its times were taken.
    """

    engine: str
    loss: float
    difference: float
    measured: Timeline
    planned: Timeline

    @property
    def equal(self) -> bool:
        """True if the gradients are the same as on one device, but for rounding."""
        return self.difference <= TOLERANCE[self.engine]

    def __str__(self) -> str:
        verdict = f"the gradients are {'' if self.equal else 'NOT '}the same as on one device"
        return (
            f"{self.engine}: {verdict} (largest difference {self.difference:.1e} of their size). "
            f"Step {self.measured.source} {self.measured.makespan * 1e3:.1f} ms, planned "
            f"{self.planned.makespan * 1e3:.1f} ms; bubble {self.measured.bubble_fraction:.1%}, planned "
            f"{self.planned.bubble_fraction:.1%}. The plan is no forecast: it was made from this run's own op times; "
            f"what differs is waiting and handing over."
        )


def engines() -> tuple[str, ...]:
    """The engines that can run here."""
    return ("numpy", "torch") if find_spec("torch") else ("numpy",)


def run(level: Level, schedule: Schedule, engine: str = "numpy") -> EngineRun:
    """Train one step with `schedule` and compare. Raises ScheduleError if it cannot run, ValueError for an engine that
    does not exist or is not installed, or if micro-batches are not alike.
    """
    if level.costs.micro_batches:
        raise ValueError("a run here gives each micro-batch as many samples; lesson 17 runs packs of unequal length")
    if engine not in engines():
        raise ValueError(f"engine is {engine!r}; here it can be {' or '.join(engines())}")
    schedule.check()
    return (_run_torch if engine == "torch" else _run_numpy)(level, schedule)


def _run_numpy(level: Level, schedule: Schedule) -> EngineRun:
    from gpipe_edu import reference as ref

    layers, balance, x, y = _job(level)
    results = [ref.train_pipeline(layers, x, y, schedule, balance, loss="mse") for _ in range(_ROUNDS)]
    best = min(results, key=lambda result: result.timeline.makespan)
    _, expected = ref.train_sequential(layers, x, y, loss="mse")
    return _compare("numpy", best.loss, best.grads, expected, schedule, best.timeline)


def _run_torch(level: Level, schedule: Schedule) -> EngineRun:
    import torch  # late: PyTorch may not be installed
    from torch import nn

    from gpipe_edu.pytorch import GPipe
    from gpipe_edu.reference.twin import as_arrays, in_torch

    layers, balance, x, y = _job(level)

    single, inputs, targets, loss_fn = in_torch(layers), torch.from_numpy(x), torch.from_numpy(y), nn.MSELoss()
    loss_fn(single(inputs), targets).backward()
    pipe = GPipe(in_torch(layers), schedule.stages, schedule.micro_batches, balance=balance, schedule=schedule)
    timelines = []
    for _ in range(1 + _ROUNDS):  # the first step also starts the workers
        pipe.zero_grad()
        loss = pipe.step(inputs, targets, loss_fn)
        timelines.append(pipe.timeline)
    ours, theirs = (as_arrays(weight.grad for weight in module.parameters()) for module in (pipe, single))
    best = min(timelines[1:], key=lambda timeline: timeline.makespan)
    return _compare("torch", loss.item(), ours, theirs, schedule, best)


def _job(level: Level) -> tuple[list[Layer], tuple[int, ...], Array, Array]:
    """Layers, how many each stage gets, inputs and targets."""
    import numpy as np

    from gpipe_edu.reference import mlp

    forward = level.costs.table(level.stages)["F"]
    blocks = [max(1, round(cost / min(forward))) for cost in forward]
    layers = mlp([WIDTH] * (sum(blocks) + 1), "tanh")
    # A block is a Linear and its Tanh, which the last Linear does not have.
    balance = [2 * count for count in blocks]
    balance[-1] -= 1
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((SAMPLES * level.M, WIDTH)) for _ in range(2))
    return layers, tuple(balance), x, y


def _compare(engine: str, loss: float, ours: Grads, theirs: Grads, schedule: Schedule, measured: Timeline) -> EngineRun:
    from gpipe_edu.reference import gradient_difference

    planned = simulate(schedule, calibrate(measured))
    return EngineRun(engine, loss, gradient_difference(ours, theirs), measured, planned)
