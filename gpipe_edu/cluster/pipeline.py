"""One rank's part of a pipeline: PyTorch's engine for one process per device, driven by one of our schedules."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import Any
from weakref import ref

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from gpipe_edu.pytorch.cut import cut
from gpipe_edu.pytorch.guards import (
    as_built,
    grad_is_enabled,
    is_a_loss,
    is_a_target,
    not_sharded,
    weights_are_there,
)
from gpipe_edu.pytorch.losses import LossFunction, make_heads
from gpipe_edu.pytorch.skip import skip_ways
from gpipe_edu.pytorch.stage import Head
from gpipe_edu.pytorch.uncompiled import outside_of_graphs
from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.split import split_batch
from gpipe_edu.timeline import Span, Timeline, calibrate, simulate
from gpipe_edu.validate import whole

from .boundaries import boundaries
from .engine import Engine
from .fingerprint import BuiltNetwork, compare, describe, fingerprint
from .gradients import Gradients
from .links import Link, measure
from .lowering import lower
from .ranks import gather
from .shared_clock import Offset, OpTime, SharedClock, offset
from .stage import Stage

Sizes = tuple[int, ...]
"""The number of samples of each micro-batch."""


class Pipeline:
    """`Pipeline(net, schedule, loss_fn, example)`: on rank k, the stages that row k of `schedule` runs.

    net: the whole network, the same on every rank, which the first step makes sure of; only this rank's layers are kept
    and moved to `device`. loss_fn: (output, target) -> a tensor with one value, for a micro-batch. example: a tensor
    like a mini-batch, of which only the type and the shape behind the first dimension count. reduction: "mean" if
    loss_fn averages over samples, "sum" if it sums. balance: layers per stage, as even as possible by default. group:
    the ranks of this pipeline, one per row of the schedule, all of them unless given. replicas: the ranks that hold the
    same stages as this one; each trains on samples of its own. accumulate_in_fp32: gradients of 16-bit weights are
    added up over micro-batches and replicas in fp32, and rounded once, for `.grad`. What a pipeline refuses, and why:
    `pytorch/guards.py`, as `GPipe` does.

    Raises ScheduleError, TypeError, ValueError for what PyTorch's engine can't run, naming what can be done. All ranks
    check the whole network: one that raised alone would leave the others waiting.
    """

    def __init__(
        self,
        net: nn.Sequential,
        schedule: Schedule,
        loss_fn: LossFunction,
        example: Tensor,
        *,
        reduction: str = "mean",
        balance: Iterable[int] | None = None,
        device: torch.device | str = "cpu",
        group: Any = None,
        replicas: Any = None,
        accumulate_in_fp32: bool = True,
    ) -> None:
        lower(schedule)
        self.schedule, self.group, self.replicas = schedule, group or dist.group.WORLD, replicas
        self.rank, ranks = dist.get_rank(self.group), dist.get_world_size(self.group)
        if ranks != schedule.devices:
            raise ValueError(
                f"the schedule has {schedule.devices} devices, but this pipeline has {ranks} ranks; start "
                f"{schedule.devices} processes for each replica, or take a schedule for {ranks} devices"
            )
        if reduction not in ("mean", "sum"):
            raise ValueError(f'reduction is {reduction!r}; it must be "mean" or "sum", as loss_fn does it')
        is_a_loss(loss_fn, reduction, "Pipeline()")
        self._loss_fn, self._reduction = loss_fn, reduction
        stages = cut(net, schedule.stages, balance)
        weights_are_there(net)
        # Weak, since only this rank's layers are to be kept.
        self._net, self._built_of = ref(net), [ref(layer) for layers in stages for layer in layers]
        for skip in skip_ways(stages):
            raise ValueError(
                f'the skip "{skip.name}" goes from stage {skip.source} to stage {skip.target}, and between ranks goes '
                "one tensor, from each stage to the next; move the cut so that one stage has both ends"
            )
        self.balance = tuple(map(len, stages))
        self.device = torch.device(device)
        pieces = [nn.Sequential(*layers) for layers in stages]
        self._boundaries = boundaries(pieces, example)
        self._norms = any(
            isinstance(part, _BatchNorm) or (isinstance(part, _InstanceNorm) and part.track_running_stats)
            for part in net.modules()
        )
        # Noted now, while this rank has the whole network, but compared by the first step: if a training is loaded
        # before that, the initial values do not matter.
        arguments = {
            "balance": str(self.balance),
            "reduction": reduction,
            "accumulate_in_fp32": str(accumulate_in_fp32),
        }
        self._built: BuiltNetwork | None = BuiltNetwork(arguments, describe(net), fingerprint(net))
        self._pieces = {k: pieces[k] for k in sorted({op.stage for op in schedule.rows[self.rank]})}
        names = iter([name for name, layer in net._modules.items() if layer is not None])
        named = [[(next(names), layer) for layer in layers] for layers in stages]
        mine = OrderedDict(entry for k in self._pieces for entry in named[k])
        self.layers: dict[str, nn.Module] = mine
        """This rank's layers, by the names that they have in the whole network."""
        self._mine = nn.Sequential(mine).to(self.device)
        self._gradients = Gradients(self._mine, replicas, accumulate_in_fp32=accumulate_in_fp32)
        self._clock = SharedClock(self.device)
        self._engines: dict[Sizes, Engine] = {}
        self._ran: list[OpTime] = []

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
        """The op that is running, or ran last."""
        return self._clock.now

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """This rank's weights, each once, under the names that they have in the whole network."""
        return self._mine.named_parameters()

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """This rank's buffers, such as running means, under the names that they have in the whole network."""
        return self._mine.named_buffers()

    def parameters(self) -> Iterator[nn.Parameter]:
        """This rank's weights, for its optimizer."""
        return self._mine.parameters()

    def train(self, mode: bool = True) -> Pipeline:
        """Put all layers into training mode, or out of it."""
        self._mine.train(mode)
        return self

    def zero_grad(self) -> None:
        """Clear the gradients."""
        self._mine.zero_grad()

    def mark_loaded(self) -> None:
        """To be called on all ranks when each has loaded all its weights and buffers from the same place: their initial
        values do not matter then, so the first step need not compare them."""
        if self._built is not None:
            self._built = self._built._replace(tensors={})

    @outside_of_graphs
    def step(self, x: Tensor, y: Tensor, *, of: int | None = None, reduce: bool = True) -> Tensor | None:
        """Run the whole schedule for one mini-batch and add the gradients of its loss to `.grad`.

        x, y: shape (N, ...) each; every rank of a pipeline gets the same ones, but reads x only for stage 0 and y only
        for the last. of: how many samples a mean is over; by default those of all replicas, and more where gradients of
        several steps are to be averaged. Returns this pipeline's share of the loss where the last stage is, None
        elsewhere; the shares of the replicas, which all make as many steps, add up.
        reduce: with replicas, add their gradients up at the end of this step. To accumulate over several steps,
        reduce=False for all but the last saves messages; where weights have hooks, which want the whole gradient,
        gradients are added up at each step all the same.

        Raises ValueError, in the first step, for ranks that have built different networks; for samples unlike the
        example's, x and y of different length, a y that requires a gradient, a mini-batch that would be padded under
        BatchNorm; RuntimeError under no_grad or autocast.
        """
        grad_is_enabled("predict(x)")
        self._runs_what_was_built()
        self._sends_what_is_expected()
        self._check_fit(x, y, of)
        sizes = self._cut(x)
        if self._built is not None:
            compare(self._built, self.group, self.replicas)
            self._built = None
        engine = self._engine(sizes)
        heads = self._heads(y, sizes, of) if self.last else ()
        self._clock.begin()
        with self._gradients.of_step(reduce):
            loss = engine.run(_pad(x.to(self.device), sizes) if self.first else None, sizes, heads)
            self._ran = self._clock.op_times()
        return loss

    @outside_of_graphs
    def predict(self, x: Tensor) -> Tensor | None:
        """The network's outputs for x, shape (N, ...), where the last stage is; None elsewhere. No gradients.

        Raises RuntimeError under autocast.
        """
        self._runs_what_was_built()
        self._sends_what_is_expected()
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
            squares += grad.abs().double().square().sum()
        dist.all_reduce(squares, group=self.group)
        norm = squares.sqrt()
        scale = (most / (norm + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(scale.to(grad.dtype))
        return norm

    def timeline(self) -> Timeline:
        """When the ops of the last step ran on all ranks, on rank 0's clock. All ranks must call this."""
        everything = gather((self._ran, self._offset), self.group)
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
        """By how many seconds two ranks' clocks may disagree in `timeline`. All ranks must call this."""
        worst = torch.tensor(self._offset.doubt, dtype=torch.float64, device=self.device)
        dist.all_reduce(worst, dist.ReduceOp.MAX, group=self.group)
        return float(worst)

    @cached_property
    def _offset(self) -> Offset:
        """The clock's offset, measured once: all ranks ask for it at the same time."""
        return offset(self.group)

    def _runs_what_was_built(self) -> None:
        not_sharded(self._mine.modules())
        if (net := self._net()) is not None:
            as_built(net, self._built_of)

    def _sends_what_is_expected(self) -> None:
        if torch.is_autocast_enabled(self.device.type):
            raise RuntimeError(
                "a pipeline of processes was called under torch.autocast, where a stage may send numbers of another "
                "type than the next one expects; leave that, and give the layers a type to compute in: net.bfloat16()"
            )

    def _check_fit(self, x: Tensor, y: Tensor, of: int | None) -> None:
        """Checked on every rank, also those that read neither: one that raised alone would leave the others waiting."""
        expected = self._boundaries[0]
        if tuple(x.shape[1:]) != expected.shape or x.dtype != expected.dtype:
            raise ValueError(
                f"x has samples of shape {tuple(x.shape[1:])} and type {x.dtype}; this pipeline's example has "
                f"shape {expected.shape} and type {expected.dtype}. Make another Pipeline for other samples"
            )
        if len(x) != len(y) or len(x) == 0:
            raise ValueError(f"x has {len(x)} samples and y {len(y)}; both must have the same number, at least 1")
        is_a_target(y)
        if of is not None and whole("of", of, 1) and self._reduction == "sum":
            raise ValueError(f'of={of} is what a mean is over, and this pipeline has reduction="sum"; leave it out')

    def _cut(self, x: Tensor) -> Sizes:
        M = min(self.schedule.micro_batches, len(x))
        sizes = tuple(len(piece) for piece in split_batch(torch.arange(len(x)), M))
        if self._norms and len(set(sizes)) > 1:
            raise ValueError(
                f"{len(x)} samples make {M} micro-batches of {min(sizes)} or {max(sizes)}. PyTorch's engine "
                "needs equal ones, and padding would go into a normalization's running statistics: take a mini-batch "
                "that M divides, drop_last=True in a loader for instance"
            )
        return sizes

    def _heads(self, y: Tensor, sizes: Sizes, of: int | None) -> list[Head]:
        """Per micro-batch, the function to its share of the loss of all replicas."""

        def mean_over(here: float) -> float:
            counts = torch.tensor([here, len(y)], dtype=torch.float64, device=self.device)
            if self.replicas is not None:
                dist.all_reduce(counts, group=self.replicas)
            everywhere, samples = counts.tolist()
            return float(everywhere if of is None else everywhere * of / samples)

        return make_heads(self._loss_fn, y, self._reduction, sizes, self.device, mean_over)

    def _engine(self, sizes: Sizes) -> Engine:
        """PyTorch's engine for mini-batches of this size: it must know shapes before it runs."""
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
            self._engines[sizes] = Engine(stages, schedule, self._clock)
        return self._engines[sizes]


def _pad(values: Tensor, sizes: Sizes) -> Tensor:
    """The micro-batches one after another, each padded to the size of the largest; padding does not count."""
    if len(set(sizes)) == 1:
        return values
    rows, start, widest = [], 0, max(sizes)
    for size in sizes:
        rows += [*range(start, start + size), *[start + size - 1] * (widest - size)]
        start += size
    return values[rows]
