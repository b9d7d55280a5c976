"""`torchrun -m gpipe_edu train`: the same job as on one machine, with a process for each device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
from gpipe_edu.cluster.ranks import Ranks, RanksError
from gpipe_edu.cluster.saving import load, save
from gpipe_edu.schedule import Schedule
from gpipe_edu.split import split_batch
from gpipe_edu.timeline import Timeline

from .train_torch import accumulate, in_turn, network, plan_rows, step_rows, tensors
from .trainer import Array, Labels, same

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
        ranks.now = lambda: trainer.pipeline.now
        yield trainer, ranks.rank


class RanksTrainer:
    """One rank's part of an MLP on a pipeline of processes, or of several such pipelines; see `trainer.Trainer`."""

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
        self.schedule, self.device = schedule, ranks.device
        mesh = init_device_mesh(
            self.device.type, (ranks.size // schedule.devices, schedule.devices), mesh_dim_names=("replica", "stage")
        )
        self._replica, self._replicas = mesh.get_local_rank("replica"), mesh.size(0)
        self.net, self.loss = network(sizes, seed), nn.CrossEntropyLoss()
        self._groups = (mesh.get_group("stage"), mesh.get_group("replica"))
        self.pipeline = self._pipeline(copy.deepcopy(self.net), torch.zeros(1, 64))
        self.balance = self.pipeline.balance
        self.optimizer = self._optimizer(rate, zero)
        self._folder = folder
        self.done = load(folder, self.pipeline, self.optimizer) if folder else 0
        for group in self.optimizer.param_groups:
            group["lr"] = rate  # of this command, which may differ from that of the previous run

    def step(self, x: Array, y: Labels, number: int) -> float:
        """Train on one mini-batch; returns its loss, the same on all ranks."""
        self.pipeline.zero_grad()
        loss = self._step(*tensors(x, y))
        self.optimizer.step()
        if self._folder and (number + 1) % SAVED_EVERY == 0:
            try:
                save(self._folder, self.pipeline, self.optimizer, number + 1)
            except OSError as error:  # the same on every rank
                raise RanksError(str(error)) from error
        return self.pipeline.sum_over_ranks(loss)

    def accuracy(self, x: Array, y: Labels) -> float:
        """The share of samples that the model reads right, the same on all ranks."""
        inputs, labels = tensors(x, y)
        outputs = self.pipeline.predict(inputs)
        right = None if outputs is None else (outputs.cpu().argmax(dim=1) == labels).double().mean()
        return self.pipeline.sum_over_ranks(right) / self._replicas

    def measure(self, x: Array, y: Labels) -> Timeline:
        """Run the mini-batch once more, without an update; returns when the ops of this rank's pipeline ran."""
        self.pipeline.zero_grad()
        self._step(*tensors(x, y))
        return self.pipeline.timeline()

    def figures(self, x: Array, y: Labels) -> list[tuple[str, str]]:
        """Time, bubble, links and equality."""
        inputs, labels = tensors(x, y)
        single = copy.deepcopy(self.net).to(self.device)
        M = min(self.schedule.micro_batches, len(x))

        def one_device() -> None:
            if dist.get_rank() == 0:
                accumulate(single, self.loss, inputs.to(self.device), labels.to(self.device), M)

        def pipeline() -> None:
            self._step(inputs, labels)

        def ready() -> None:
            self.pipeline.zero_grad()
            single.zero_grad()
            dist.barrier()

        def through() -> None:
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            dist.barrier()

        piped, alone = in_turn([pipeline, one_device], ready, through)
        timeline, link, uncertainty = self.pipeline.timeline(), self.pipeline.links(), self.pipeline.clock_uncertainty()
        plan = self.pipeline.plan(timeline, link, len(self._mine(inputs)))
        hosts = len(set(self._everywhere(gethostname())))
        who = f"{self._replicas} pipelines are" if self._replicas > 1 else "the pipeline is"
        shape = f"{plural(self._replicas, 'replica')} of {plural(self.schedule.devices, 'device')}"
        return [
            ("ranks", f"{dist.get_world_size()} on {plural(hosts, 'host')}: {shape}"),
            *step_rows(piped, alone, len(x), who),
            *plan_rows(plan, timeline, "this step's mean times and the links below"),
            ("links", f"{link.latency * 1e6:.0f} us and {link.bandwidth / 1e9:.2f} GB/s, the slowest, measured"),
            ("clocks", f"of two ranks agree to within {uncertainty * 1e6:.0f} us"),
            same(self._difference(inputs, labels)),
        ]

    def _pipeline(self, net: nn.Sequential, example: Tensor) -> Pipeline:
        stages, replicas = self._groups
        return Pipeline(
            net,
            self.schedule,
            self.loss,
            example,
            device=self.device,
            group=stages,
            replicas=replicas if self._replicas > 1 else None,
        )

    def _optimizer(self, rate: float, zero: bool) -> torch.optim.Optimizer:
        settings: dict[str, Any] = {"lr": rate, "momentum": 0.9}
        if zero and self._replicas == 1:
            raise ValueError("--zero shares the optimizer among replicas, but there is one: start more processes")
        weights = self.pipeline.parameter_groups()
        if not zero or not weights[0]["params"]:  # ZeRO's optimizer takes no group without weights
            return torch.optim.SGD(weights, **settings)
        from torch.distributed.optim import ZeroRedundancyOptimizer

        group = self._groups[1]
        return ZeroRedundancyOptimizer(weights, torch.optim.SGD, process_group=group, **settings)

    def _mine(self, values: Tensor) -> Tensor:
        """This replica's samples."""
        piece: Tensor = split_batch(values, self._replicas)[self._replica]
        return piece

    def _step(self, x: Tensor, y: Tensor) -> Tensor | None:
        return self.pipeline.step(self._mine(x), self._mine(y), of=len(x))

    def _difference(self, x: Tensor, y: Tensor) -> float:
        """The largest difference of any gradient value from one device's, as a share of the largest; in float64."""
        single = copy.deepcopy(self.net).double()
        self.loss(single(x.double()), y).backward()
        expected = {name: weight.grad for name, weight in single.named_parameters()}
        pipeline = self._pipeline(copy.deepcopy(self.net).double(), x[:1].double())
        pipeline.step(self._mine(x.double()), self._mine(y), of=len(x))
        apart = size = 0.0
        for name, weight in pipeline.named_parameters():
            theirs, ours = expected[name], weight.grad
            if theirs is not None and ours is not None:
                apart = max(apart, float((ours.cpu() - theirs).abs().max()))
                size = max(size, float(theirs.abs().max()))
        found = self._everywhere((apart, size))
        return float(max(one[0] for one in found) / max(one[1] for one in found))

    def _everywhere(self, value: Any) -> list[Any]:
        """What each rank has."""
        values: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(values, value)
        return values
