"""`train --engine torch`: the PyTorch engine, measured against one device in the same run.

What `train` shows about a step in PyTorch, compared with one device and with its plan, is here, also for ranks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.place import usable_gpus
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.recompute import with_kinds, with_recompute
from gpipe_edu.split import balance_uniform, split_batch
from gpipe_edu.timeline import Timeline, calibrate, simulate

from .trainer import MOMENTUM, Array, Labels, kib, same


class TorchTrainer:
    """An MLP on the PyTorch pipeline; see `trainer.Trainer`. `RanksTrainer` differs in how a step is run."""

    done = 0
    who = "the pipeline is"
    alone = True
    """Whether this process also stands for one device."""

    pipe: Any
    devices: Sequence[str | torch.device]

    def __init__(self, schedule: Schedule, sizes: list[int], rate: float, seed: int, device: str) -> None:
        self.schedule, self.loss = schedule, nn.CrossEntropyLoss()
        self.devices, self.workers = devices_called(device), schedule.devices
        self.net = network(sizes, seed)
        self.balance = balance_uniform(len(self.net), schedule.stages)
        self.pipe = self._pipe(self.net, schedule)
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(self.net.parameters(), lr=rate, momentum=MOMENTUM)

    def step(self, x: Array, y: Labels, number: int) -> float:
        """Train on one mini-batch; returns its loss."""
        self.optimizer.zero_grad()
        loss = self.pipe.step(*tensors(x, y), self.loss)
        self.optimizer.step()
        return float(loss)

    def accuracy(self, x: Array, y: Labels) -> float:
        """The share of samples that the model reads right."""
        inputs, labels = tensors(x, y)
        with torch.no_grad():
            guesses = self.pipe(inputs).cpu().argmax(dim=1)
        return float((guesses == labels).double().mean())

    def measure(self, x: Array, y: Labels) -> Timeline:
        """Run the mini-batch once more, without an update; returns when its ops ran."""
        self.pipe.zero_grad()
        self._run(*tensors(x, y))
        return self._timeline()

    def figures(self, x: Array, y: Labels) -> list[tuple[str, str]]:
        """Time, bubble, equality, and what only this kind of pipeline has."""
        inputs, labels = tensors(x, y)
        piped, alone = self._in_turn(inputs, labels)
        timeline = self._timeline()
        plan, known = self._plan(timeline, len(x))
        return [
            ("step", f"{piped * 1e3:.1f} ms, {len(x) / piped:,.0f} samples/s, measured (median of {ROUNDS})"),
            ("one device", f"{alone * 1e3:.1f} ms: {self.who} {alone / piped:.2f} times as fast, measured"),
            ("bubble, planned", f"{plan.bubble_fraction:.1%}, with {known}"),
            ("bubble, measured", f"{timeline.bubble_fraction:.1%} of all device time is idle"),
            ("step, planned", f"{plan.makespan / timeline.makespan - 1:+.1%} against the measured step"),
            *self._further(inputs, labels),
            same(self._difference(inputs, labels)),
        ]

    def _in_turn(self, x: Tensor, y: Tensor) -> tuple[float, float]:
        """Median seconds of a step, and of one that makes the same gradients on one device, a micro-batch after the
        other. They take turns, so that other load on the machine affects both alike."""
        first = self.devices[0]
        single, M = copy.deepcopy(self.net).to(first), min(self.schedule.micro_batches, len(x))

        def one_device() -> None:
            # On a CPU a device is one worker's share of the cores, here as in the pipeline.
            cores = torch.get_num_threads()
            torch.set_num_threads(max(1, cores // self.workers))
            for piece, target in zip(split_batch(x.to(first), M), split_batch(y.to(first), M), strict=True):
                (self.loss(single(piece), target) * (len(piece) / len(x))).backward()
            torch.set_num_threads(cores)

        seconds: list[tuple[float, float]] = []
        for _ in range(ROUNDS + 1):
            single.zero_grad()
            self.pipe.zero_grad()
            seconds.append(
                (self._time(lambda: self._run(x, y)), self._time(one_device if self.alone else lambda: None))
            )
        piped, alone = zip(*seconds[1:], strict=True)
        return median(piped), median(alone)

    def _time(self, job: Callable[[], None]) -> float:
        self._meet()
        started = perf_counter()
        job()
        self._meet()
        return perf_counter() - started

    def _meet(self) -> None:
        """Wait until all devices have done what they were given."""
        for device in self.devices:
            if torch.device(device).type == "cuda":
                torch.cuda.synchronize(device)

    def _difference(self, x: Tensor, y: Tensor) -> float:
        """The largest difference of any gradient value from one device's, as a share of the largest; in float64."""
        single = copy.deepcopy(self.net).double().cpu()
        self.loss(single(x.double()), y).backward()
        expected = dict(single.named_parameters())
        apart = size = 0.0
        for name, weight in self._run_in_double(x.double(), y):
            theirs, ours = expected[name].grad, weight.grad
            if theirs is not None and ours is not None:
                apart = max(apart, float((ours.cpu() - theirs).abs().max()))
                size = max(size, float(theirs.abs().max()))
        found = self._everywhere((apart, size))
        return float(max(one[0] for one in found) / max(one[1] for one in found))

    def _pipe(self, net: nn.Sequential, schedule: Schedule, measure_memory: bool = False) -> GPipe:
        return GPipe(
            net,
            schedule.stages,
            schedule.micro_batches,
            balance=self.balance,
            devices=self.devices,
            schedule=schedule,
            measure_memory=measure_memory,
        )

    def _run(self, x: Tensor, y: Tensor) -> None:
        self.pipe.step(x, y, self.loss)

    def _run_in_double(self, x: Tensor, y: Tensor) -> Iterator[tuple[str, nn.Parameter]]:
        """The weights, with names and gradients, of a pipeline in float64 that has run a step."""
        pipe = self._pipe(copy.deepcopy(self.net).double(), self.schedule)
        pipe.step(x, y, self.loss)
        return pipe.named_parameters()

    def _timeline(self) -> Timeline:
        timeline: Timeline = self.pipe.timeline
        return timeline

    def _plan(self, timeline: Timeline, samples: int) -> tuple[Timeline, str]:
        """The step on paper, and what it was based on."""
        return simulate(self.schedule.first(samples), calibrate(timeline)), "this step's mean time of each op"

    def _further(self, x: Tensor, y: Tensor) -> list[tuple[str, str]]:
        """Peak activations as scheduled, and with everything recomputed if nothing is, or the other way round."""
        rows = []
        variants = {"as scheduled": self.schedule}
        if not any(op.kind in "RC" for row in self.schedule.rows for op in row):
            variants["checkpoint always"] = with_recompute(self.schedule, "always")
        else:
            variants["never recomputed"] = with_kinds(self.schedule, {"C": "B", "R": ""})
        for name, schedule in variants.items():
            pipe = self._pipe(copy.deepcopy(self.net), schedule, measure_memory=True)
            pipe.step(x, y, self.loss)
            rows.append(("peak activations", f"{kib(pipe.peak_memory)}, {name}, measured"))
        return rows

    def _everywhere(self, value: Any) -> list[Any]:
        """What each process has."""
        return [value]


def network(sizes: list[int], seed: int) -> nn.Sequential:
    """The model: linear layers with tanh between them, the same ones for the same seed."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        linear = nn.Linear(inputs, outputs)
        nn.init.xavier_normal_(linear.weight)
        layers += [linear, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def devices_called(name: str) -> list[str]:
    """The devices meant by "auto", "cpu" and "cuda". Raises ValueError for another name, or "cuda" without a GPU."""
    gpus = [f"cuda:{index}" for index in range(usable_gpus())]
    if name == "cuda" and not gpus:
        raise ValueError("device is 'cuda', but PyTorch finds no GPU here; use --device cpu")
    choices = {"auto": gpus or ["cpu"], "cpu": ["cpu"], "cuda": gpus}
    if name not in choices:
        raise ValueError(f"device is {name!r}; it must be one of {', '.join(choices)}")
    return choices[name]


def tensors(x: Array, y: Labels) -> tuple[Tensor, Tensor]:
    """A mini-batch as PyTorch takes it."""
    return torch.from_numpy(x).float(), torch.from_numpy(y)


ROUNDS = 7
"""Steps timed of each variant, in turn; medians are shown."""
