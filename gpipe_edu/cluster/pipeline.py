"""One rank's part of a pipeline: PyTorch's engine for one process per device, driven by one of our schedules."""

from __future__ import annotations

import hashlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, islice
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn
from weakref import ref

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gpipe_edu.base.validate import whole
from gpipe_edu.pytorch.compiled import outside_of_graphs
from gpipe_edu.pytorch.cut_net import cut_net
from gpipe_edu.pytorch.guards import (
    as_built,
    can_be_cut,
    grad_is_enabled,
    is_a_loss,
    is_a_target,
    not_sharded,
    one_parameter_for_one_memory,
    weights_are_there,
)
from gpipe_edu.pytorch.loss_checks import LossChecks
from gpipe_edu.pytorch.losses import LossFunction, make_heads
from gpipe_edu.pytorch.shared_buffers import SharedBuffers
from gpipe_edu.pytorch.skip import skip_ways
from gpipe_edu.pytorch.stage import MAIN, Head
from gpipe_edu.pytorch.values import Value, shown, tensors
from gpipe_edu.pytorch.weights import has_hooks
from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.split import split_batch
from gpipe_edu.timeline import Span, Timeline, calibrate, simulate

from .agreement import BuiltNetwork, agree, compare, describe, digest, fingerprint
from .boundaries import Boundary, Held, StageLayers, behind, boundaries, parts_of, samples_in, to_neighbour, travelling
from .engine import Engine, Newest, lower
from .experts import Experts
from .far_skips import FarSkips, far, own_groups
from .gradients import Gradients
from .layer_building import Builders, build_layer, check_numbers, outline, tensors_of
from .link_speed import Link, measure
from .optimizer_checks import OptimizerChecks, without_scaler_of_one_rank
from .other_words import is_a_schedule, no_other_arguments, no_such_name
from .ranks import end_by_failure, gather, note_failure
from .replica_buffers import take_from_first
from .shared_clock import Offset, OpTime, SharedClock, offset
from .stage import PackedStage, Stage
from .ties import Ties, first_names, holders

Sizes = tuple[int, ...]
"""The number of samples of each micro-batch."""

_SEED: Final = "torch.initial_seed()"
"""Ranks that build their layers themselves must have the same one: no two of them have a layer to compare."""

_ENGINES: Final = 8
"""How many are kept, each for one shape and number of samples: each holds memory for all that is under way."""

_SHAPES: Final = 64
"""For how many shapes we keep what travels between the stages."""

_ONE_MINI_BATCH: Final = (
    "every rank of a pipeline must be given the same mini-batch, also those that read nothing of it"
)
_ONE_CALL: Final = "all ranks must make the same calls with the same arguments; replicas have samples of their own"


