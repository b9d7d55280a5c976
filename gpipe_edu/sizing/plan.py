"""One plan of a step on paper: D replicas of K stages, M micro-batches and what is recomputed give time and memory.

The formulas, with n the samples of the largest micro-batch, N / (D M) rounded up:

    F of a stage      n * operations / speed + layers * overhead          (counted, see model.py)
    B                 2 F, and what is recomputed within it: the attention scores, or every layer
    R                 F, where a whole stage is recomputed: it waits for no gradient, so it can hide in the bubble
    link              n * bytes at the widest cut / bandwidth of the slowest link between two stages
    pipeline          `simulate`: the same simulator that every lesson's charts come from
    all-reduce        2 (D-1)/D * bytes of the stage's gradients / bandwidth, see machine.py; it begins when the last
                      micro-batch's backward has those of the stage's last layer, and so runs beside the rest of it
    weights and state parameters * bytes per parameter; ZeRO-1 spreads the optimizer's over the replicas
    activations       per micro-batch in flight what `RECOMPUTES` says is kept; where a stage keeps its input alone,
                      O(N + (L/K)(N/M)) (Huang et al. 2019, 2.3)

Not in it: the update of the weights, temporary buffers, fragmentation. `Machine.reserve` leaves room for the last two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from operator import mul, sub
from typing import Final, NamedTuple

from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.op import FINISHES
from gpipe_edu.schedule.recipes import gpipe, interleaved, one_f_one_b
from gpipe_edu.schedule.recompute import with_recompute
from gpipe_edu.split import balance_by_cost
from gpipe_edu.timeline import Costs, Timeline, simulate
from gpipe_edu.validate import whole

from .machine import Machine
from .model import Model


class BytesPerParameter(NamedTuple):
    """Bytes per parameter."""

    weight: int
    gradient: int
    optimizer: int  # what the optimizer keeps, with its own copy of the weight if there is one

    def of(self, parameters: float, replicas: int) -> float:
        """Bytes on one device, if the optimizer's are spread over `replicas`."""
        return parameters * (self.weight + self.gradient + self.optimizer / replicas)


STATES: Final = {
    "sgd": BytesPerParameter(4, 4, 0),
    "momentum": BytesPerParameter(4, 4, 4),
    "rmsprop": BytesPerParameter(4, 4, 4),
    "adam": BytesPerParameter(4, 4, 8),
    "mixed-adam": BytesPerParameter(2, 2, 12),
}
"""By optimizer, in 32-bit numbers; "mixed-adam" uses 16 bits (Rajbhandari et al. 2019, arXiv 1910.02054, 3.1)."""

SCHEDULES: Final = ("gpipe", "1f1b", "interleaved")
"""The schedules that the guide plans with."""

RECOMPUTES: Final = {
    "none": "everything is kept",
    "selective": "all but the attention scores (Korthikanti et al. 2022, arXiv 2205.05198)",
    "full": "every layer keeps its input alone, and is recomputed within the backward (Chen et al. 2016, 1604.06174)",
    "stage": 'every stage keeps its input alone: GPipe, and checkpoint="always" in the engine',
}
"""What a micro-batch in flight keeps."""


class Job(NamedTuple):
    """What is to be trained, and on which machine."""

    model: Model
    batch: int  # N, over all replicas
    machine: Machine
    state: BytesPerParameter = STATES["adam"]
    activation: int = 4  # bytes per number stored or sent
    schedule: str = "1f1b"
    virtual: int = 2  # V: stages of a device where they are interleaved
    zero: bool = False  # ZeRO-1

    def check(self) -> Job:
        """Return self. Raises ValueError or TypeError for what cannot be planned, naming it and what is allowed."""
        whole("batch", self.batch, 1)
        whole("activation", self.activation, 1)
        whole("virtual", self.virtual, 1)
        for name, value in self.state._asdict().items():
            whole(f"state {name}", value, 0)
        self.machine.check()
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule is {self.schedule!r}; it must be one of {', '.join(SCHEDULES)}")
        return self

    @property
    def V(self) -> int:
        """Stages of a device."""
        return self.virtual if self.schedule == "interleaved" else 1


