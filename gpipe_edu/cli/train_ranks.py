"""`torchrun -m gpipe_edu train`: the same job as on one machine, with a process for each device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from socket import gethostname
from typing import Any

import torch
import torch.distributed as dist
import typer
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

from gpipe_edu.base.words import plural
from gpipe_edu.cluster import Pipeline
from gpipe_edu.cluster.link_speed import Link
from gpipe_edu.cluster.ranks import Ranks, RanksError
from gpipe_edu.cluster.saving import load, save
from gpipe_edu.schedule import Schedule
from gpipe_edu.split import split_batch
from gpipe_edu.timeline import Timeline

from .train_torch import TorchTrainer, network, tensors
from .trainer import MOMENTUM, Array, Labels

SAVED_EVERY = 4
"""Steps between checkpoints."""


@contextmanager
def join_job(
    device: str, job: Mapping[str, object], build: Callable[[Ranks], RanksTrainer]
) -> Iterator[tuple[RanksTrainer, int]]:
    """This rank's trainer, made by `build`, and the rank's number, once all ranks agree on the `job`."""
    try:
        ranks = Ranks(device=device)
    except RanksError as error:
        raise typer.TyperException(str(error)) from error
    with ranks:
        try:
            ranks.agree(job)
            trainer = build(ranks)
        except ValueError as error:  # the same on every rank, and the user's to fix
            raise RanksError(str(error)) from error
        ranks.now = lambda: trainer.pipe.now
        yield trainer, ranks.rank


class RanksTrainer(TorchTrainer):
    """One rank's part of an MLP on a pipeline of processes, or of several such pipelines."""

    def __init__(
        self,
        ranks: Ranks,
        schedule: Schedule,
        sizes: list[int],
        rate: float,
        seed: int,
        folder: Path | None,
        zero: bool,
    ) -> None:
        if ranks.size % schedule.devices:
            raise ValueError(
                f"{ranks.size} ranks can't hold replicas of a pipeline of {schedule.devices}: start {schedule.devices} "
                "processes, or a multiple of that"
            )
        self.schedule, self.devices, self.workers, self.alone = schedule, [ranks.device], 1, ranks.rank == 0
        mesh = init_device_mesh(
            ranks.device.type, (ranks.size // schedule.devices, schedule.devices), mesh_dim_names=("replica", "stage")
        )
        self._replica, self._replicas = mesh.get_local_rank("replica"), mesh.size(0)
        if self._replicas > 1:
            self.who = f"{self._replicas} pipelines are"
        self.net, self.loss = network(sizes, seed), nn.CrossEntropyLoss()
        self._groups = (mesh.get_group("stage"), mesh.get_group("replica"))
        self.pipe = self._pipeline(copy.deepcopy(self.net), torch.zeros(1, 64))
        self.balance = self.pipe.balance
        self.optimizer = self._optimizer(rate, zero)
        self._folder = folder
        self.done = load(folder, self.pipe, self.optimizer) if folder else 0
        for group in self.optimizer.param_groups:
            group["lr"] = rate  # of this command, which may differ from that of the previous run

    def step(self, x: Array, y: Labels, number: int) -> float:
        """Train on one mini-batch; returns its loss, the same on all ranks."""
        self.pipe.zero_grad()
        loss = self._of_mine(self.pipe, *tensors(x, y))
        self.optimizer.step()
        if self._folder and (number + 1) % SAVED_EVERY == 0:
            try:
                save(self._folder, self.pipe, self.optimizer, number + 1)
            except OSError as error:  # the same on every rank
                raise RanksError(str(error)) from error
        return float(self.pipe.sum_over_ranks(loss))

    def accuracy(self, x: Array, y: Labels) -> float:
        """The share of samples that the model reads right, the same on all ranks."""
        inputs, labels = tensors(x, y)
        outputs = self.pipe.predict(inputs)
        right = None if outputs is None else (outputs.cpu().argmax(dim=1) == labels).double().mean()
        return float(self.pipe.sum_over_ranks(right) / self._replicas)

    def _pipeline(self, net: nn.Sequential, example: Tensor) -> Pipeline:
        stages, replicas = self._groups
        return Pipeline(
            net,
            self.schedule,
            self.loss,
            example,
            device=self.devices[0],
            group=stages,
            replicas=replicas if self._replicas > 1 else None,
        )

    def _optimizer(self, rate: float, zero: bool) -> torch.optim.Optimizer:
        settings: dict[str, Any] = {"lr": rate, "momentum": MOMENTUM}
        if zero and self._replicas == 1:
            raise ValueError("--zero shares the optimizer among replicas, but there is one: start more processes")
        weights = self.pipe.parameter_groups()
        if not zero or not weights[0]["params"]:  # ZeRO's optimizer takes no group without weights
            return torch.optim.SGD(weights, **settings)
        from torch.distributed.optim import ZeroRedundancyOptimizer

        group = self._groups[1]
        return ZeroRedundancyOptimizer(weights, torch.optim.SGD, process_group=group, **settings)

    def _mine(self, values: Tensor) -> Tensor:
        """This replica's samples."""
        piece: Tensor = split_batch(values, self._replicas)[self._replica]
        return piece

    def _of_mine(self, pipeline: Pipeline, x: Tensor, y: Tensor) -> Tensor | None:
        """A step of this replica's samples."""
        return pipeline.step(self._mine(x), self._mine(y), of=len(x))

    def _run(self, x: Tensor, y: Tensor) -> None:
        self._of_mine(self.pipe, x, y)

    def _run_in_double(self, x: Tensor, y: Tensor) -> Iterator[tuple[str, nn.Parameter]]:
        pipeline = self._pipeline(copy.deepcopy(self.net).double(), x[:1])
        self._of_mine(pipeline, x, y)
        return pipeline.named_parameters()

    def _timeline(self) -> Timeline:
        timeline: Timeline = self.pipe.timeline()
        return timeline

    def _plan(self, timeline: Timeline, samples: int) -> tuple[Timeline, str]:
        plan = self.pipe.plan(timeline, self._link, -(-samples // self._replicas))
        return plan, "this step's mean times and the links below"

    def _further(self, x: Tensor, y: Tensor) -> list[tuple[str, str]]:
        hosts = len(set(self._everywhere(gethostname())))
        shape = f"{plural(self._replicas, 'replica')} of {plural(self.schedule.devices, 'device')}"
        return [
            ("ranks", f"{dist.get_world_size()} on {plural(hosts, 'host')}: {shape}"),
            (
                "links",
                f"{self._link.latency * 1e6:.0f} us and {self._link.bandwidth / 1e9:.2f} GB/s, the slowest, measured",
            ),
            ("clocks", f"of two ranks agree to within {self.pipe.clock_uncertainty() * 1e6:.0f} us"),
        ]

    @cached_property
    def _link(self) -> Link:
        link: Link = self.pipe.links()
        return link

    def _meet(self) -> None:
        super()._meet()
        dist.barrier()

    def _everywhere(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(values, value)
        return values
