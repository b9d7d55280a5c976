"""Where a worker's ops run, and how values get there: plain CPU threads, or CUDA streams.

A CUDA kernel is only queued by the thread that launches it, so streams need what threads get from their inboxes: the
receiver's stream waits for the event that the sender's stream passed after producing a value. Copies run on streams of
their own, so that they overlap with compute, and `record_stream` keeps the allocator from handing out memory that
another stream still reads. Where the host itself reads or writes, the host waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .guards import gpus_are_there
from .values import Value

GPU = "cuda"
"""The type of a GPU's device, as PyTorch calls it."""


class Message(NamedTuple):
    """A value or its gradients on their way: tensors (None: no gradient), whether they came as a tuple, and the CUDA
    events after which they are there (none: already)."""

    tensors: Sequence[Tensor | None]
    several: bool
    ready: Sequence[Any] = ()

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
        """Pack what was just computed here, to send it."""
        return wrap(value)

    def unpack(self, message: Message) -> Message:
        """The message with its tensors on this device, safe to use here. What requires a gradient still does."""
        for event in message.ready:
            event.synchronize()
        arrived = [None if tensor is None else move(tensor, self.device) for tensor in message.tensors]
        return Message(arrived, message.several)

    def begin(self) -> None:
        """Called by the user's thread before a run: this place waits for all that the thread has queued so far, such as
        work on the weights, or on gradients that it has released since."""

    def finish(self) -> None:
        """Called by the user's thread after a run: it waits until everything computed here is done."""

    def zero(self) -> Any:
        """The moment of the call, with work perhaps still queued here; to be given to `seconds` as its start."""
        return perf_counter()

    def now(self) -> Any:
        """The moment when everything queued here is done; to be given to `seconds`."""
        return perf_counter()

    def seconds(self, start: Any, moment: Any) -> float:
        """The time from `start` to `moment`."""
        return float(moment - start)


