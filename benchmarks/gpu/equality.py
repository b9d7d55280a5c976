"""Equality: on one GPU, with a stream for each stage, all gradients are those of plain PyTorch.

Layers sleep for a random time, forward and backward, so that a missing wait shows as a wrong number. The order of waits
itself is tested without a GPU, in tests/pytorch/pretend_gpu.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.gpu.findings import Findings
from benchmarks.gpu.ops import LOSS, gpu
from benchmarks.gpu.sizes import Sizes
from gpipe_edu.pytorch import GPipe, Stash, Take, place

K, M = 4, 4
SCHEDULES = ("naive", "gpipe", "1f1b", "zero_bubble")
MODES = ("always", "except_last", "never")
EXACT = 1e-10
"""How far float64 may differ."""


class Sleeps(nn.Module):
    """Keeps its stream busy for a random time before its output is there and before its gradient."""

    cycles = 2_000_000
    """At most: about a millisecond."""

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
            torch.cuda._sleep(random.randrange(Sleeps.cycles))


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
    """Largest difference as a share of the largest gradient; infinite where one is not a number."""
    largest = max(float(b.abs().max()) for b in theirs)
    each = [float((a.cpu() - b.cpu()).abs().max()) for a, b in zip(ours, theirs, strict=True)]
    return max(each) / largest if all(map(math.isfinite, each)) else math.inf


def plain_gradients() -> list[Tensor]:
    """Of the whole batch, without a pipe, on the CPU."""
    net, (x, y) = mlp(64, 8).double(), batch()
    LOSS(net(x), y).backward()
    return gradients(net)


def pipe_of(devices: Sequence[str], **options: Any) -> GPipe:
    return GPipe(mlp(64, 8, sleeps=True).double(), K, M, devices=devices, **options)


def both_ways(pipe: GPipe, where: str, expected: Sequence[Tensor] = ()) -> float:
    """The worse difference of `step` and the transparent way, for a batch that is on the device `where`."""
    (x, y), expected, worst = batch(), expected or plain_gradients(), 0.0
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


def check_equality(found: Findings) -> None:
    """float64 gradients of every schedule and mode, both ways, while every layer sleeps at random."""
    for schedule in SCHEDULES:
        worst = max(
            both_ways(pipe_of([gpu()], schedule=schedule, checkpoint=checkpoint), gpu()) for checkpoint in MODES
        )
        found.bar(f"float64, {schedule}, 3 modes, 2 ways", worst, EXACT)


def check_mixed_devices(found: Findings) -> None:
    """CPU stages in front of, between and behind GPU stages, and a batch on either."""
    sets = (["cpu", gpu()], [gpu(), "cpu"], ["cpu", gpu(), gpu(), "cpu"])
    worst = max(both_ways(pipe_of(devices), where) for devices in sets for where in ("cpu", gpu()))
    found.bar("float64, CPU stages beside GPU stages", worst, EXACT)


def check_side_streams(found: Findings) -> None:
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
    found.bar("float64, forward and backward in different streams", worst, EXACT)


@contextmanager
def _side_stream() -> Iterator[None]:
    stream = torch.cuda.Stream(gpu())
    stream.wait_stream(torch.cuda.current_stream(gpu()))
    with torch.cuda.stream(stream):
        yield


def check_copies(found: Findings) -> None:
    """copy.deepcopy of a pipe that has run."""
    pipe = pipe_of([gpu()])
    pipe.step(*batch(), LOSS)
    worst = max(both_ways(copy.deepcopy(pipe), gpu()), both_ways(pipe, gpu()))
    found.bar("float64, a deep copy and its original", worst, EXACT)


def check_batch_norm(found: Findings) -> None:
    """Deferred BatchNorm under recompute: gradients and running statistics of the same pipe on the CPU."""
    parts = []
    for device in ("cpu", gpu()):
        net = nn.Sequential(*(part for layer in mlp(64, 4).double() for part in (layer, nn.BatchNorm1d(64).double())))
        pipe = GPipe(net, K, M, devices=[device], checkpoint="always", deferred_batch_norm=True)
        pipe.step(*batch(), LOSS)
        parts.append(gradients(pipe) + [each for name, each in pipe.named_buffers() if "running" in name])
    found.bar("float64, deferred BatchNorm, as on the CPU", difference(parts[1], parts[0]), EXACT)


def skipping() -> nn.Sequential:
    """A skip from the first stage to the last."""
    net = mlp(64, 8, sleeps=True).double()
    return nn.Sequential(net[0], Stash("far"), *net[1:7], Take("far", torch.add), net[7])


def without_skip(net: nn.Sequential, x: Tensor) -> Tensor:
    """The same by hand."""
    first = net[0](x)
    return net[9](net[2:8](first) + first)


def check_skips(found: Findings) -> None:
    """A skip past two stages."""
    (x, y), net = batch(), skipping()
    LOSS(without_skip(net, x), y).backward()
    worst = both_ways(GPipe(skipping(), K, M, devices=[gpu()]), gpu(), gradients(net))
    found.bar("float64, a skip past two stages", worst, EXACT)


def tied() -> nn.Sequential:
    """The first layer and the last have one weight."""
    net = mlp(64, 8, sleeps=True).double()
    net[7][0].weight = net[0][0].weight
    return net


def check_tied_weights(found: Findings) -> None:
    """A weight of two stages, on one GPU and with a CPU stage."""
    (x, y), net = batch(), tied()
    LOSS(net(x), y).backward()
    expected = gradients(net)
    worst = max(
        both_ways(GPipe(tied(), K, M, devices=devices), gpu(), expected) for devices in ([gpu()], [gpu(), "cpu"])
    )
    found.bar("float64, a weight of two stages", worst, EXACT)


def check_16_bits(found: Findings) -> None:
    """The gradients of bf16 weights are the fp32 sums of those of micro-batches, rounded once."""
    many = 64
    x, y = (part.bfloat16().to(gpu()) for part in batch(many))
    net = mlp(64, 8).bfloat16().to(gpu())
    sums = [torch.zeros_like(weight, dtype=torch.float32) for weight in net.parameters()]
    for piece, target in zip(x.chunk(many), y.chunk(many), strict=True):
        net.zero_grad()
        (LOSS(net(piece), target) / many).backward()
        for total, one in zip(sums, gradients(net), strict=True):
            total += one
    differ = []
    for in_fp32 in (True, False):
        pipe = GPipe(mlp(64, 8).bfloat16(), K, many, devices=[gpu()], checkpoint="never", accumulate_in_fp32=in_fp32)
        pipe.step(x, y, LOSS)
        differ.append(difference([gradient.float() for gradient in gradients(pipe)], sums))
    found.figure(f"bf16, added up in bf16, M = {many}", f"differs from fp32 sums by {differ[1]:.1e}")
    found.bar(f"bf16, added up in fp32, M = {many}", differ[0], 2**-7)


class Hungry(nn.Module):
    """Asks for more memory than any GPU has, once."""

    full = False

    def forward(self, x: Tensor) -> Tensor:
        """x, unless it is full."""
        if self.full:
            torch.empty(2**45, device=x.device)
        return x


def check_out_of_memory(found: Findings) -> None:
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
    found.check("out of memory", f"{left} bytes stay; {note}", "stage 2" in note and left == 0)
    found.bar("float64, steps before and after it", worst, EXACT)


def check_random_state(found: Findings) -> None:
    """Dropout under recompute: the same gradients as without, twice the same bits."""
    x, y = (part.float().to(gpu()) for part in batch(32))
    runs = []
    for checkpoint in ("never", "always", "always"):
        pipe = GPipe(mlp(64, 8, dropout=0.5), K, M, checkpoint=checkpoint, devices=[gpu()])
        torch.manual_seed(2)
        pipe.step(x, y, LOSS)
        runs.append(gradients(pipe))
    found.bar("fp32, dropout: recomputed against kept", difference(runs[1], runs[0]), 1e-5)
    bitwise = all(map(torch.equal, runs[1], runs[2]))
    found.check("dropout, repeated", f"bitwise equal: {bitwise}", bitwise)


def check_timeline(found: Findings, devices: Sequence[str] | None = None) -> None:
    """By its times no op starts before what it needs has ended, on whatever GPU that ran."""
    x, y = batch()
    pipe = pipe_of(devices or [gpu()], checkpoint="never")
    for _ in range(3):
        pipe.step(x, y, LOSS)
    timeline = pipe.timeline
    ends = {span.op: span.end for span in timeline.spans}
    needs = [(ends[need], span) for span in timeline.spans for need in pipe.schedule.needs(span.op)]
    early = max(end - span.start for end, span in needs)
    text = f"of {timeline.makespan * 1e3:.1f} ms; no op starts more than {max(early, 0) * 1e6:.0f} us too early"
    found.check(f"timeline, {len(set(pipe.devices))} GPUs", text, timeline.makespan > 0 and early < 2e-4)


CHECKS: Sequence[Callable[[Findings], None]] = (
    check_equality,
    check_mixed_devices,
    check_side_streams,
    check_copies,
    check_batch_norm,
    check_skips,
    check_tied_weights,
    check_16_bits,
    check_out_of_memory,
    check_random_state,
    check_timeline,
)


def run(found: Findings, sizes: Sizes) -> None:
    random.seed(0)
    Sleeps.cycles = sizes.cycles
    for check in CHECKS:
        check(found)
