"""Where a worker's ops run, and how values get there: plain CPU threads, or CUDA streams.

A CUDA kernel is only queued by the thread that launches it, so streams need what threads get from their inboxes: the
receiver's stream waits for the event that the sender's stream passed after producing a value. Copies between GPUs run
on a stream of their own, so that they overlap with compute, and `record_stream` keeps the allocator from handing out
memory that another stream still reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .values import Value


class Message(NamedTuple):
    """A value or its gradients on their way: tensors (None: no gradient), whether they came as a tuple, and the CUDA
    event after which they are there (None: already)."""

    tensors: Sequence[Tensor | None]
    several: bool
    ready: Any = None

    def value(self) -> Value:
        """The tensors in the form they came in."""
        there = tuple(tensor for tensor in self.tensors if tensor is not None)
        return there if self.several else there[0]


def wrap(value: Value | Sequence[Tensor | None]) -> Message:
    """A message for `value` that is there already."""
    return Message((value,), False) if isinstance(value, Tensor) else Message(value, True)


class Place:
    """A CPU thread: values are there when the message is, and the clock is the machine's."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def here(self) -> AbstractContextManager[Any]:
        """Around everything that runs in this place."""
        return nullcontext()

    def pack(self, value: Value | Sequence[Tensor | None]) -> Message:
        """For sending what was just computed here."""
        return wrap(value)

    def unpack(self, message: Message) -> Message:
        """The message with its tensors on this device, safe to use here. What requires a gradient still does."""
        return Message([_move(tensor, self.device) for tensor in message.tensors], message.several)

    def begin(self) -> None:
        """Called by the user's thread before a step: what it has computed so far, the weights above all, is there."""

    def finish(self) -> None:
        """Called by the user's thread after a step: what was computed here is there."""

    def now(self) -> Any:
        """A moment, to be given to `seconds`."""
        return perf_counter()

    def seconds(self, start: Any, moment: Any) -> float:
        """From `start` to `moment`."""
        return float(moment - start)


class CudaPlace(Place):
    """A compute stream and a copy stream of its own on one GPU, which may have several such places."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.compute, self.copies = torch.cuda.Stream(device), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def here(self) -> AbstractContextManager[Any]:
        return torch.cuda.stream(self.compute)

    def pack(self, value: Value | Sequence[Tensor | None]) -> Message:
        return wrap(value)._replace(ready=torch.cuda.current_stream(self.device).record_event())

    def unpack(self, message: Message) -> Message:
        stays = all(tensor is None or tensor.device == self.device for tensor in message.tensors)
        stream = self.compute if stays else self.copies
        if message.ready is not None:
            stream.wait_event(message.ready)
        with torch.cuda.stream(stream):
            arrived = [_move(tensor, self.device) for tensor in message.tensors]
        for sent, here in zip(message.tensors, arrived, strict=True):
            if sent is not None and sent.is_cuda:
                sent.record_stream(stream)
            if here is not None:
                here.record_stream(self.compute)
        self.compute.wait_stream(stream)
        return message._replace(tensors=arrived)

    def begin(self) -> None:
        self.compute.wait_stream(torch.cuda.current_stream(self.device))

    def finish(self) -> None:
        torch.cuda.current_stream(self.device).wait_stream(self.compute)

    def now(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def seconds(self, start: Any, moment: Any) -> float:
        moment.synchronize()
        return float(start.elapsed_time(moment)) / 1e3


def make_places(devices: Sequence[torch.device | str] | None, count: int) -> list[Place]:
    """A place for each of `count` workers, on `devices` in turn; by default on every GPU, or else on the CPU.

    Raises ValueError for an empty list or a device that is neither CPU nor CUDA.
    """
    if devices is None:
        devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())] or ["cpu"]
    if isinstance(devices, (str, torch.device)):
        raise ValueError(f"devices is {devices!r}; it must be a list, such as ['{devices}']")
    if not devices:
        raise ValueError("devices is empty; give at least one, such as ['cpu'], or leave it out")
    try:
        chosen = [torch.device(device) for device in devices]
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"devices is {list(devices)!r}; PyTorch says: {str(error).splitlines()[0]}") from None
    for device in chosen:
        if device.type not in ("cpu", "cuda"):
            raise ValueError(f"devices has {str(device)!r}; the engine runs on cpu and cuda")
    # "cuda" alone means the current one; a number makes devices comparable with those of tensors.
    full = [torch.device("cuda", torch.cuda.current_device()) if str(d) == "cuda" else d for d in chosen]
    places = (full[index % len(full)] for index in range(count))
    return [CudaPlace(device) if device.type == "cuda" else Place(device) for device in places]


def fetch(message: Message) -> Message:
    """The message, its tensors safe to use in the user's own thread and stream."""
    for tensor in message.tensors:
        if tensor is not None and tensor.is_cuda:
            stream = torch.cuda.current_stream(tensor.device)
            stream.wait_event(message.ready)
            tensor.record_stream(stream)
    return message


def outside(value: Value | Sequence[Tensor | None]) -> Message:
    """A message from the user's own thread and stream."""
    message = wrap(value)
    cuda = next((tensor for tensor in message.tensors if tensor is not None and tensor.is_cuda), None)
    return message if cuda is None else message._replace(ready=torch.cuda.current_stream(cuda.device).record_event())


def _move(tensor: Tensor | None, device: torch.device) -> Tensor | None:
    if tensor is None or tensor.device == device:
        return tensor
    return tensor.detach().to(device, non_blocking=True).requires_grad_(tensor.requires_grad)
