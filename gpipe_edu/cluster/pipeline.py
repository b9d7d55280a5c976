"""One rank's part of a pipeline: PyTorch's engine for one process per device, driven by a schedule of ours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import inf
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.split import balance_uniform, split_batch
from gpipe_edu.timeline import Span, Timeline, calibrate, simulate

from .clock import Clock, Offset, Ran, offset
from .engine import Engine
from .links import Link, measure
from .lowering import lower
from .shapes import boundaries
from .stage import Stage

Loss = Callable[[Any, Any], Tensor]


Sizes = tuple[int, ...]
"""A mini-batch as it is cut: how many samples each micro-batch has."""


class Pipeline:
    """`Pipeline(net, schedule, loss_fn, example)`: on rank k, the stages that row k of `schedule` runs.

    net: the whole network, the same on every rank; only this rank's layers are kept and moved to `device`.
    loss_fn: (output, target) -> the mean over the samples of a micro-batch. example: a tensor like a mini-batch, of
    which only the type and the shape behind the first dimension count. balance: layers per stage, as even as can be
    unless given. group: the ranks of this pipeline, one per row of the schedule, all of them unless given.
    replicas: the ranks that hold the same stages as this one; each trains on samples of its own.

    Raises ScheduleError, ValueError for what PyTorch's engine can't run, naming what can be done.
    """

    def __init__(
        self,
        net: nn.Sequential,
        schedule: Schedule,
        loss_fn: Loss,
        example: Tensor,
        *,
        balance: Sequence[int] | None = None,
        device: torch.device | str = "cpu",
        group: Any = None,
        replicas: Any = None,
    ) -> None:
        lower(schedule)
        self.schedule, self.group, self.replicas = schedule, group or dist.group.WORLD, replicas
        self.rank, ranks = dist.get_rank(self.group), dist.get_world_size(self.group)
        if ranks != schedule.devices:
            raise ValueError(
                f"the schedule has {schedule.devices} devices, but this pipeline has {ranks} ranks; start "
                f"{schedule.devices} processes for each replica, or take a schedule for {ranks} devices"
            )
        self.balance = tuple(balance_uniform(len(net), schedule.stages) if balance is None else balance)
        if len(self.balance) != schedule.stages or sum(self.balance) != len(net) or min(self.balance) < 1:
            raise ValueError(
                f"balance is {self.balance}; it must have {schedule.stages} numbers of at least 1 that add up to "
                f"{len(net)}, the layers of the network"
            )
        self.device = torch.device(device)
        cuts = [0, *accumulate(self.balance)]
        pieces = [nn.Sequential(*list(net)[start:end]) for start, end in pairwise(cuts)]
        self._boundaries = boundaries(pieces, example)
        self._loss_fn = loss_fn
        # Of the whole network: a rank that refuses alone would leave the others waiting.
        self._norms = any(isinstance(part, _BatchNorm) for part in net.modules())
        mine = sorted({op.stage for op in schedule.rows[self.rank]})
        self.layers: dict[int, nn.Module] = {
            layer: net[layer].to(self.device) for k in mine for layer in range(cuts[k], cuts[k + 1])
        }
        self._pieces: dict[int, nn.Sequential] = {k: pieces[k] for k in mine}
        self._clock = Clock(self.device)
        self._engines: dict[Sizes, Engine] = {}
        self._ran: list[Ran] = []
        self._reduced = False

    @property
    def stages(self) -> list[int]:
        """The stages on this rank."""
        return list(self._pieces)

    @property
    def copies(self) -> int:
        """D, the number of replicas."""
        return 1 if self.replicas is None else dist.get_world_size(self.replicas)

    @property
    def first(self) -> bool:
        """Whether this rank holds stage 0, so that it needs x."""
        return 0 in self._pieces

    @property
    def last(self) -> bool:
        """Whether this rank holds the last stage, so that it needs y and knows the loss."""
        return self.schedule.stages - 1 in self._pieces

    @property
    def now(self) -> Op | None:
        """The op that runs, or ran last."""
        return self._clock.now

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """This rank's weights, under the names that they have in the whole network."""
        for layer, module in self.layers.items():
            for name, weight in module.named_parameters():
                yield f"{layer}.{name}", weight

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """This rank's buffers, such as running means, under the names that they have in the whole network."""
        for layer, module in self.layers.items():
            for name, buffer in module.named_buffers():
                yield f"{layer}.{name}", buffer

    def parameters(self) -> Iterator[nn.Parameter]:
        """This rank's weights, for its optimizer."""
        return (weight for _, weight in self.named_parameters())

    def train(self, mode: bool = True) -> Pipeline:
        """All layers in the mode for training, or not."""
        for module in self.layers.values():
            module.train(mode)
        return self

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for weight in self.parameters():
            weight.grad = None

    def step(self, x: Tensor, y: Tensor, *, of: int | None = None, reduce: bool = True) -> Tensor | None:
        """Run the whole schedule for one mini-batch and add the gradients of its loss to `.grad`.

        x, y: shape (N, ...) each; every rank of a pipeline gets the same ones, but reads x only for stage 0 and y only
        for the last. of: how many samples the mean is over, those of all replicas; by default all have N. Returns this
        pipeline's share of that mean loss where the last stage is, None elsewhere; the shares of the replicas add up.
        reduce: with replicas, add their gradients up at the end of this step. To accumulate over several steps, say
        reduce=False for all but the last.

        Raises ValueError for samples unlike the example's, for x and y of different length, for a mini-batch that would
        be padded under BatchNorm, or a reduction of what is reduced.
        """
        self._fitting(x, y)
        sizes = self._cut(x)
        engine = self._engine(sizes)
        if self._reduced and any(w.grad is not None and bool(w.grad.any()) for w in self.parameters()):
            raise ValueError(
                "there are gradients that were added up over the replicas already; adding them up again would count "
                "them several times. To accumulate, say step(x, y, reduce=False) for all but the last mini-batch"
            )
        self._clock.begin()
        loss = engine.run(
            _padded(x.to(self.device), sizes) if self.first else None,
            _padded(y.to(self.device), sizes) if self.last else None,
            sizes,
            len(x) * self.copies if of is None else of,
        )
        self._ran = self._clock.ran()
        self._reduced = reduce and self.copies > 1
        if self._reduced:
            self._add_up()
        return loss

    def predict(self, x: Tensor) -> Tensor | None:
        """The network's outputs for x, shape (N, ...), where the last stage is; None elsewhere. No gradients."""
        value: Tensor | None = None
        with torch.no_grad():
            for k in range(self.schedule.stages):
                here, before = self.schedule.device_of_stage[k], self.schedule.device_of_stage.get(k - 1)
                if here == self.rank:
                    if k == 0:
                        value = x.to(self.device)
                    elif before != self.rank:
                        value = self._boundaries[k].empty(len(x), self.device)
                        dist.recv(value, group=self.group, group_src=before)
                    value = self._pieces[k](value)
                elif before == self.rank and value is not None:
                    dist.send(value.contiguous(), group=self.group, group_dst=here)
        return value if self.last else None

    def clip_grad_norm(self, most: float) -> Tensor:
        """Scale the gradients of all stages so that their common norm is at most `most`; returns the norm it was.

        A rank alone knows only its own share of the norm: all of them must call this.
        """
        grads = [weight.grad for weight in self.parameters() if weight.grad is not None]
        squares = torch.zeros((), dtype=torch.float64, device=self.device)
        for grad in grads:
            squares += grad.double().square().sum()
        dist.all_reduce(squares, group=self.group)
        norm = squares.sqrt()
        scale = (most / (norm + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(scale.to(grad.dtype))
        return norm

    def timeline(self) -> Timeline:
        """When the ops of the last step ran on all ranks, on rank 0's clock. All ranks must call this."""
        everything: list[Any] = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(everything, (self._ran, self._offset), group=self.group)
        spans = [
            Span(rank, Op(*one.op), one.start + clock.ahead, one.end + clock.ahead)
            for rank, (ran, clock) in enumerate(everything)
            for one in ran
        ]
        start = min(span.start for span in spans)
        moved = [Span(span.device, span.op, span.start - start, span.end - start) for span in spans]
        return Timeline(moved, len(everything), name=self.schedule.name, source="measured", unit="s")

    def links(self) -> Link:
        """The slowest of the links between neighbouring stages: the longest latency, the least bandwidth.

        All ranks must call this, with nothing else under way.
        """
        homes = self.schedule.device_of_stage
        pairs = dict.fromkeys((homes[k], homes[k + 1]) for k in range(self.schedule.stages - 1))
        found = []
        for one, other in pairs:
            if one != other and (link := measure(one, other, self.group, self.device)):
                found.append(link)
            dist.barrier(self.group)
        latency = max((link.latency for link in found), default=0.0)
        bandwidth = min((link.bandwidth for link in found), default=inf)
        worst = torch.tensor([latency, -bandwidth], dtype=torch.float64, device=self.device)
        dist.all_reduce(worst, dist.ReduceOp.MAX, group=self.group)
        return Link(float(worst[0]), -float(worst[1]))

    def plan(self, measured: Timeline, link: Link, samples: int) -> Timeline:
        """The schedule on paper for a mini-batch of so many samples, with the mean time of each op in `measured` and
        messages that keep `link` busy for their bytes. It stands on one axis with `measured`.
        """
        micro_batches = min(self.schedule.micro_batches, samples)
        widest = max((b.bytes(-(-samples // micro_batches)) for b in self._boundaries[1:-1]), default=0)
        costs = replace(calibrate(measured), send=link.latency, link=link.seconds(widest))
        return simulate(self.schedule.first(samples), costs)

    def doubt(self) -> float:
        """By how many seconds the clocks of two ranks in `timeline` may disagree. All ranks must call this."""
        worst = torch.tensor(self._offset.doubt, dtype=torch.float64, device=self.device)
        dist.all_reduce(worst, dist.ReduceOp.MAX, group=self.group)
        return float(worst)

    @cached_property
    def _offset(self) -> Offset:
        """Measured once, together: all ranks need it at the same time."""
        return offset(self.group)

    def _fitting(self, x: Tensor, y: Tensor) -> None:
        """Asked on every rank, also those that read neither: one that refuses alone leaves the others waiting."""
        expected = self._boundaries[0]
        if tuple(x.shape[1:]) != expected.shape or x.dtype != expected.dtype:
            raise ValueError(
                f"x has samples of shape {tuple(x.shape[1:])} and type {x.dtype}; this pipeline's example has "
                f"shape {expected.shape} and type {expected.dtype}. Make another Pipeline for other samples"
            )
        if len(x) != len(y) or len(x) == 0:
            raise ValueError(f"x has {len(x)} samples and y {len(y)}; both must have the same number, at least 1")

    def _cut(self, x: Tensor) -> Sizes:
        M = min(self.schedule.micro_batches, len(x))
        sizes = tuple(len(piece) for piece in split_batch(torch.arange(len(x)), M))
        if self._norms and len(set(sizes)) > 1:
            raise ValueError(
                f"{len(x)} samples make {M} micro-batches of {min(sizes)} or {max(sizes)}. PyTorch's engine "
                "needs equal ones, and padding would go into BatchNorm's statistics: take a mini-batch that M divides, "
                "drop_last=True in a loader for instance"
            )
        return sizes

    def _engine(self, sizes: Sizes) -> Engine:
        """PyTorch's engine for mini-batches of this size: it wants to know shapes before it runs."""
        if sizes not in self._engines:
            schedule = self.schedule.first(len(sizes))
            recomputed = defaultdict(set)
            for op in schedule.rows[self.rank]:
                if op.kind == "C":
                    recomputed[op.stage].add(op.micro_batch)
            stages = [
                Stage(
                    piece,
                    k,
                    schedule.stages,
                    self.device,
                    self._boundaries[k].empty(max(sizes), self.device, grad=k > 0),
                    self._boundaries[k + 1].empty(max(sizes), self.device, grad=True),
                    self.group,
                    frozenset(recomputed[k]),
                    self._clock,
                )
                for k, piece in self._pieces.items()
            ]
            self._engines[sizes] = Engine(stages, schedule, self._loss_fn, self._clock)
        return self._engines[sizes]

    def _add_up(self) -> None:
        """One message for all gradients, after the last micro-batch: each of M would carry as much."""
        grads = [weight.grad for weight in self.parameters() if weight.grad is not None]
        if not grads:
            return
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        dist.all_reduce(flat, group=self.replicas)
        totals = torch.split(flat, [grad.numel() for grad in grads])
        for grad, total in zip(grads, totals, strict=True):
            grad.copy_(total.view_as(grad))


def _padded(values: Tensor, sizes: Sizes) -> Tensor:
    """The micro-batches one behind the other, each as long as the longest; what is added counts for nothing."""
    if len(set(sizes)) == 1:
        return values
    rows, start, widest = [], 0, max(sizes)
    for size in sizes:
        rows += [*range(start, start + size), *[start + size - 1] * (widest - size)]
        start += size
    return values[rows]
