"""`train --engine torch`: the PyTorch engine, measured against one device in the same run.

What `train` shows about a step in PyTorch, compared with one device and with its plan, is here, also for ranks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.place import usable_gpus, wait_for_gpus
from gpipe_edu.reference import gradient_difference
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.recompute import with_kinds, with_recompute
from gpipe_edu.split import balance_uniform, split_batch
from gpipe_edu.timeline import Timeline, calibrate, simulate

from .trainer import Array, Labels, kib, same


class TorchTrainer:
    """An MLP on the PyTorch pipeline; see `trainer.Trainer`."""

    done = 0

    def __init__(self, schedule: Schedule, sizes: list[int], rate: float, seed: int, device: str) -> None:
        self.schedule = schedule
        self.devices = devices_called(device)
        net = network(sizes, seed)
        self.balance = balance_uniform(len(net), schedule.stages)
        self.pipe = self._pipe(net, schedule)
        self.optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
        self.net, self.loss = net, nn.CrossEntropyLoss()

    def step(self, x: Array, y: Labels, number: int) -> float:
        """Train on one mini-batch; returns its loss."""
        self.optimizer.zero_grad()
        loss = self.pipe.step(*tensors(x, y), self.loss)
        self.optimizer.step()
        return loss.item()

    def accuracy(self, x: Array, y: Labels) -> float:
        """The share of samples that the model reads right."""
        inputs, labels = tensors(x, y)
        with torch.no_grad():
            guesses = self.pipe(inputs).cpu().argmax(dim=1)
        return float((guesses == labels).double().mean())

    def measure(self, x: Array, y: Labels) -> Timeline:
        """Run the mini-batch once more, without an update; returns when its ops ran."""
        self.pipe.step(*tensors(x, y), self.loss)
        return self.pipe.timeline

    def figures(self, x: Array, y: Labels) -> list[tuple[str, str]]:
        """Time, bubble, memory and equality."""
        inputs, labels = tensors(x, y)
        single, M = self._single(), min(self.schedule.micro_batches, len(x))

        def one_device() -> None:
            # On a CPU a device is one worker's share of the cores, here as in the pipeline.
            cores = torch.get_num_threads()
            torch.set_num_threads(max(1, cores // self.schedule.devices))
            accumulate(single, self.loss, inputs.to(self.devices[0]), labels.to(self.devices[0]), M)
            torch.set_num_threads(cores)

        def pipeline() -> None:
            self.pipe.step(inputs, labels, self.loss)

        def forget() -> None:
            self.pipe.zero_grad()
            single.zero_grad()

        piped, alone = in_turn([pipeline, one_device], ready=forget, through=wait_for_gpus)
        timeline = self.pipe.timeline
        plan = simulate(self.schedule.first(len(x)), calibrate(timeline))
        return [
            *step_rows(piped, alone, len(x), "the pipeline is"),
            *plan_rows(plan, timeline, "this step's mean time of each op"),
            *self._memory(inputs, labels),
            same(self._difference(inputs, labels)),
        ]

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

    def _single(self) -> nn.Module:
        return copy.deepcopy(self.net).to(self.devices[0])

    def _memory(self, x: Tensor, y: Tensor) -> list[tuple[str, str]]:
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

    def _difference(self, x: Tensor, y: Tensor) -> float:
        """The largest difference of any gradient value from one device's, as a share of the largest; in float64."""
        single = self._single().double()
        self.loss(single(x.double().to(self.devices[0])), y.to(self.devices[0])).backward()
        pipe = self._pipe(copy.deepcopy(self.net).double(), self.schedule)
        pipe.step(x.double(), y, self.loss)
        ours, theirs = (
            [weight.grad.cpu().numpy() for weight in module.parameters() if weight.grad is not None]
            for module in (pipe, single)
        )
        return gradient_difference(ours, theirs)


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


def in_turn(jobs: list[Callable[[], None]], ready: Callable[[], None], through: Callable[[], None]) -> list[float]:
    """Median seconds of each job. They take turns, so that other load on the machine affects all of them alike.

    ready: called before the clock starts. through: called before it stops, returns when the job has finished.
    """
    seconds: list[list[float]] = [[] for _ in jobs]
    for _ in range(ROUNDS + 1):
        for job, times in zip(jobs, seconds, strict=True):
            ready()
            started = perf_counter()
            job()
            through()
            times.append(perf_counter() - started)
    return [median(times[1:]) for times in seconds]


def accumulate(net: nn.Module, loss: Callable[..., Any], x: Tensor, y: Tensor, micro_batches: int) -> None:
    """The same gradients on the one device where net, x and y are: one micro-batch after the other."""
    for piece, target in zip(split_batch(x, micro_batches), split_batch(y, micro_batches), strict=True):
        (loss(net(piece), target) * (len(piece) / len(x))).backward()


def step_rows(piped: float, alone: float, samples: int, who: str) -> list[tuple[str, str]]:
    """The rows about a step of `samples`, from its seconds and those of one device; who: what is compared with it."""
    return [
        ("step", f"{piped * 1e3:.1f} ms, {samples / piped:,.0f} samples/s, measured (median of {ROUNDS})"),
        ("one device", f"{alone * 1e3:.1f} ms: {who} {alone / piped:.2f} times as fast, measured"),
    ]


def plan_rows(plan: Timeline, measured: Timeline, known: str) -> list[tuple[str, str]]:
    """The rows about planned and measured; known: what the plan was based on."""
    return [
        ("bubble, planned", f"{plan.bubble_fraction:.1%}, with {known}"),
        ("bubble, measured", f"{measured.bubble_fraction:.1%} of all device time is idle"),
        ("step, planned", f"{plan.makespan / measured.makespan - 1:+.1%} against the measured step"),
    ]