class Pipeline:
    """`Pipeline(net, schedule, loss_fn, example)`: on rank k, the stages that row k of `schedule` runs.

    net: the whole network, the same on every rank, which the first step verifies; only this rank's layers are kept
    and moved to `device`. Or a list of functions, each of which builds one layer: then each rank builds only its own,
    as `layer_building.py` says. loss_fn: (output, target) -> a tensor with one value, for a micro-batch. example: a
    mini-batch of the usual form: a tensor, a tuple or a dictionary of tensors; only types and the shapes after the
    first dimension count. reduction: "mean" if loss_fn averages over samples, "sum" if it sums. balance: layers per
    stage, as even as possible by default. group: the ranks of this pipeline, one per row of the schedule, all of them
    unless given. replicas: the ranks that hold the same stages as this one; each trains on samples of its own, and
    begins each call with the buffers of the first of them. experts: names, or patterns such as "*.experts.*", of the
    weights and buffers of which this replica has the only copy, as `experts.py` says. accumulate_in_fp32: gradients of
    16-bit weights are added up over micro-batches, stages and replicas in fp32, and rounded once, for `.grad`.
    check_loss: warn, on the last stage's rank, of a loss that gives something else in micro-batches than for all
    samples. What a pipeline refuses, and why, is in `pytorch/guards.py`, as for `GPipe`.

    Raises ScheduleError, TypeError, ValueError for what PyTorch's engine can't run, naming what can be done. All ranks
    check the whole network: one that raised alone would leave the others waiting.
    """

    def __init__(
        self,
        net: nn.Sequential | Builders,
        schedule: Schedule,
        loss_fn: LossFunction,
        example: Held,
        *,
        reduction: str = "mean",
        balance: Iterable[int] | None = None,
        device: torch.device | str = "cpu",
        group: Any = None,
        replicas: Any = None,
        experts: Iterable[str] = (),
        accumulate_in_fp32: bool = True,
        check_loss: bool = True,
        **other: Any,
    ) -> None:
        no_other_arguments(other, "Pipeline")
        self.schedule, self.group, self.replicas = schedule, group or dist.group.WORLD, replicas
        self.rank, ranks = dist.get_rank(self.group), dist.get_world_size(self.group)
        is_a_schedule(schedule, ranks)
        lower(schedule)
        if ranks != schedule.devices:
            raise ValueError(
                f"the schedule has {schedule.devices} devices, but this pipeline has {ranks} ranks; start "
                f"{schedule.devices} processes for each replica, or take a schedule for {ranks} devices"
            )
        if reduction not in ("mean", "sum"):
            raise ValueError(f'reduction is {reduction!r}; it must be "mean" or "sum", as loss_fn does it')
        is_a_loss(loss_fn, reduction, "Pipeline()")
        self._loss_fn, self._reduction, self._loss_checks = loss_fn, reduction, LossChecks(check_loss)
        self.device = torch.device(device)
        if self.device.type == "meta":
            raise ValueError("device is 'meta', where weights would lose their numbers; give 'cpu', or this rank's GPU")
        builders: Builders | None = None
        if isinstance(net, (list, tuple)):
            builders, net = net, outline(net)
        stages = cut_net(net, schedule.stages, balance)
        weights_are_there(net)
        self.experts: Final = Experts(experts, net)
        """Which names are those of tensors that no other replica has."""
        if builders is None:
            check_numbers(net)
        # Weak, since only this rank's layers are to be kept.
        self._net, self._built_of = ref(net), [ref(layer) for layers in stages for layer in layers]
        one_parameter_for_one_memory(stages, schedule.device_of_stage)
        self._shared_buffers = SharedBuffers(stages, {op.stage for op in schedule.rows[self.rank]})
        self._ways = ways = skip_ways(stages)
        self.balance = tuple(map(len, stages))
        here = sorted({op.stage for op in schedule.rows[self.rank]})
        if builders is not None:
            for k in here:
                start = sum(self.balance[:k])
                own = range(start, start + self.balance[k])
                stages[k] = [build_layer(builders[index], index).to(self.device) for index in own]
            net = nn.Sequential(*chain.from_iterable(stages))
        pieces = [StageLayers(k, nn.Sequential(*layers), ways) for k, layers in enumerate(stages)]
        self._example = first = Boundary.of({MAIN: travelling(example, "the example")})
        # Where layers look at numbers, and theirs are not here or not on the device where they will run, this ends
        # before them: the first call asks the ranks that have them.
        complete = builders is None and self.device.type == "cpu"
        self._boundaries = boundaries(pieces, first, samples_in(example), complete=complete)
        """The boundaries of the mini-batch that came last."""
        # Not kept as known yet: a layer may give a dictionary whose keys are in another order in another process, as
        # those of a set are, and the order that counts is that of the rank that runs the stage.
        self._known = Newest[Boundary, list[Boundary]](_SHAPES)
        # Noted now, while this rank has the whole network, but compared by the first step: if a training is loaded
        # before that, the initial values do not matter.
        arguments = {
            "experts": str(self.experts.patterns),
            "schedule": _described(schedule),
            "balance": str(self.balance),
            "reduction": reduction,
            "accumulate_in_fp32": str(accumulate_in_fp32),
            _SEED: "none" if builders is None else str(torch.initial_seed()),
        }
        prints = fingerprint(net)
        alone = [name for name in prints if name in self.experts]
        self._built: BuiltNetwork | None = BuiltNetwork(arguments, describe(self.experts.without(net)), prints, alone)
        self._pieces = {k: pieces[k] for k in here}
        names = iter([name for name, layer in net._modules.items() if layer is not None])
        named = [[(next(names), layer) for layer in layers] for layers in stages]
        mine = OrderedDict(entry for k in self._pieces for entry in named[k])
        self.layers: dict[str, nn.Module] = mine
        """This rank's layers, by the names that they have in the whole network."""
        self._mine = nn.Sequential(mine)
        found = first_names(entry for stage in named for entry in stage)
        known = {name: found[tensor] for name, tensor in tensors_of(self._mine)}
        self._ties = Ties(holders(stages, schedule.device_of_stage), found, self.group)
        self._mine.to(self.device)
        self._names = {tensor: known[name] for name, tensor in tensors_of(self._mine) if known.get(name, name) != name}
        """The names, in the whole network, of what is named differently among this rank's layers."""
        self._only_here = only_here = partial(self.experts.weights_of, self._mine, self._names)
        """This rank's weights of which other replicas have no copies."""
        self._gradients = Gradients(self._mine, replicas, self._ties, only_here, accumulate_in_fp32=accumulate_in_fp32)
        self._clock = SharedClock(self.device)
        self._engines = Newest[tuple[Boundary, Sizes], Engine](_ENGINES)
        self._ran: list[OpTime] = []
        others = ranks > 1 or (self.experts and self.replica_count > 1)
        self._optimizer_checks = OptimizerChecks(self._mine.parameters() if others else (), only_here)
        self._failed = ""
        """What ended a call on this rank halfway."""
        self._refused = False
        """Whether another call was refused since."""
        self._steps, self._looks = 0, False
        """How many steps there were; whether the last is number 1, 2, 4, 8, ...: those are looked at more closely."""

    @property
    def stages(self) -> list[int]:
        """The stages on this rank."""
        return list(self._pieces)

    @property
    def replica_count(self) -> int:
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
        """This rank's weights, each once, under the names that they have in the whole network. One that several layers
        hold has its name in the first of them, whichever rank that is on."""
        return ((self._names.get(weight, name), weight) for name, weight in self._mine.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """This rank's buffers, such as running means, each once, under the names that they have in the whole network.
        One that several layers hold has its name in the first of them."""
        return ((self._names.get(buffer, name), buffer) for name, buffer in self._mine.named_buffers())

    def parameters(self) -> Iterator[nn.Parameter]:
        """This rank's weights; none where its layers have none."""
        return self._mine.parameters()

    def parameter_groups(self) -> list[dict[str, Any]]:
        """This rank's weights as one group for an optimizer, `Adam(pipeline.parameter_groups())`: PyTorch's optimizers
        refuse an empty list, which is all that a rank with nothing but activations has, but take a group without
        weights."""
        return [{"params": list(self.parameters())}]

    def train(self, mode: bool = True) -> Pipeline:
        """Put all layers into training mode, or out of it."""
        self._mine.train(mode)
        return self

    def eval(self) -> Pipeline:
        """As `train(False)`."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Clear the gradients."""
        self._mine.zero_grad()

    def mark_loaded(self) -> None:
        """To be called on all ranks when each has loaded all its weights and buffers from the same place: their initial
        values do not matter then, so the first step need not compare them."""
        if self._built is not None:
            arguments = {**self._built.arguments, _SEED: "any"}
            self._built = self._built._replace(tensors={}, arguments=arguments)

    @outside_of_graphs
    def step(
        self,
        x: Held,
        y: Value = None,  # type: ignore[assignment]  # which is refused in words
        *,
        of: int | None = None,
        reduce: bool = True,
        **other: Any,
    ) -> Tensor | None:
        """Run the whole schedule for one mini-batch and add the gradients of its loss to `.grad`.

        x, y: tensors of shape (N, ...) or tuples of them, x also a dictionary; every rank of a pipeline gets the same
        ones, but reads x only for stage 0 and y only for the last. N, and the shape of a sample, may change from step
        to step. of: how many samples a mean is taken over; by default those of all replicas, and more where gradients
        of several steps are to be averaged. Returns this pipeline's share of the loss where the last stage is, None
        elsewhere; `sum_over_ranks` adds up the shares of the replicas, which all make the same calls. reduce: with
        replicas, add their gradients up at the end of this step. To accumulate over several steps, reduce=False for
        all but the last saves messages; where weights have hooks, which want the whole gradient, gradients are added
        up at each step all the same.

        Raises, on every rank, ValueError for ranks that have built different networks (in the first step) or were given
        different mini-batches, for replicas with a different `of` or `reduce`, for samples that a stage can't take, x
        and y of different lengths, or a y that requires a gradient; RuntimeError under no_grad or autocast. On the last
        stage's rank, ValueError for a loss that a GradScaler scales. A rank where an earlier call has failed is ended.
        """
        no_other_arguments(other, "step")
        self._compare("step")
        hooked = not reduce and any(map(has_hooks, self.parameters()))
        self._looks = (self._steps + 1) & self._steps == 0
        looked = {"digest": self._digest(x, y)} if self._looks else {}
        alike = {"of": of, "reduce": reduce}
        first, hooked = self._agree("step", x, lambda: self._check_fit(x, y, of), hooked, alike, looked)
        self._steps += 1  # but not for a step that was refused, perhaps because of another rank
        samples = samples_in(x)
        M = min(self.schedule.micro_batches, samples)
        sizes = tuple(len(piece) for piece in split_batch(torch.arange(samples), M))
        with self._together():
            self._boundaries = self._along(first, samples)
            self._take_buffers()
            engine = self._engine(first, sizes)
            heads = self._heads(y, sizes, of) if self.last else ()
            parts = tuple(part.to(self.device) for part in parts_of(x)) if self.first else ()
            pieces = split_batch(parts, len(sizes)) if parts else [() for _ in sizes]
            self._clock.begin()
            with self._shared_buffers.of_step(), self._gradients.of_step(reduce or hooked):
                loss = engine.run(pieces, heads)
                self._ran = self._clock.op_times()
        self._loss_checks.tell()
        self._optimizer_checks.note(self._looks)
        return loss

    @outside_of_graphs
    def predict(self, x: Held) -> Any:
        """The network's outputs for x, of shape (N, ...), where the last stage is; None elsewhere. No gradients.

        All replicas call this, each with an x of its own. Raises as `step` does.
        """
        self._compare("predict")
        first, _ = self._agree("predict", x, lambda: self._check_samples(x))
        samples = samples_in(x)
        between = self._along(first, samples)
        self._take_buffers()
        rows = [[op for op in row if op.kind == "F" and op.micro_batch == 0] for row in self.schedule.rows]
        skips = self._far_skips(between, rows, (samples,))
        parts = tuple(part.to(self.device) for part in parts_of(x)) if self.first else ()
        with self._together(), torch.no_grad(), skips.of_step():
            for k in range(self.schedule.stages):
                here, before = self.schedule.device_of_stage[k], self.schedule.device_of_stage.get(k - 1)
                if here == self.rank:
                    packed = self._packed(k, between)
                    if k > 0 and before != self.rank:
                        parts = packed.takes.empty(samples, self.device)
                        for part in parts:
                            dist.recv(part, group=self.group, group_src=before)
                    made, number = packed(*parts, *skips.take(k, 0)), len(packed.gives.parts)
                    parts = made[:number]
                    skips.give(k, 0, made[number:])
                elif before == self.rank:
                    for part in parts:
                        dist.send(part, group=self.group, group_dst=here)
        return between[-1].unpack(parts)[MAIN] if self.last else None

    def clip_grad_norm(self, most: float, norm_type: float = 2.0, **other: Any) -> Tensor:
        """Scale the gradients of all stages so that their common norm is at most `most`; returns the norm before.

        norm_type: 2, another number above 0, or infinity, as in `nn.utils.clip_grad_norm_`. A rank knows only its own
        share of the norm, so all ranks of all replicas must call this; experts of all replicas count. Raises
        ValueError for another norm_type, and, on every rank, if they are given different numbers or do something else.
        """
        no_other_arguments(other, "clip_grad_norm")
        power = float(norm_type)
        if not power > 0:
            raise ValueError(f"norm_type is {norm_type!r}; it must be a number above 0, such as 2, or infinity")
        self._meet([f"a call of clip_grad_norm({float(most):g}, norm_type={power:g})"])
        trained = [(weight, weight.grad) for weight in self.parameters() if weight.grad is not None]
        experts = self._only_here()
        # That of the weights of which all replicas have copies, and that of experts.
        parts = torch.zeros(2, dtype=torch.float64, device=self.device)
        for weight, grad in trained:
            if self._ties.counts_here(weight) and grad.numel():
                part, size = parts[int(weight in experts)], grad.abs().double()
                part.copy_(torch.maximum(part, size.max()) if power == inf else part + size.pow(power).sum())
        way = dist.ReduceOp.MAX if power == inf else dist.ReduceOp.SUM
        dist.all_reduce(parts, way, group=self.group)
        if self.experts and self.replicas is not None:
            dist.all_reduce(parts[1], way, group=self.replicas)
        norm = parts.max() if power == inf else parts.sum().pow(1 / power)
        scale = (most / (norm + 1e-6)).clamp(max=1.0)
        for _, grad in trained:
            grad.mul_(scale.to(grad.dtype))
        self._optimizer_checks.note(self._looks)
        return norm

    def sum_over_ranks(self, value: Tensor | float | None) -> float:
        """The sum of what all ranks of all replicas give, the same on each; None counts as 0. It makes a loss, or how
        many samples were read right, known everywhere: `loss = pipeline.sum_over_ranks(pipeline.step(x, y))`.

        All ranks call this. value: a number, or a tensor with one. Raises, on every rank, TypeError for anything else,
        ValueError if one makes another call.
        """
        complaint: Exception | None = None
        number = 0.0
        try:
            number = 0.0 if value is None else float(value)
        except (RuntimeError, TypeError, ValueError) as error:
            complaint = TypeError(f"rank {dist.get_rank()} was given {shown(value)}; give one number: {error}")
        self._meet(["a call of sum_over_ranks()"], complaint)
        total = torch.tensor(number, dtype=torch.float64, device=self.device)
        for group in (self.group, self.replicas):
            if group is not None:
                dist.all_reduce(total, group=group)
        return float(total)

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
        messages that keep `link` busy for their bytes. It can be drawn on one axis with `measured`.
        """
        micro_batches = min(self.schedule.micro_batches, samples)
        sent = [to_neighbour(self._boundaries[k + 1], k, self._ways) for k in range(self.schedule.stages - 1)]
        widest = max((one.bytes(-(-samples // micro_batches)) for one in sent), default=0)
        costs = replace(calibrate(measured), send=link.latency, link=link.seconds(widest))
        return simulate(self.schedule.first(samples), costs)

    def clock_uncertainty(self) -> float:
        """By how many seconds two ranks' clocks may disagree in `timeline`. All ranks must call this."""
        worst = torch.tensor(self._offset.uncertainty, dtype=torch.float64, device=self.device)
        dist.all_reduce(worst, dist.ReduceOp.MAX, group=self.group)
        return float(worst)

    @cached_property
    def _offset(self) -> Offset:
        """The clock's offset, measured once: all ranks ask for it at the same time."""
        return offset(self.group)

    def _compare(self, call: str) -> None:
        """With the first mini-batch, check that all ranks have built the same. call: the name of this rank's call,
        since another rank may make one that compares nothing."""
        self._goes_on()
        if self._built is not None:
            self._meet([f"a call of {call}()"])
            compare(self._built, self.group, self.replicas)
            self._built = None

    def _runs_what_was_built(self) -> None:
        not_sharded(self._mine.modules())
        self._shared_buffers.check()
        built, stages = iter(self._built_of), []
        for k, number in enumerate(self.balance):
            left = [layer for one in islice(built, number) if (layer := one()) is not None]
            stages.append([self._pieces[k]] if k in self._pieces else left)
        self._ties.check(holders(stages, self.schedule.device_of_stage))
        if (net := self._net()) is not None:
            as_built(net, self._built_of)

    def _agree(
        self,
        call: str,
        x: Held,
        check: Callable[[], None],
        note: bool = False,
        alike: Mapping[str, object] = MappingProxyType({}),
        looked: Mapping[str, object] = MappingProxyType({}),
    ) -> tuple[Boundary, bool]:
        """What goes into stage 0, and whether any rank has a `note`, if all ranks may go on; see `agree`.

        alike: what must be the same on all replicas, too. looked: what must be the same on all ranks of this one. All
        replicas are told what `_along` raises where a stage can't take samples of a new form.
        """
        complaint: Exception | None = None
        first = self._boundaries[0]
        try:
            if torch.is_autocast_enabled(self.device.type):
                raise RuntimeError(
                    "a pipeline of processes was called under torch.autocast, where a stage may send numbers of "
                    "another type than the next one expects; leave that, and give the layers a type to compute in: "
                    "net.bfloat16()"
                )
            self._runs_what_was_built()
            check()
            first = Boundary.of({MAIN: x})
        except (RuntimeError, TypeError, ValueError) as error:
            complaint = error
        common = [f"a call of {call}()", *(f"{name}={value}" for name, value in alike.items())]
        mine = [] if complaint else [f"{len(parts_of(x)[0])} samples of {first}"]
        mine += [f"{name}={value}" for name, value in looked.items()]
        noted, notes = note, (note, self._ties.changed)
        try:
            noted, changed = agree([*common, *mine], complaint, notes, self.group, _ONE_MINI_BATCH)
            if changed:
                self._ties.compare()
            if looked and self._ties.anywhere:
                self._ties.compare_copies(self._optimizer_checks.settings)
            self._along(first, samples_in(x))
        except (RuntimeError, TypeError, ValueError) as error:
            if self.replicas is None:
                raise
            complaint = error
        if self.replicas is not None:
            size = sum(buffer.nbytes for buffer in self._copied_buffers())
            common.append(f"buffers of {size} bytes")
            if self.experts and call == "step" and complaint is None:  # each op exchanges tokens with the same one
                common.append(f"{min(self.schedule.micro_batches, samples_in(x))} micro-batches")
            [noted] = agree(common, complaint, [noted], self.replicas, _ONE_CALL)
        return first, noted

    def _meet(self, call: list[str], complaint: Exception | None = None) -> None:
        """Raises ValueError, on every rank, if one is about to do something other than this `call`, or the complaint
        of some rank."""
        self._goes_on()
        for group in (self.group, self.replicas):
            if group is not None:
                try:
                    agree(call, complaint, [], group, _ONE_CALL)
                except (RuntimeError, TypeError, ValueError) as error:
                    complaint = error
        if complaint is not None:
            raise complaint

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Around what ranks do together: a rank where it fails can't go on, as the others are in the middle of it."""
        try:
            yield
        except BaseException as error:
            words = str(error).strip().splitlines()[:1]
            self._failed = ": ".join([type(error).__name__, *words])
            note_failure(error)
            raise

    def _goes_on(self) -> None:
        """Ends this rank if an earlier call has failed on it alone, whatever its program has caught."""
        if self._failed:
            again, self._refused = self._refused, True
            end_by_failure(
                f"rank {dist.get_rank()} can't go on after an error in an earlier call, {self._failed}; the others "
                "wait in the middle of it. Don't catch that error: with Ranks it ends all of them, with its sentence. "
                "Then go on from the last step that was saved",
                again,
            )

    def __call__(self, *given: Any, **named: Any) -> NoReturn:
        """Raises TypeError."""
        raise TypeError(
            "a pipeline of processes is not called as a net is, since a backward behind its output would not reach the "
            "other ranks; pipeline.step(x, y) trains, pipeline.predict(x) gives the output alone, and all ranks call it"
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Raises TypeError for copy, deepcopy, pickle and torch.save."""
        raise TypeError(
            "a pipeline of processes can't be copied or pickled, since it talks to the other ranks; make another one, "
            "Pipeline(copy.deepcopy(net), schedule, ...), before or after, or save the training with "
            "gpipe_edu.cluster.saving.save(folder, pipeline, optimizer, step)"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(no_such_name(name), name=name, obj=self)

    def _take_buffers(self) -> None:
        if self.replicas is not None:
            take_from_first(self._copied_buffers(), self.replicas)

    def _copied_buffers(self) -> list[Tensor]:
        return [buffer for name, buffer in self.named_buffers() if name not in self.experts]

    def _digest(self, x: Held, y: Value) -> str:
        """A digest of the mini-batch's numbers: ranks that draw different ones, as when dropout has drawn from the
        generator of a shuffle, would train with the inputs of one and the targets of another. It goes wrong in every
        step, so comparing some is enough: 1, 2, 4, 8, ...
        """
        try:
            return " ".join(digest(part)[:8] for part in (*parts_of(x), *tensors(y)))
        except (AttributeError, RuntimeError, TypeError, ValueError):
            return "none"  # what is wrong with them is about to be said

    def _check_fit(self, x: Held, y: Value, of: int | None) -> None:
        grad_is_enabled("predict(x)")
        self._check_samples(x)
        _is_given("y", y)
        is_a_target(y)
        samples = len(parts_of(x)[0])
        for part in tensors(y):
            if part.ndim == 0 or len(part) != samples:
                targets = len(part) if part.ndim else "one number"
                raise ValueError(f"x has {samples} samples and y {targets}; both must have the same number, at least 1")
        if any(part.requires_grad for part in parts_of(x)):
            raise ValueError("x requires a gradient, and a pipeline of processes gives none to its input: x.detach()")
        if of is not None and whole("of", of, 1) and self._reduction == "sum":
            raise ValueError(f'of={of} is what a mean is over, and this pipeline has reduction="sum"; leave it out')

    def _check_samples(self, x: Held) -> None:
        _is_given("x", x)
        parts = parts_of(travelling(x, "x"))
        can_be_cut(parts)
        sizes = [len(part) if part.ndim else 0 for part in parts]
        if len(set(sizes)) > 1 or sizes[0] == 0:
            raise ValueError(
                f"x has {sizes} samples; it needs at least one, and all its tensors the same number; micro-batches are "
                "cut here, so give the whole mini-batch"
            )
        found = Boundary.of({MAIN: x})
        if found.kinds() != self._example.kinds():  # which layers on the device "meta" do not notice
            raise ValueError(
                f"x has samples of {found}, and this pipeline's example {self._example}; shapes may differ"
            )

    def _along(self, first: Boundary, samples: int) -> list[Boundary]:
        """All boundaries if `first` goes into stage 0, in a mini-batch of so many samples. If that is new, each rank
        finds those behind its own stages, and tells all: no rank has the whole network. Raises, on every rank, what
        `behind` raises."""
        found = self._known.get(first)
        if found is None:
            found = [first]
            for k in range(self.schedule.stages):
                told: list[Any] = [None]
                home = self.schedule.device_of_stage[k]
                if home == self.rank:
                    try:
                        told = [behind(self._pieces[k], found[-1], self.device, samples)]
                    except (TypeError, ValueError) as error:
                        told = [error]
                dist.broadcast_object_list(told, group=self.group, group_src=home)
                if isinstance(told[0], Exception):
                    raise told[0]
                found.append(told[0])
            self._known.keep(first, found)
        return found

    def _heads(self, y: Value, sizes: Sizes, of: int | None) -> list[Head]:
        """Per micro-batch, the function that computes its share of the loss of all replicas."""

        def mean_over(here: float) -> float:
            counts = torch.tensor([here, sum(sizes)], dtype=torch.float64, device=self.device)
            if self.replicas is not None:
                dist.all_reduce(counts, group=self.replicas)
            everywhere, samples = counts.tolist()
            return float(everywhere if of is None else everywhere * of / samples)

        heads = make_heads(self._loss_fn, y, self._reduction, sizes, self.device, mean_over, checks=self._loss_checks)
        return heads if self._steps > 1 or self.schedule.devices == 1 else without_scaler_of_one_rank(heads)

    def _engine(self, first: Boundary, sizes: Sizes) -> Engine:
        """PyTorch's engine for mini-batches of this form and size: it must know shapes before it runs."""
        found = self._engines.get((first, sizes))
        if found is None:
            schedule = self.schedule.first(len(sizes))
            recomputed = defaultdict(set)
            for op in schedule.rows[self.rank]:
                if op.kind == "C":
                    recomputed[op.stage].add(op.micro_batch)
            skips = self._far_skips(self._boundaries, schedule.rows, sizes)
            stages = [
                Stage(
                    self._packed(k, self._boundaries),
                    k,
                    schedule.stages,
                    sizes,
                    self.device,
                    self.group,
                    frozenset(recomputed[k]),
                    skips,
                    self._clock,
                )
                for k in self._pieces
            ]
            found = Engine(stages, schedule, skips, self._clock)
            self._engines.keep((first, sizes), found)
        return found

    def _packed(self, k: int, between: Sequence[Boundary]) -> PackedStage:
        return PackedStage(self._pieces[k], between[k], between[k + 1], self._ways)

    def _far_skips(self, between: Sequence[Boundary], rows: Sequence[Sequence[Op]], sizes: Sizes) -> FarSkips:
        ways = far(self._ways)
        forms = {way.name: between[way.source + 1].only([way.name]) for way in ways}
        homes = self.schedule.device_of_stage
        return FarSkips(ways, forms, rows, homes, sizes, self.device, self.group, self._groups_of_skips)

    @cached_property
    def _groups_of_skips(self) -> list[Any]:
        """Made when the ranks have compared their networks: all or none of them ask for it."""
        homes = self.schedule.device_of_stage
        return own_groups(self.group) if any(homes[way.source] != homes[way.target] for way in far(self._ways)) else []


def _is_given(name: str, value: object) -> None:
    if value is None:
        raise TypeError(f"rank {dist.get_rank()} was given {name}=None; {_ONE_MINI_BATCH}")


def _described(schedule: Schedule) -> str:
    digest = hashlib.blake2b(repr(schedule.rows).encode(), digest_size=4).hexdigest()
    return f"{schedule.name or 'of its own'}, M={schedule.micro_batches} ({digest})"
