"""GPipe: an nn.Sequential that trains as a pipeline, transparently or by a schedule of your own.

pipe = GPipe(net, partitions=4, micro_batches=8)
loss_fn(pipe(x), y).backward()            # like net, but each stage on its own device
loss = pipe.step(x, y, loss_fn)           # a whole schedule, forwards and backwards interleaved
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from operator import is_
from typing import Any, Literal, cast, overload

import torch
from torch import Tensor, nn

from gpipe_edu.base.validate import whole
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.recompute import with_kinds
from gpipe_edu.split import join_batch, split_batch
from gpipe_edu.timeline import Timeline

from .compiled import forms, is_compiled, outside_of_graphs
from .cut_net import choose_schedule, cut_net, group, layer_counts, layers_of
from .guards import (
    Turn,
    can_be_compiled,
    can_be_cut,
    can_be_deferred,
    first_derivative,
    grad_is_enabled,
    has_numbers,
    have_samples,
    in_their_places,
    known_words,
    no_script,
    not_sharded,
    one_input,
    one_layer_on_one_gpu,
    plain_sequential,
    runs_for_real,
    same_layers,
    same_number,
    stays_where_it_is,
)
from .interpreter import StepClock
from .loss_checks import LossChecks
from .losses import LossFunction, as_step_loss, make_heads
from .mini_batch import MiniBatchRun, in_backward
from .place import CudaPlace, make_places
from .shared_buffers import SharedBuffers, modules_of_several
from .skip import Way, skip_ways
from .stage import MAIN, Stage
from .time_first import samples_are_first
from .values import Value, not_in_pieces, sizes_of, tensors
from .weights import move_layers
from .workers import Workers


class GPipe(nn.Module):
    """`net` cut into `partitions` stages, run as a pipeline.

    net: an nn.Sequential; its layers are moved to their devices, its state_dict keys stay. partitions: K, the number
    of stages; not needed where balance is given. micro_batches: M; fewer samples are cut into one micro-batch each.
    balance: layers per stage, by default as even as possible. devices: one per row of the schedule, taken in turn if
    there are fewer; by default every CUDA device, else the CPU, with one thread per row. schedule: "naive", "gpipe",
    "1f1b", "zero_bubble" or a Schedule. checkpoint: "always", "except_last" (default) or "never": which micro-batches
    keep only their stage inputs and recompute the rest before backward; a Schedule says so itself.
    deferred_batch_norm: running statistics are updated once per mini-batch, from all its samples (see batchnorm.py).
    measure_memory: fill `peak_memory`. accumulate_in_fp32: the gradients of 16-bit weights are added up over
    micro-batches in fp32, and rounded once, for `.grad`. check_loss: warn of a loss that gives something else in
    micro-batches than for all samples (loss_checks.py). What a pipe refuses, and why: guards.py.

    Raises TypeError or ValueError for arguments that do not fit, ScheduleError for a schedule that cannot run.
    """

    # torch.jit would read these properties before it calls forward, which raises a clear error.
    __jit_unused_properties__ = ("schedule", "timeline", "peak_memory", "gradient_memory")

    def __init__(
        self,
        net: nn.Sequential,
        partitions: int | None = None,
        micro_batches: int | None = None,
        balance: Iterable[int] | None = None,
        devices: Sequence[torch.device | str] | None = None,
        schedule: str | Schedule = "gpipe",
        checkpoint: str | None = None,
        deferred_batch_norm: bool = False,
        measure_memory: bool = False,
        accumulate_in_fp32: bool = True,
        check_loss: bool = True,
        **other: Any,
    ) -> None:
        super().__init__()
        known_words(other, partitions, micro_batches)
        if balance is not None:
            balance = layer_counts(balance)
            partitions = len(balance) if partitions is None else partitions
        K, M = whole("partitions", partitions, 1), whole("micro_batches", micro_batches, 1)
        self._balance = tuple(map(len, cut_net(net, K, balance)))  # first, since a schedule for a mistyped K takes long
        self._schedule = choose_schedule(schedule, K, M, checkpoint)
        self._asked = schedule, checkpoint
        self._deferred = deferred_batch_norm
        self.training = net.training
        self._places = make_places(devices, self._schedule.devices)
        self._measure_memory = measure_memory
        self._accumulate_in_fp32 = accumulate_in_fp32
        self._loss_checks = LossChecks(check_loss, ", or compute it after the pipe: loss_fn(pipe(x), y).backward()")
        self._workers: Workers | None = None
        self._clock: StepClock | None = None
        self._peaks: Sequence[int] = ()
        self._gradient_bytes: Sequence[int] = ()
        # Sharing the dictionary of children makes parameters, state_dict keys, train() and eval() those of `net`.
        self._modules = net._modules  # type: ignore[assignment]
        self._net = [net]  # in a list, or nn.Module would register it as a child
        self._turn = Turn()
        self._make_stages()

    @outside_of_graphs
    @one_input
    def forward(self, x: Value) -> Value:
        """The output of `net` for x, tensors of shape (N, ...); its backward runs through the pipeline, too.

        Gradients go to `.grad` of weights and of x. Under no_grad no graph is built; in eval mode, as in training, it
        is, but nothing is recomputed. Raises what a layer raises, with a note that names stage, micro-batch and op.
        """
        trains = torch.is_grad_enabled()
        with self._running():
            run = self._start(x, trains)
            if not trains:
                return self._forward(run)
            # Autograd calls a Function's backward only if one of its inputs requires a gradient. That may be not a
            # parameter of a layer, but a tensor that it holds in another way.
            anchor = torch.empty(0, requires_grad=True)
            given = anchor, *tensors(x), *run.weights.given
            outputs: Value = _Pipeline.apply(self, run, *given)  # type: ignore[no-untyped-call]
            return outputs

    @overload
    def step(
        self,
        x: Value,
        y: Any,
        loss_fn: LossFunction,
        reduction: str | Sequence[float] = ...,
        *,
        return_outputs: Literal[True],
    ) -> tuple[Tensor, Value]: ...

    @overload
    def step(
        self,
        x: Value,
        y: Any,
        loss_fn: LossFunction,
        reduction: str | Sequence[float] = ...,
        *,
        return_outputs: Literal[False] = ...,
    ) -> Tensor: ...

    @outside_of_graphs
    def step(
        self,
        x: Value,
        y: Any,
        loss_fn: LossFunction,
        reduction: str | Sequence[float] = "mean",
        *,
        return_outputs: bool = False,
    ) -> Tensor | tuple[Tensor, Value]:
        """Run the whole schedule for one mini-batch, add the gradients to `.grad`, return the mini-batch's loss.

        x, y: tensors of shape (N, ...) or tuples of them. loss_fn: (output, target) -> a tensor with one value, for a
        micro-batch. reduction: "mean" if loss_fn averages over samples, so that micro-batch m counts n_m / N; "sum"
        if it sums; or one weight per micro-batch. return_outputs: return (loss, outputs), the outputs of the last layer
        joined and detached, shape (N, ...), for an accuracy say.

        Raises what a layer or loss_fn raises, with a note that names stage, micro-batch and op; the gradients that were
        there before are then unchanged.
        """
        grad_is_enabled()
        with self._running():
            run = self._start(x, True, return_outputs, loss_fn=loss_fn, y=y, reduction=reduction)
            try:
                with self._watched(run):
                    run.go(lambda op: True)
                outputs = join_outputs(run.outputs_beside_losses()) if return_outputs else None
            except BaseException:
                self._forget()
                raise
            loss = torch.stack([tensors(share)[0] for share in run.outputs()]).sum().detach()
            self._finish_forward(run)
        self._loss_checks.tell()
        run.hand_over(tensors(x))
        loss = as_step_loss(loss)
        return loss if outputs is None else (loss, outputs)

    @property
    def balance(self) -> tuple[int, ...]:
        """Layers per stage."""
        return self._balance

    @property
    def micro_batches(self) -> int:
        """M; a batch of fewer samples is cut into one micro-batch each."""
        return self._schedule.micro_batches

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """One per row of the schedule."""
        return tuple(place.device for place in self._places)

    @property
    def checkpoint(self) -> str | None:
        """The mode, or None where a Schedule itself says what is recomputed."""
        schedule, checkpoint = self._asked
        return None if isinstance(schedule, Schedule) else checkpoint or "except_last"

    def __len__(self) -> int:
        """The number of layers, which `pipe[i]` and a loop go through, as they do for the net."""
        return len(layers_of(self))

    def __getitem__(self, index: int) -> nn.Module:
        return layers_of(self)[index]

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(layers_of(self))

    @property
    def schedule(self) -> Schedule:
        """The schedule that runs, with its recompute ops."""
        return self._schedule

    @property
    def timeline(self) -> Timeline:
        """When every op of the last step ran, in measured seconds. Raises RuntimeError before the first step."""
        if self._clock is None:
            raise NotMeasured("nothing has run yet; call the pipeline or its step() first")
        return self._clock.timeline(self._schedule.name)

    @property
    def peak_memory(self) -> tuple[int, ...]:
        """Per device, the most bytes of saved activations in the last training step, stage inputs included.

        Counted as autograd saves them on a CPU; on CUDA the allocator's figure for the whole GPU. Raises RuntimeError
        before the first training step, or unless measure_memory=True was given.
        """
        return _measured(self._peaks)

    @property
    def gradient_memory(self) -> tuple[int, ...]:
        """Per device, the bytes of the weights' gradients that the last training step added up before it handed them
        over to `.grad`: 4 per number in a 16-bit weight, or 2 with accumulate_in_fp32=False.

        Not part of `peak_memory`, except on CUDA, whose figure has them. Raises RuntimeError as that does.
        """
        return _measured(self._gradient_bytes)

    def __getattr__(self, name: str) -> Any:
        # Python calls this after an AttributeError in a property, whose message is to be kept.
        found = getattr(type(self), name, None)
        return found.fget(self) if isinstance(found, property) and found.fget else super().__getattr__(name)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> GPipe:
        # This is how nn.Module moves and casts its weights, also those of the modules in it.
        stays_where_it_is(fn, self.devices)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call,no-any-return]

    def __prepare_scriptable__(self) -> None:
        no_script()

    def _make_stages(self) -> None:
        """Make the stages from the current layers: one may have been replaced since the last time."""
        self._layers = layers_of(self)
        same_number(sum(self._balance), len(self._layers))
        groups = group(self._layers, self._balance)
        skips = skip_ways(groups)
        self._ways = [*(Way(MAIN, k - 1, k) for k in range(len(groups) + 1)), *skips]
        self._compiles, self._compiled_for = any(map(is_compiled, self._layers)), set[Hashable]()
        if self._compiles:
            can_be_compiled(torch.__version__)
        has_numbers(self)
        homes = {k: self._places[device] for k, device in self._schedule.device_of_stage.items()}
        one_layer_on_one_gpu(groups, homes)
        move_layers([(layers, homes[k].device) for k, layers in enumerate(groups)])
        self._stages, read = [], modules_of_several(groups)
        for k, layers in enumerate(groups):
            stashes = [way.name for way in skips if way.source == k]
            last = k == len(groups) - 1
            self._stages.append(
                Stage(k, layers, homes[k].device, stashes=stashes, deferred=self._deferred, last=last, read=read)
            )

    def _plan(self, samples: int) -> Schedule:
        """The schedule for a batch of so many samples: "all but the last" means the last micro-batch that exists."""
        schedule, checkpoint = self._asked
        if samples >= self._schedule.micro_batches or isinstance(schedule, Schedule):
            return self._schedule.first(samples)
        return choose_schedule(schedule, self._schedule.stages, samples, checkpoint)

    def _start(self, x: Value, trains: bool, return_outputs: bool = False, **loss: Any) -> MiniBatchRun:
        runs_for_real(x)
        not_in_pieces(x, "the input")
        not_sharded(self.modules())
        for net in self._net:
            same_layers(plain_sequential(net), self)
        now = layers_of(self)
        if len(now) != len(self._layers) or not all(map(is_, now, self._layers)):
            self._make_stages()
        in_their_places((stage.layers, stage.device) for stage in self._stages)
        if self._deferred:
            can_be_deferred(self._layers)
        parts = tensors(x)
        can_be_cut(parts)
        sizes = [part.shape[0] if part.dim() else 0 for part in parts]
        if len(set(sizes)) > 1 or sizes[0] == 0:
            raise ValueError(
                f"the input has {sizes} samples; it needs at least one, and all its tensors the same number"
                + ("; micro-batches are cut here, so give the whole mini-batch" if len(sizes) > 1 else "")
            )
        schedule = self._plan(sizes[0])
        if trains and not self.training:
            schedule = with_kinds(schedule, {"R": "", "C": "B"})
        pieces = split_batch(x, schedule.micro_batches)
        home = self._stages[-1].device
        heads = make_heads(**loss, sizes=sizes_of(pieces), device=home, checks=self._loss_checks) if loss else ()
        if self._workers is None or not self._workers.alive:
            on_cpu = all(place.device.type == "cpu" for place in self._places)
            # Each gets an equal share of the cores, so that threads of matrix products do not compete.
            threads = max(1, torch.get_num_threads() // len(self._places)) if on_cpu else None
            self._workers = Workers(len(self._places), threads)
        alone = False
        if self._compiles:
            new = forms(pieces), trains, self.training
            alone = new not in self._compiled_for
            self._compiled_for.add(new)
        return MiniBatchRun(
            pieces,
            schedule,
            self._stages,
            self._ways,
            self._places,
            self._workers,
            trains=trains,
            heads=heads,
            loss_fn=loss.get("loss_fn"),
            return_outputs=return_outputs,
            measure_memory=self._measure_memory and trains and (self.training or bool(loss)),
            accumulate_in_fp32=self._accumulate_in_fp32,
            alone=alone,
        )

    def _running(self) -> AbstractContextManager[None]:
        # Inside a backward this may be the only autograd thread of a GPU, which the other run needs to finish.
        on_cuda = any(isinstance(place, CudaPlace) for place in self._places)
        return self._turn.take(() if self._workers is None else self._workers.threads, not (on_cuda and in_backward()))

    @contextmanager
    def _watched(self, run: MiniBatchRun) -> Iterator[None]:
        """Around forwards: what layers do there shows only now. Raises ValueError for what would be wrong."""
        shared = SharedBuffers([list(stage.layers) for stage in self._stages])
        with samples_are_first(self, run.shapes), shared.of_step():
            yield
        shared.check()

    def _forward(self, run: MiniBatchRun) -> Value:
        """All forwards; returns the joined output."""
        try:
            with self._watched(run):
                run.go(lambda op: op.kind == "F")
        except BaseException:
            self._forget()
            raise
        self._finish_forward(run)
        return join_outputs(run.outputs())

    def _finish_forward(self, run: MiniBatchRun) -> None:
        for stage in self._stages:
            stage.batch_norms.commit()
        run.randomness.finish()
        # Not the run itself: it would keep the step's tensors.
        self._clock = run.interpreter.clock
        if run.peaks:
            self._peaks, self._gradient_bytes = run.peaks, run.gradient_bytes

    def _forget(self) -> None:
        for stage in self._stages:
            stage.batch_norms.forget()

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()  # type: ignore[no-untyped-call]
        # A copy has no threads and no measurements of its own yet.
        return {**state, "_workers": None, "_clock": None, "_peaks": (), "_gradient_bytes": (), "_net": []}


class NotMeasured(RuntimeError, AttributeError):
    """A figure that no run has measured yet; `hasattr`, which tools call, gives False for it."""


def _measured(figures: Sequence[int]) -> tuple[int, ...]:
    if not figures:
        raise NotMeasured("memory was not measured; give measure_memory=True to GPipe and run a training step")
    return tuple(figures)


class _Pipeline(torch.autograd.Function):
    """The whole pipeline as one node of the user's graph."""

    @staticmethod
    def forward(ctx: Any, pipe: GPipe, run: MiniBatchRun, anchor: Tensor, *inputs: Tensor) -> Value:
        ctx.pipe, ctx.run = pipe, run
        ctx.set_materialize_grads(False)
        outputs = pipe._forward(run)
        # As on one device, an output that depends on nothing trainable requires no gradient: that of a frozen pipe.
        plain = zip(tensors(outputs), run.has_gradient, strict=True)
        ctx.mark_non_differentiable(*(part for part, has_gradient in plain if not has_gradient))
        return outputs

    @staticmethod
    @outside_of_graphs
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        first_derivative(gradients)
        run, ctx.run = ctx.run, None
        if run is None:
            raise RuntimeError(
                "this output's backward has run already, and its activations are gone; run forward again"
            )
        with ctx.pipe._running(), run.as_in_forward():
            run.backward(gradients)
            return (None, None, None, *run.input_gradients(), *run.weights.gradients())


def join_outputs(outputs: Sequence[Value]) -> Value:
    """The outputs of all micro-batches as one. Raises ValueError for outputs without samples."""
    have_samples(part for output in outputs for part in tensors(output))
    return cast(Value, join_batch(outputs))
