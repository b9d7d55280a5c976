"""What a worker does: its row of the schedule, op by op, taking values from its inbox and sending them on.

stage 0   F0 F1 F2          B2 B1 B0
stage 1      F0 F1 F2 B2 B1 B0            a row is run in order; waiting for a message is the bubble

Every worker has one inbox, a queue implemented in C. A worker that needs a message takes from its inbox until that
message comes and keeps the others for later. A failure is a message too, sent to all, so no worker waits forever. The
workers themselves note when each op started and ended: that is the measured timeline of a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple

import torch
from torch.profiler import record_function

from gpipe_edu.schedule import Op
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.timeline.opened.op_names import mark_of

from . import torch_private
from .guards import what_it_means
from .place import Message, Place
from .skip import Way
from .stage import Gradients, Stage, StepState, Values


class Address(NamedTuple):
    """What a message is: a value going forward ("F") or a gradient going back ("G"), its micro-batch and its way."""

    kind: str
    micro_batch: int
    way: int


class Aborted(Exception):
    """Another worker has failed."""


class Exchange:
    """The inboxes of one step, one per worker."""

    def __init__(self, workers: int) -> None:
        self._inboxes: list[SimpleQueue[tuple[Address | None, Any]]] = [SimpleQueue() for _ in range(workers)]
        self._waiting: list[dict[Address, Any]] = [{} for _ in range(workers)]
        self.aborted = False

    def send(self, worker: int, address: Address, value: Any) -> None:
        """Put a message into the inbox of `worker`."""
        self._inboxes[worker].put((address, value))

    def receive(self, worker: int, address: Address) -> Any:
        """The message at `address`, for `worker` only; waits until it is there. Raises Aborted after `abort`."""
        waiting = self._waiting[worker]
        while address not in waiting:
            arrived, value = self._inboxes[worker].get()
            if arrived is None:
                raise Aborted
            waiting[arrived] = value
        return waiting.pop(address)

    def abort(self) -> None:
        """Make every `receive`, waiting or to come, raise Aborted; workers that do not wait look at `aborted`."""
        self.aborted = True
        for inbox in self._inboxes:
            inbox.put((None, None))

    def let_go(self) -> None:
        """After a failure, when no worker runs any more: drop the messages that are left."""
        self._inboxes, self._waiting = [], []


class StepClock:
    """The clock of one step. All places of a device count from one start, and all devices start at one moment, within
    the microseconds it takes to ask for it, so that their spans fit together."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places
        self._starts: dict[torch.device, Any] = {}
        for place in places:
            if place.device not in self._starts:
                self._starts[place.device] = place.zero()
        self._notes: list[tuple[int, Op, Any, Any]] = []

    def note(self, device: int, op: Op, start: Any) -> None:
        """Note that `op` ends now on `device`; `start` is what `now()` of its place gave when it started."""
        self._notes.append((device, op, start, self._places[device].now()))

    def timeline(self, name: str) -> Timeline:
        """The ops noted so far, in seconds from the start of the first one."""
        spans = []
        for device, op, start, end in self._notes:
            place = self._places[device]
            zero = self._starts[place.device]
            spans.append(Span(device, op, place.seconds(zero, start), place.seconds(zero, end)))
        first = min(span.start for span in spans)
        moved = [Span(span.device, span.op, span.start - first, span.end - first) for span in spans]
        return Timeline(moved, len(self._places), name=name, source="measured", unit="s")


class Interpreter:
    """Runs the ops of one step, for all workers of the step. Stages -1 and K stand for the world outside. sizes: the
    samples of each micro-batch."""

    def __init__(
        self,
        stages: Sequence[Stage],
        ways: Sequence[Way],
        places: Sequence[Place],
        device_of_stage: dict[int, int],
        step: StepState,
        sizes: Sequence[int],
    ) -> None:
        self.stages, self.ways, self.places, self.step, self.sizes = stages, ways, places, step, sizes
        self.outside = len(places)
        self.inbox_of_stage = {**device_of_stage, -1: self.outside, len(stages): self.outside}
        self.exchange = Exchange(len(places) + 1)
        self.clock = StepClock(places)
        self.inputs = [[i for i, way in enumerate(ways) if way.target == k] for k in range(len(stages))]
        self.outputs = [[i for i, way in enumerate(ways) if way.source == k] for k in range(len(stages))]

    def run_row(self, device: int, ops: Iterable[Op], one_by_one: bool = False) -> None:
        """Run `ops` in order. If one fails, the other workers are woken and the exception names the op.

        one_by_one: this thread runs all devices' ops, and a profile then says so.
        """
        with self.places[device].here():
            for op in ops:
                if self.exchange.aborted:
                    return  # so a worker whose inputs are all there also stops after a failure
                try:
                    if torch_private.profiles():
                        with record_function(mark_of(op, one_by_one)):
                            self.run(device, op)
                    else:
                        self.run(device, op)
                except Aborted:
                    return
                except BaseException as error:
                    self.exchange.abort()
                    with suppress(Exception):  # the user's exception may not accept notes, and is raised all the same
                        error.add_note(f"in {op} on device {device}: stage {op.stage}, micro-batch {op.micro_batch}")
                        if meaning := what_it_means(error, self.sizes[op.micro_batch], sum(self.sizes)):
                            error.add_note(meaning)
                    raise

    def let_go(self) -> None:
        """After a failure, when no worker runs any more: drop the activations and messages that are left."""
        self.step.kept.clear()
        self.exchange.let_go()

    def run(self, device: int, op: Op) -> None:
        """One op: wait for its inputs, run it, send its outputs."""
        kind, m, k = op
        stage, step, now = self.stages[k], self.step, self.places[device].now
        if kind == "F":
            inputs = self._receive_values(device, m, k)
            start = now()
            outputs = stage.forward(step, m, inputs)
            self.clock.note(device, op, start)
            self._send_values(device, m, k, outputs)
        elif kind in "RW":
            start = now()
            (stage.recompute if kind == "R" else stage.weight_gradient)(step, m)
            self.clock.note(device, op, start)
        else:
            gradients = self._receive_gradients(device, m, k)
            start = now()
            if kind == "C":
                stage.recompute(step, m)
            back = (stage.input_gradient if kind == "I" else stage.backward)(step, m, gradients)
            self.clock.note(device, op, start)
            self._send_gradients(device, m, k, back)

    def _receive(self, device: int, kind: str, m: int, way: int) -> Message:
        return self.places[device].unpack(self.exchange.receive(device, Address(kind, m, way)))

    def _receive_values(self, device: int, m: int, k: int) -> Values:
        return {self.ways[i].name: self._receive(device, "F", m, i).value() for i in self.inputs[k]}

    def _receive_gradients(self, device: int, m: int, k: int) -> Gradients:
        if self.step.heads and k == len(self.stages) - 1:
            return {}  # the last stage's output is the loss, which needs none
        return {self.ways[i].name: self._receive(device, "G", m, i).tensors for i in self.outputs[k]}

    def _send_values(self, device: int, m: int, k: int, values: Values) -> None:
        for i in self.outputs[k]:
            message = self.places[device].pack(values[self.ways[i].name])
            self.exchange.send(self.inbox_of_stage[self.ways[i].target], Address("F", m, i), message)

    def _send_gradients(self, device: int, m: int, k: int, gradients: Gradients) -> None:
        for i in self.inputs[k]:
            message = self.places[device].pack(gradients[self.ways[i].name])
            self.exchange.send(self.inbox_of_stage[self.ways[i].source], Address("G", m, i), message)