class CudaPlace(Place):
    """A compute stream of its own on one GPU, which may have several such places; and streams for what arrives."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.compute, self._idle = _stream(device), _stream(device)
        self._copies: dict[torch.device, list[Any]] = {}

    def __reduce__(self) -> tuple[type[CudaPlace], tuple[torch.device]]:
        return CudaPlace, (self.device,)  # a copy of a pipe has streams of its own

    def here(self) -> AbstractContextManager[Any]:
        return torch.cuda.stream(self.compute)

    def pack(self, value: Value | Sequence[Tensor | None]) -> Message:
        return wrap(value)._replace(ready=[torch.cuda.current_stream(self.device).record_event()])

    def unpack(self, message: Message) -> Message:
        for event in message.ready:
            self.compute.wait_event(event)
        arrived = [tensor if tensor is None else self._take(tensor, message.ready) for tensor in message.tensors]
        return message._replace(tensors=arrived)

    def _take(self, sent: Tensor, ready: Sequence[Any]) -> Tensor:
        if sent.device == self.device:
            sent.record_stream(self.compute)
            return sent
        streams = self._streams_from(sent.device)
        for stream in streams:
            for event in ready:
                stream.wait_event(event)
        with in_streams(streams):
            here = move(sent, self.device)
        if sent.device.type == GPU:
            sent.record_stream(streams[0])
        here.record_stream(self.compute)
        self.compute.wait_stream(streams[-1])
        return here

    def _streams_from(self, source: torch.device) -> list[Any]:
        # PyTorch copies on the current stream of the GPU that sends; the current one of the GPU that receives waits for
        # it. So each end has a stream for this, with another pair for each source: a copy from the host, for which the
        # host waits, must not queue behind one that waits for a GPU.
        if source not in self._copies:
            ends = (source, self.device) if source.type == GPU else (self.device,)
            self._copies[source] = [_stream(end) for end in ends]
        return self._copies[source]

    def begin(self) -> None:
        self.compute.wait_stream(torch.cuda.current_stream(self.device))

    def finish(self) -> None:
        torch.cuda.current_stream(self.device).wait_stream(self.compute)

    def zero(self) -> Any:
        return _record_event(self._idle)

    def now(self) -> Any:
        return _record_event(torch.cuda.current_stream(self.device))

    def seconds(self, start: Any, moment: Any) -> float:
        for event in (start, moment):
            event.synchronize()
        return float(start.elapsed_time(moment)) / 1e3


def make_places(devices: Sequence[torch.device | str] | None, count: int) -> list[Place]:
    """A place for each of `count` workers, on `devices` in turn; by default on every GPU, or else on the CPU.

    Raises ValueError for an empty list, a device that is neither CPU nor CUDA, or a GPU that is not there.
    """
    if devices is None:
        devices = [f"{GPU}:{i}" for i in range(usable_gpus())] or ["cpu"]
    if isinstance(devices, (str, torch.device)):
        raise ValueError(f"devices is {devices!r}; it must be a list, such as ['{devices}']")
    if not devices:
        raise ValueError("devices is empty; give at least one, such as ['cpu'], or leave it out")
    try:
        chosen = [torch.device(device) for device in devices]
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"devices is {list(devices)!r}; PyTorch says: {str(error).splitlines()[0]}") from None
    for device in chosen:
        if device.type not in ("cpu", GPU):
            raise ValueError(f"devices has {str(device)!r}; the engine runs on cpu and cuda")
    gpus_are_there([device for device in chosen if device.type == GPU], usable_gpus())
    full = [_as_tensors_say(device) for device in chosen]
    places = (full[index % len(full)] for index in range(count))
    return [CudaPlace(device) if device.type == GPU else Place(device) for device in places]


def _as_tensors_say(device: torch.device) -> torch.device:
    """The device as tensors name theirs: the CPU has no number, and "cuda" alone means the current one."""
    if device.type == "cpu":
        return torch.device("cpu")
    return device if device.index is not None else torch.device(GPU, torch.cuda.current_device())


def usable_gpus() -> int:
    """How many GPUs PyTorch can use. With a driver that is too old, it counts them but cannot use any."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def wait_for_gpus() -> None:
    """Wait until every GPU has done all queued work, as is necessary before reading the host's clock."""
    for index in range(usable_gpus()):
        torch.cuda.synchronize(index)


def fetch(message: Message) -> Message:
    """The message, after `finish`, for the user's own thread and streams."""
    for tensor in message.tensors:
        if tensor is not None and tensor.device.type == GPU:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))
    return message


def outside(value: Value | Sequence[Tensor | None]) -> Message:
    """A message from the user's own thread and streams."""
    message = wrap(value)
    streams = current_streams(tensor.device for tensor in message.tensors if tensor is not None)
    return message._replace(ready=[stream.record_event() for stream in streams])


def current_streams(devices: Iterable[torch.device]) -> list[Any]:
    """The stream of this thread on each GPU among `devices`."""
    return [torch.cuda.current_stream(device) for device in dict.fromkeys(devices) if device.type == GPU]


@contextmanager
def in_streams(streams: Iterable[Any]) -> Iterator[None]:
    """Around what runs with each of `streams` as the current one of its GPU."""
    with ExitStack() as around:
        for stream in streams:
            around.enter_context(torch.cuda.stream(stream))
        yield


def move(tensor: Tensor, device: torch.device) -> Tensor:
    """`tensor`, without its graph, on `device`; it still requires a gradient if it did. Uses the current streams."""
    if tensor.device == device:
        return tensor
    # Only streams wait for a non-blocking copy; the host would read too early, or change its source.
    between_gpus = tensor.device.type == device.type == GPU
    return tensor.detach().to(device, non_blocking=between_gpus).requires_grad_(tensor.requires_grad)


def _stream(device: torch.device) -> Any:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _record_event(stream: Any) -> Any:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record(stream)
    return event