class Plan:
    """`Plan(job, D, K, M, recompute)`: one row of the table. Raises ValueError for more than the job has."""

    def __init__(self, job: Job, D: int, K: int, M: int, recompute: str) -> None:
        self.job, self.recompute = job.check(), recompute
        self.D, self.K, self.M = whole("D", D, 1), whole("K", K, 1), whole("M", M, 1)
        machine = job.machine
        if machine.devices < D * K:
            raise ValueError(f"D is {D} and K is {K}, but there are {machine.devices} devices; D K must not be more")
        if job.batch < D * M:
            raise ValueError(f"D is {D} and M is {M}, but the mini-batch has {job.batch} samples; D M can be no more")
        if recompute not in RECOMPUTES:
            raise ValueError(f"recompute is {recompute!r}; it must be one of {', '.join(RECOMPUTES)}")
        stages = K * job.V if K > 1 else 1
        self.samples = -(-job.batch // (D * M))
        self._sizes = _sizes(job.model, machine, job.activation, self.samples, stages)
        self.balance = self._sizes.balance
        widest = max(self._sizes.boundaries[1:], default=0)
        none = (0.0,) * stages
        again = {"selective": self._sizes.scores_time, "full": self._sizes.forward}.get(recompute, none)
        self.costs = Costs(
            F=self._sizes.forward,
            B=[b + a for b, a in zip(self._sizes.backward, again, strict=True)],
            send=machine.latency,
            link=machine.sending(widest, D * K),
            unit="s",
        )
        self.state = tuple(
            job.state.of(parameters, D if job.zero else 1) / machine.tensor
            for parameters in self._per_device(self._sizes.parameters)
        )

    @property
    def knobs(self) -> str:
        """The choices, in words."""
        return f"D={self.D}, K={self.K}, M={self.M}, recompute {self.recompute}"

    @property
    def timeline(self) -> Timeline:
        """The planned step of one replica, without the all-reduce. Made anew each time, so that plans stay small."""
        return simulate(self._schedule, self.costs)

    @property
    def step(self) -> float:
        """Seconds of a step, to when the last device has reduced its gradients."""
        return self._times[0]

    @property
    def bubble(self) -> float:
        """Idle share of a replica's devices, until the pipeline has ended."""
        return self._times[1]

    @cached_property
    def exposed(self) -> tuple[float, ...]:
        """Per device, seconds of its all-reduce that no backward hides.

        With ZeRO-1 the first half hands out gradients, and the second collects weights, after the update.
        """
        last = self._per_device(self.costs.table(len(self.balance))["B"])
        layers = self._per_device(self.balance)
        job, found = self.job, []
        for parameters, backward, count in zip(self._per_device(self._sizes.parameters), last, layers, strict=True):
            held = parameters / job.machine.tensor
            reduce, collect = (
                job.machine.reducing(held * count, self.D) for count in (job.state.gradient, job.state.weight)
            )
            before, after = (reduce, collect) if job.zero else (2 * reduce, 0.0)
            found.append(max(0.0, before - backward * (1 - 1 / count)) + after)
        return tuple(found)

    @cached_property
    def bound(self) -> float:
        """A lower bound of a step: seconds of a device's ops, of the forwards in front of its first and of the
        backwards behind its last one, and of the all-reduce at the end."""
        table = self.costs.table(len(self.balance))
        each = [f + b for f, b in zip(table["F"], table["B"], strict=True)]
        if self.recompute == "stage":
            each = [e + r for e, r in zip(each, table["R"], strict=True)]
        ahead, behind = (accumulate(table[kind][: self.K - 1], initial=0.0) for kind in "FB")
        first = self.exposed[0]
        return max(
            a + self.M * work + max(mine, b + first)
            for a, work, mine, b in zip(ahead, self._per_device(each), self.exposed, behind, strict=True)
        )

    @cached_property
    def activations(self) -> tuple[float, ...]:
        """Per device, bytes at the peak."""
        peaks, sizes = [], self._kept
        for k, levels in enumerate(_held(self.job.schedule, self.K, self.M, self.job.V)):
            kept, once = (values[k :: self.K] for values in sizes)
            peaks.append(max(sum(map(mul, counts, kept)) for counts in levels) + max(once))
        return tuple(peaks)

    @property
    def _kept(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Per stage: bytes that each micro-batch in flight keeps, and those that only the one at work has."""
        sizes, none = self._sizes, (0.0,) * len(self.balance)
        everything = tuple(map(sum, zip(sizes.boundaries, sizes.insides, strict=True)))
        return {
            "none": (everything, none),
            "selective": (tuple(map(sub, everything, sizes.scores)), sizes.largest_scores),
            "full": (sizes.inputs, sizes.largest),
            "stage": (sizes.boundaries, sizes.insides),
        }[self.recompute]

    @property
    def memory(self) -> tuple[float, ...]:
        """Per device, weights, state and activations in bytes."""
        return tuple(state + held for state, held in zip(self.state, self.activations, strict=True))

    @property
    def fullest(self) -> int:
        """The device that holds most."""
        memory = self.memory
        return memory.index(max(memory))

    @property
    def short(self) -> float:
        """Bytes that the fullest device lacks; negative is what it has to spare."""
        return max(self.memory) - self.job.machine.usable

    @property
    def fits(self) -> bool:
        """True if no device lacks memory."""
        return max(self.state) <= self.job.machine.usable and self.short <= 0

    @property
    def rate(self) -> float:
        """Operations per second of each accelerator, with those of a recompute of everything."""
        passes = 4 if self.recompute in ("full", "stage") else 3
        work = passes * self.job.batch * sum(layer.work for layer in self.job.model.layers)
        return work / self.step / (self.D * self.K * self.job.machine.tensor)

    @property
    def _schedule(self) -> Schedule:
        schedule = _recipe(self.job.schedule, self.K, self.M, self.job.V)
        return with_recompute(schedule, "always" if self.recompute == "stage" else "never")

    @cached_property
    def _times(self) -> tuple[float, float]:
        timeline = self.timeline
        ends = (timeline.row(device)[-1].end + more for device, more in enumerate(self.exposed))
        return max(ends) - timeline.start, timeline.bubble_fraction

    def _per_device(self, values: Sequence[float]) -> list[float]:
        """Sums over the stages of each device: k, K + k, ..."""
        return [sum(values[k :: self.K]) for k in range(self.K)]

    def __repr__(self) -> str:
        return f"Plan({self.knobs}: planned step {self.step:.3g} s)"


class _Sizes(NamedTuple):
    """What each stage costs, for one micro-batch: seconds, and bytes on one accelerator."""

    balance: tuple[int, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    scores_time: tuple[float, ...]
    boundaries: tuple[float, ...]  # the input
    insides: tuple[float, ...]  # what its layers store
    scores: tuple[float, ...]  # of that, the attention scores
    inputs: tuple[float, ...]  # of all its layers
    largest: tuple[float, ...]  # what one of its layers stores
    largest_scores: tuple[float, ...]
    parameters: tuple[int, ...]


@lru_cache(maxsize=4096)
def _sizes(model: Model, machine: Machine, activation: int, samples: int, stages: int) -> _Sizes:
    layers, n = model.layers, samples
    seconds = _seconds(model, machine, n, activation)
    # Without a fixed cost every size of micro-batch has the same cut.
    costs = seconds if machine.overhead else _seconds(model, machine, 1, activation)
    balance = _cut(tuple(map(sum, costs)), stages)
    bounds = list(pairwise([0, *accumulate(balance)]))
    cuts = [layers[start - 1].output for start, _ in bounds[1:]]
    bytes_each = n * activation / machine.tensor

    def sums(values: Iterable[float]) -> tuple[float, ...]:
        each = list(values)
        return tuple(sum(each[start:end]) for start, end in bounds)

    return _Sizes(
        balance,
        sums(map(sum, seconds)),
        sums(2 * computing + sharing for computing, sharing in seconds),
        sums(n * layer.scores_work / machine.speed / machine.tensor for layer in layers),
        tuple(numbers * bytes_each for numbers in (model.inputs, *cuts)),
        sums(layer.stored * bytes_each for layer in layers),
        sums(layer.scores * bytes_each for layer in layers),
        sums(numbers * bytes_each for numbers in (model.inputs, *(layer.output for layer in layers[:-1]))),
        tuple(max(layer.stored for layer in layers[start:end]) * bytes_each for start, end in bounds),
        tuple(max(layer.scores for layer in layers[start:end]) * bytes_each for start, end in bounds),
        tuple(int(count) for count in sums(layer.parameters for layer in layers)),
    )


def _seconds(model: Model, machine: Machine, samples: int, activation: int) -> list[tuple[float, float]]:
    """For every layer's forward: seconds of its own work, and of communication within the tensor group."""
    return [
        (
            samples * layer.work / machine.speed / machine.tensor + machine.overhead,
            machine.sharing(samples * layer.shared * activation),
        )
        for layer in model.layers
    ]


@lru_cache(maxsize=1024)
def _cut(costs: tuple[float, ...], stages: int) -> tuple[int, ...]:
    return balance_by_cost(costs, stages)


def _recipe(name: str, K: int, M: int, V: int) -> Schedule:
    if name == "1f1b" or K == 1:  # a device alone adds gradients up, and holds one micro-batch at a time
        return one_f_one_b(K, M)
    return gpipe(K, M) if name == "gpipe" else interleaved(K, M, V)


@lru_cache(maxsize=256)
def _held(name: str, K: int, M: int, V: int) -> tuple[frozenset[tuple[int, ...]], ...]:
    """Per device: how many micro-batches each of its stages holds, at the times when that has grown."""
    if name == "1f1b" or K == 1:
        return tuple(frozenset([(min(M, K - k),)]) for k in range(K))
    if name == "gpipe":
        return (frozenset([(M,)]),) * K
    found = []
    for row in interleaved(K, M, V).rows:
        counts, seen = [0] * V, set()
        for kind, _, stage in row:
            counts[stage // K] += (kind == "F") - (kind in FINISHES)
            if kind == "F":
                seen.add(tuple(counts))
        found.append(frozenset(seen))
    return tuple(found)
