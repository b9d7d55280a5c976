"""One mini-batch on its way through the pipeline: cut, fed in, run, and joined again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gpipe_edu.schedule import Op, Schedule

from . import torch_private
from .guards import are_alike, depends_on_something, has_memory
from .interpreter import Address, Interpreter
from .ledger import Allocator, Ledger
from .losses import LossFunction
from .place import CudaPlace, Message, Place, current_streams, fetch, in_streams, move, outside
from .randomness import Randomness
from .skip import Way
from .stage import OUTPUT, Head, Stage, StepState, leaf
from .thread_context import Modes, Surroundings, thread_is_watched
from .values import Value, change, sizes_of, tensors
from .weights import Weights, hand_over
from .workers import Workers


class MiniBatchRun:
    """A mini-batch cut into `pieces`, and the state that its step shares; `peaks`, `gradient_bytes`: per device, if
    measured.

    return_outputs: the last layer's outputs are returned, too, where heads turn them into losses. alone: one worker
    runs everything, one op after another.
    """

    def __init__(
        self,
        pieces: Sequence[Value],
        schedule: Schedule,
        stages: Sequence[Stage],
        ways: Sequence[Way],
        places: Sequence[Place],
        workers: Workers,
        *,
        trains: bool,
        heads: Sequence[Head] = (),
        loss_fn: LossFunction | None = None,
        return_outputs: bool = False,
        measure_memory: bool = False,
        accumulate_in_fp32: bool = True,
        alone: bool = False,
    ) -> None:
        self.alone = alone
        if return_outputs:
            ways = [*ways, Way(OUTPUT, len(stages) - 1, len(stages))]
        self._last_way = len(ways) - 1
        self.schedule, self.stages, self.places, self.workers = schedule, stages, places, workers
        self.sizes = sizes_of(pieces)
        self.shapes = {tuple(part.shape) for piece in pieces for part in tensors(piece)}
        self._output_sizes: list[list[int]] = []  # per output tensor, its rows in each micro-batch
        self.has_gradient: list[bool] = []  # per output tensor
        self.on_cuda = any(isinstance(place, CudaPlace) for place in places)
        self._input_devices = [part.device for part in tensors(pieces[0])]
        self._streams = current_streams([*(place.device for place in places), *self._input_devices])
        homes = schedule.device_of_stage
        self._meters = [self._meter(device) for device in range(len(places))] if measure_memory else []
        self.peaks: list[int] = []
        self.gradient_bytes: list[int] = []
        of_stage = {k: self._meters[device] for k, device in homes.items()} if measure_memory else {}
        trained = stages if trains else ()
        self.weights = Weights(
            (stage.layers for stage in trained),
            (stage.device for stage in trained),
            accumulate_in_fp32=accumulate_in_fp32,
        )
        self._modes = Modes(stage.layers for stage in stages if trains and not heads)
        self.randomness = Randomness([stage.layers for stage in stages], loss_fn)
        step = StepState(
            trains=trains,
            rematerializes=schedule.needs.rematerializes if trains else lambda m, k: False,
            autocasts=_autocasts(),
            surroundings=Surroundings(),
            randomness=self.randomness,
            heads=heads,
            returns_outputs=return_outputs,
            ledgers={k: meter for k, meter in of_stage.items() if isinstance(meter, Ledger)},
        )
        self._begin()
        self.interpreter = Interpreter(stages, ways, places, homes, step, self.sizes)
        # A tensor made in inference mode has no version counter, by which a stage notices a change in place.
        with torch.inference_mode(False):
            for m, piece in enumerate(pieces):
                self._post(0, "F", m, 0, change(leaf, piece))

    def go(self, wanted: Callable[[Op], bool]) -> None:
        """Run the wanted ops of every row, each row on its worker."""
        try:
            with self.weights.in_place():
                # Inside a backward this may be the autograd thread of a GPU: in a custom Function, or in a hook. The
                # workers' own backwards would need that very thread, so waiting for them here would never end. But
                # from this thread a backward may be called again, and since it only queues kernels, the GPU still
                # overlaps stages.
                if thread_is_watched() or (self.on_cuda and in_backward()):
                    self._one_by_one(wanted)
                else:
                    jobs, around = self._jobs(wanted), Surroundings()
                    self.workers.run([partial(around.run, job) for job in jobs], self.interpreter.exchange.abort)
        except BaseException:
            self.interpreter.let_go()
            self.weights.let_go()
            with suppress(Exception):  # a GPU that has failed fails again, and the first error is the one to raise
                self._finish()
            raise
        self._finish()

    def as_in_forward(self) -> AbstractContextManager[None]:
        """Around a backward: in the streams of the forward, as autograd does for the single device it knows of."""
        return in_streams(self._streams)

    def outputs(self) -> list[Value]:
        """The outputs of the last stage, for every micro-batch."""
        values = self._values(len(self.stages))
        rows = list(zip(*(tensors(value) for value in values), strict=True))
        self._output_sizes = [[part.shape[0] if part.dim() else 1 for part in parts] for parts in rows]
        self.has_gradient = [any(part.requires_grad for part in parts) for parts in rows]
        return values

    def outputs_beside_losses(self) -> list[Value]:
        """What the losses were computed from, for every micro-batch, detached."""
        return [change(Tensor.detach, value) for value in self._values(self._last_way)]

    def backward(self, gradients: Sequence[Tensor | None]) -> None:
        """Run everything but the forwards, given the gradients of the joined outputs."""
        cut = [
            [None] * len(sizes) if gradient is None else torch.split(gradient, sizes)
            for gradient, sizes in zip(gradients, self._output_sizes, strict=True)
        ]
        for m, pieces in enumerate(zip(*cut, strict=True)):
            self._post(len(self.stages) - 1, "G", m, len(self.stages), pieces)
        if any(op.kind in "RC" for row in self.schedule.rows for op in row):
            self.weights.check_unchanged()
        with self._modes.again():
            self._begin()
            self.go(lambda op: op.kind != "F")

    def input_gradients(self) -> list[Tensor | None]:
        """For every tensor of the input its gradient, joined, on the device of that tensor."""
        columns = zip(*(message.tensors for message in self._collect("G", 0)), strict=True)
        joined = zip(map(self._join, columns), self._input_devices, strict=True)
        return [None if gradient is None else move(gradient, device) for gradient, device in joined]

    def hand_over(self, x: Sequence[Tensor]) -> None:
        """After a whole schedule: pass all gradients on to the weights, and to what the input was computed from."""
        receivers: list[Tensor] = []
        gradients: list[Tensor | None] = []
        found = [*self.input_gradients(), *self.weights.gradients()]
        if self.weights.given:
            depends_on_something(found)
        for tensor, gradient in zip((*x, *self.weights.given), found, strict=True):
            if tensor.requires_grad and gradient is not None:
                receivers.append(tensor)
                gradients.append(gradient)
        del found, gradient  # autograd copies a gradient unless it holds the only reference
        hand_over(receivers, gradients)

    def _join(self, column: Sequence[Tensor | None]) -> Tensor | None:
        """None only if no micro-batch used that input; where some did, the others count as zero."""
        like = next((gradient for gradient in column if gradient is not None), None)
        if like is None:
            return None
        sizes = zip(column, self.sizes, strict=True)
        return torch.cat([like.new_zeros(n, *like.shape[1:]) if part is None else part for part, n in sizes])

    def _jobs(self, wanted: Callable[[Op], bool]) -> list[Callable[[], None]]:
        if self.alone:
            return [partial(self._one_by_one, wanted)]
        rows = [[op for op in row if wanted(op)] for row in self.schedule.rows]
        return [partial(self.interpreter.run_row, device, row) for device, row in enumerate(rows)]

    def _begin(self) -> None:
        for place in self.places:
            place.begin()

    def _finish(self) -> None:
        for place in self.places:
            place.finish()
        self.peaks[:] = [meter.peak for meter in self._meters]
        if self._meters:
            layers = map(self._layers_of, range(len(self.places)))
            self.gradient_bytes[:] = map(self.weights.gradient_bytes, layers)

    def _one_by_one(self, wanted: Callable[[Op], bool]) -> None:
        for device, op, _ in self.schedule.steps:
            if wanted(op):
                self.interpreter.run_row(device, [op], one_by_one=True)

    def _meter(self, device: int) -> Ledger | Allocator:
        place = self.places[device]
        if isinstance(place, CudaPlace):
            return Allocator(place.device)
        weights = [weight for layers in self._layers_of(device) for weight in layers.parameters()]
        has_memory(weights)
        return Ledger(weights)

    def _layers_of(self, device: int) -> list[nn.Module]:
        homes = self.schedule.device_of_stage
        return [stage.layers for stage in self.stages if homes[stage.index] == device]

    def _post(self, stage: int, kind: str, m: int, way: int, value: Any) -> None:
        inbox = self.interpreter.inbox_of_stage[stage]
        self.interpreter.exchange.send(inbox, Address(kind, m, way), outside(value))

    def _values(self, way: int) -> list[Value]:
        values = [message.value() for message in self._collect("F", way)]
        are_alike(values)
        return values

    def _collect(self, kind: str, way: int) -> list[Message]:
        exchange, inbox = self.interpreter.exchange, self.interpreter.outside
        return [fetch(exchange.receive(inbox, Address(kind, m, way))) for m in range(len(self.sizes))]


def in_backward() -> bool:
    """Whether this runs inside a backward that autograd has called."""
    return bool(torch_private.graph_task() != -1)


def _autocasts() -> list[Callable[[], torch.autocast]]:
    """The autocast settings of this thread, to be entered by others."""
    return [
        partial(torch.autocast, kind, torch.get_autocast_dtype(kind), cache_enabled=torch.is_autocast_cache_enabled())
        for kind in ("cpu", "cuda")
        if torch.is_autocast_enabled(kind)
    ]
