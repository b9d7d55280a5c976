"""One plan of a step on paper: K stages, M micro-batches and a checkpoint mode give time, bubble and memory.

The formulas, with n the samples of the largest micro-batch, N / M rounded up:

    F of a stage      n * operations / speed + layers * overhead          (counted, see layers.py; B = 2 F, R = F)
    send              n * bytes at the widest cut / link
    time, bubble      `simulate`: the same simulator that every lesson's charts come from
    weights and state parameters * bytes per parameter                    (12 for RMSProp: Huang et al. 2019, table 1)
    activations       `peak_memory` of the simulated timeline: per micro-batch in flight the boundary input, and the
                      interior where it is not thrown away; O(N + (L/K)(N/M)) with re-materialization (ibid., 2.3)

Not in it: the update of the weights, temporary buffers, fragmentation. `Machine.reserve` leaves room for the last two.
"""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from gpipe_edu.schedule.recipes import by_name
from gpipe_edu.schedule.recompute import CHECKPOINTS, with_recompute
from gpipe_edu.split import balance_by_cost
from gpipe_edu.timeline import Costs, Timeline, simulate
from gpipe_edu.timeline.memory import peak_memory
from gpipe_edu.validate import number, whole

from .model import LayerSize, Model

STATE_BYTES: Final = {"sgd": 8, "momentum": 12, "rmsprop": 12, "adam": 16}
"""Bytes per parameter in 32-bit numbers: weight, gradient, and 0, 1, 1 or 2 numbers of the optimizer."""

SCHEDULES: Final = ("gpipe", "1f1b")
"""Those the guide plans with."""


class Machine(NamedTuple):
    """Equal devices. Times in seconds, sizes in bytes."""

    devices: int
    memory: float  # of each device
    speed: float  # operations per second that a device sustains on large matrices
    overhead: float = 0  # seconds per layer and forward that do not shrink with the micro-batch
    link: float | None = None  # bytes per second between devices; None: sending takes no time
    reserve: float = 0.1  # share of the memory to leave free

    @property
    def usable(self) -> float:
        """Bytes of a device that may be planned with."""
        return self.memory * (1 - self.reserve)


class Job(NamedTuple):
    """What is to be trained on what."""

    model: Model
    batch: int  # N
    machine: Machine
    state: int = STATE_BYTES["adam"]  # bytes per parameter
    activation: int = 4  # bytes per number stored or sent
    schedule: str = "gpipe"

    def check(self) -> Job:
        """Itself. Raises ValueError or TypeError for what cannot be planned, naming it and what is allowed."""
        whole("batch", self.batch, 1)
        whole("devices", self.machine.devices, 1)
        whole("state", self.state, 1)
        whole("activation", self.activation, 1)
        number("overhead", self.machine.overhead)
        machine = self.machine
        speeds = {"memory": machine.memory, "speed": machine.speed}
        for name, value in (speeds if machine.link is None else {**speeds, "link": machine.link}).items():
            if not number(name, value):
                raise ValueError(f"{name} is {value}; it must be more than 0")
        if number("reserve", machine.reserve) >= 1:
            raise ValueError(f"reserve is {machine.reserve}; it must be at least 0 and below 1, such as 0.1")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule is {self.schedule!r}; it must be one of {', '.join(SCHEDULES)}")
        return self


class Plan:
    """`Plan(job, K, M, checkpoint)`: one row of the table. Raises ValueError for K above the devices or layers."""

    def __init__(self, job: Job, K: int, M: int, checkpoint: str) -> None:
        self.job, self.K, self.M, self.checkpoint = job.check(), whole("K", K, 1), whole("M", M, 1), checkpoint
        if job.machine.devices < K:
            raise ValueError(f"K is {K}, but there are {job.machine.devices} devices; a stage needs one of its own")
        if job.batch < M:
            raise ValueError(f"M is {M}, but the mini-batch has {job.batch} samples; use M <= {job.batch}")
        if checkpoint not in CHECKPOINTS:
            raise ValueError(f"checkpoint is {checkpoint!r}; it must be one of {', '.join(CHECKPOINTS)}")
        n = -(-job.batch // M)
        machine, layers = job.machine, job.model.layers
        seconds = [n * layer.work / machine.speed + machine.overhead for layer in layers]
        self.balance = balance_by_cost(seconds, K)
        bounds = list(pairwise([0, *accumulate(self.balance)]))
        stages: list[tuple[LayerSize, ...]] = [layers[start:end] for start, end in bounds]
        forward = [sum(seconds[start:end]) for start, end in bounds]
        cuts = [stage[-1].output for stage in stages[:-1]]
        widest = n * max(cuts, default=0) * job.activation
        self.costs = Costs(
            F=forward, B=[2 * f for f in forward], send=widest / machine.link if machine.link else 0, unit="s"
        )
        self._boundaries = [n * numbers * job.activation for numbers in (job.model.inputs, *cuts)]
        self._interiors = [n * sum(layer.stored for layer in stage) * job.activation for stage in stages]
        self.state = tuple(job.state * sum(layer.parameters for layer in stage) for stage in stages)

    @property
    def knobs(self) -> str:
        """What was chosen, in words."""
        return f"K={self.K}, M={self.M}, checkpoint {self.checkpoint}"

    @property
    def timeline(self) -> Timeline:
        """The planned step. Made anew each time, so that a large table of plans stays small."""
        schedule = with_recompute(by_name(self.job.schedule, self.K, self.M), self.checkpoint)
        return simulate(schedule, self.costs)

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return self._figures[0]

    @property
    def bubble(self) -> float:
        """Idle share of the K devices' time."""
        return self._figures[1]

    @property
    def activations(self) -> tuple[float, ...]:
        """Per device, bytes at the peak."""
        return self._figures[2]

    @property
    def memory(self) -> tuple[float, ...]:
        """Per device, weights, state and activations in bytes."""
        return tuple(state + held for state, held in zip(self.state, self.activations, strict=True))

    @property
    def fullest(self) -> int:
        """The device that holds most."""
        return max(range(self.K), key=lambda k: self.memory[k])

    @property
    def short(self) -> float:
        """Bytes that the fullest device lacks; negative is what it has to spare."""
        return self.memory[self.fullest] - self.job.machine.usable

    @property
    def fits(self) -> bool:
        """True if no device lacks memory."""
        # Where weights alone are too much, nothing needs to be simulated.
        return max(self.state) <= self.job.machine.usable and self.short <= 0

    @cached_property
    def _figures(self) -> tuple[float, float, tuple[float, ...]]:
        timeline = self.timeline
        held = peak_memory(timeline, self._boundaries, self._interiors)
        return timeline.makespan, timeline.bubble_fraction, held

    def __repr__(self) -> str:
        return f"Plan({self.knobs}: planned step {self.step:.3g} s)"
