"""What only a real GPU can answer about the engine: each check prints what it found and returns whether it holds.

On one GPU, with several stages on streams of their own; what needs two is asked where there are two. Layers sleep for
a random time, forward and backward, so that a missing wait shows as a wrong number. The order of waits itself is tested
without a GPU, in tests/pytorch/pretend_gpu, which also runs these checks on its pretended one.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gpipe_edu.pytorch import GPipe, place

K, M = 4, 4
LOSS = nn.MSELoss()


class Sleeps(nn.Module):
    """Keeps its stream busy for a random time, up to about 5 ms, before its output is there and before its gradient."""

    def forward(self, x: Tensor) -> Tensor:
        """x, later."""
        return _Sleep.apply(x)


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        _doze(x)
        return x * 1

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        _doze(gradient)
        return gradient * 1


def _doze(tensor: Tensor) -> None:
    if tensor.device.type == place.GPU:
        with torch.cuda.device(tensor.device):
            torch.cuda._sleep(random.randrange(10_000_000))  # cycles


def gpu(index: int = 0) -> str:
    return f"{place.GPU}:{index}"


def mlp(width: int, layers: int, dropout: float = 0.0, sleeps: bool = False) -> nn.Sequential:
    """layers x (Linear, LayerNorm, ReLU, Dropout), the same weights at every call."""
    torch.manual_seed(0)
    blocks = (
        nn.Sequential(
            nn.Linear(width, width),
            nn.LayerNorm(width),
            nn.ReLU(),
            nn.Dropout(dropout),
            *([Sleeps()] if sleeps else []),
        )
        for _ in range(layers)
    )
    return nn.Sequential(*blocks)


def batch(samples: int = 13, width: int = 64) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    x, y = torch.randn(2, samples, width, dtype=torch.float64)
    return x, y


def gradients(model: nn.Module) -> list[Tensor]:
    return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]


def difference(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    """Largest difference as a share of the largest gradient."""
    largest = max(float(b.abs().max()) for b in theirs)
    return max(float((a.cpu() - b.cpu()).abs().max()) for a, b in zip(ours, theirs, strict=True)) / largest


def plain_gradients() -> list[Tensor]:
    """Of the whole batch, without a pipe, on the CPU."""
    net, (x, y) = mlp(64, 8).double(), batch()
    LOSS(net(x), y).backward()
    return gradients(net)


def pipe_of(devices: Sequence[str], **options: Any) -> GPipe:
    return GPipe(mlp(64, 8, sleeps=True).double(), K, M, devices=devices, **options)


def both_ways(pipe: GPipe, where: str) -> float:
    """The worse difference of `step` and the transparent way, for a batch that is on the device `where`."""
    (x, y), expected, worst = batch(), plain_gradients(), 0.0
    for transparent in (False, True):
        pipe.zero_grad()
        x, y = x.to(where), y.to(where)
        if transparent:
            output = pipe(x)
            LOSS(output, y.to(output.device)).backward()
        else:
            pipe.step(x, y, LOSS)
        worst = max(worst, difference(gradients(pipe), expected))
    return worst


def told(text: str, holds: bool) -> bool:
    print(f"{'ok    ' if holds else 'FAILED'} {text}", flush=True)
    return holds


def check_equality() -> bool:
    """float64 gradients of every schedule and mode, both ways, while every layer sleeps at random."""
    worst = 0.0
    for schedule in ("naive", "gpipe", "1f1b", "zero_bubble"):
        for checkpoint in ("always", "except_last", "never"):
            worst = max(worst, both_ways(pipe_of([gpu()], schedule=schedule, checkpoint=checkpoint), gpu()))
    return told(f"float64, 4 schedules x 3 modes x 2 ways, layers that sleep: differ by {worst:.1e}", worst < 1e-10)


def check_mixed_devices() -> bool:
    """CPU stages in front of, between and behind GPU stages, and a batch on either."""
    sets = (["cpu", gpu()], [gpu(), "cpu"], ["cpu", gpu(), gpu(), "cpu"])
    worst = max(both_ways(pipe_of(devices), where) for devices in sets for where in ("cpu", gpu()))
    return told(f"CPU stages beside GPU stages: differ by {worst:.1e}", worst < 1e-10)


def check_side_streams() -> bool:
    """Forward in one stream of the user, backward in another."""
    (x, y), expected, worst = batch(), plain_gradients(), 0.0
    x, y = x.to(gpu()), y.to(gpu())
    pipe = pipe_of([gpu()])
    for _ in range(3):
        pipe.zero_grad()
        with _side_stream():
            loss = LOSS(pipe(x), y)
        with _side_stream():
            loss.backward()
            worst = max(worst, difference(gradients(pipe), expected))
    return told(f"forward and backward in different streams: differ by {worst:.1e}", worst < 1e-10)


@contextmanager
def _side_stream() -> Iterator[None]:
    stream = torch.cuda.Stream(gpu())
    stream.wait_stream(torch.cuda.current_stream(gpu()))
    with torch.cuda.stream(stream):
        yield


def check_copies() -> bool:
    """copy.deepcopy of a pipe that has run."""
    pipe = pipe_of([gpu()])
    pipe.step(*batch(), LOSS)
    worst = max(both_ways(copy.deepcopy(pipe), gpu()), both_ways(pipe, gpu()))
    return told(f"a deep copy and its original: differ by {worst:.1e}", worst < 1e-10)


class Hungry(nn.Module):
    """Asks for more memory than any GPU has, once."""

    full = False

    def forward(self, x: Tensor) -> Tensor:
        """x, unless it is full."""
        if self.full:
            torch.empty(2**45, device=x.device)
        return x


def check_out_of_memory() -> bool:
    """A step that runs out of memory leaves none of its own behind, and the next one is right."""
    net, hungry = mlp(64, 8, sleeps=True).double(), Hungry()
    net[5].append(hungry)
    pipe = GPipe(net, K, M, devices=[gpu()])
    first = both_ways(pipe, gpu())
    pipe.zero_grad()
    torch.cuda.synchronize(gpu())
    before, note = torch.cuda.memory_allocated(gpu()), ""
    hungry.full = True
    try:
        pipe.step(*batch(), LOSS)
    except torch.OutOfMemoryError as error:
        note = error.__notes__[0]
    left, hungry.full = torch.cuda.memory_allocated(gpu()) - before, False
    worst = max(first, both_ways(pipe, gpu()))
    holds = "stage 2" in note and left == 0 and worst < 1e-10
    return told(f"out of memory ({note}): {left} bytes stay, and the next steps differ by {worst:.1e}", holds)


def check_random_state() -> bool:
    """Dropout under recompute: the same gradients as without, twice the same bits."""
    x, y = (part.float().to(gpu()) for part in batch(32))
    found = []
    for checkpoint in ("never", "always", "always"):
        pipe = GPipe(mlp(64, 8, dropout=0.5), K, M, checkpoint=checkpoint, devices=[gpu()])
        torch.manual_seed(2)
        pipe.step(x, y, LOSS)
        found.append(gradients(pipe))
    worst = difference(found[1], found[0])
    bitwise = all(map(torch.equal, found[1], found[2]))
    text = f"dropout: always against never {worst:.1e}; repeated runs bitwise equal: {bitwise}"
    return told(text, worst < 1e-5 and bitwise)


def check_timeline(devices: Sequence[str] | None = None) -> bool:
    """By its times no op starts before what it needs has ended, on whatever GPU that ran."""
    x, y = batch()
    pipe = pipe_of(devices or [gpu()], checkpoint="never")
    for _ in range(3):
        pipe.step(x, y, LOSS)
    timeline = pipe.timeline
    ends = {span.op: span.end for span in timeline.spans}
    needs = [(ends[need], span) for span in timeline.spans for need in pipe.schedule.needs(span.op)]
    early = max(end - span.start for end, span in needs)
    text = (
        f"timeline of {timeline.makespan * 1e3:.1f} ms: no op starts more than {max(early, 0) * 1e6:.0f} us too early"
    )
    return told(text, timeline.makespan > 0 and early < 2e-4)


def check_several_gpus() -> bool:
    """Equality, memory and timelines over all GPUs there are."""
    count = torch.cuda.device_count()
    if count < 2:
        return told("several GPUs: not asked, there is one", True)
    every = [gpu(index) for index in range(count)]
    worst = max(both_ways(pipe_of(every), where) for where in ("cpu", gpu(0), gpu(1)))
    worst = max(worst, both_ways(pipe_of([gpu(1), "cpu", gpu(0)]), gpu(1)))
    return told(f"{count} GPUs: differ by {worst:.1e}", worst < 1e-10) and check_timeline(every)


CHECKS: Sequence[Callable[[], bool]] = (
    check_equality,
    check_mixed_devices,
    check_side_streams,
    check_copies,
    check_out_of_memory,
    check_random_state,
    check_timeline,
    check_several_gpus,
)
