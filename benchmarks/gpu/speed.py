"""Speed on one GPU: a step with 1, 2 and 4 stages beside plain accumulation over the same micro-batches."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.gpu.findings import Findings
from benchmarks.gpu.ops import LOSS, batch, gpu, layers, seconds, width_for
from benchmarks.gpu.sizes import Sizes
from benchmarks.measuring import in_turn, spread
from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.place import wait_for_gpus

PLAIN = "accumulation"
MOST = {(1, 1.0): 3, (1, 0.1): 8}
"""Percent that a step may take beyond accumulation, by stages and milliseconds of an op."""
MOST_TWO = 5
"""The same for two stages, however long an op is."""


def run(found: Findings, sizes: Sizes) -> None:
    for duration in sizes.durations:
        width = width_for(duration, sizes.width)
        found.figure(f"ops of {duration:g} ms", f"float32 products of {width} x {width}")
        for stages in (1, 2, 4):
            compare(found, sizes, duration, width, stages)


def compare(found: Findings, sizes: Sizes, duration: float, width: int, stages: int) -> None:
    """All ways to make one step, in turn. A step of long ops has fewer, so that it ends."""
    micro_batches = 8 if duration <= 1 else 4
    where = f"{stages} stage{'s' * (stages > 1)}, ops of {duration:g} ms, M = {micro_batches}"
    try:
        variants = ways(width, stages, micro_batches)
        in_turn(variants, 1)
        once = seconds(lambda: in_turn(variants, 1))
        times = in_turn(variants, max(sizes.rounds, min(31, int(sizes.seconds / once))))
    except torch.OutOfMemoryError:
        found.not_asked(where, "the memory of this GPU is too small")
        return
    finally:
        variants = {}
        torch.cuda.empty_cache()  # what is kept for the streams of these pipes, which no other pipe would use
    beyond = {
        name: 100 * (statistics.median(t / plain for t, plain in zip(each, times[PLAIN], strict=True)) - 1)
        for name, each in times.items()
    }
    for name, each in times.items():
        more = "" if name == PLAIN else f", {beyond[name]:+.1f} %"
        found.figure(f"{where}: {name}", f"{spread(each).strip()} ms{more}")
    for name, most in asked_for(stages, duration).items():
        found.bar(f"beyond accumulation: {where}, {name}", beyond[name], most, " %", timed=True)


def asked_for(stages: int, duration: float) -> dict[str, float]:
    """What is judged, and the most that it may take beyond accumulation."""
    if stages == 2:
        return {"gpipe, never": MOST_TWO, "1f1b, never": MOST_TWO}
    most = MOST.get((stages, duration))
    return {"gpipe, never": most} if most else {}


def ways(width: int, stages: int, micro_batches: int) -> dict[str, Callable[[], None]]:
    """Steps on one net, whose weights all share, each until the GPU is idle."""
    net, (x, y) = layers(width, stages), batch(width, micro_batches)

    def accumulate() -> None:
        for piece, target in zip(x.chunk(micro_batches), y.chunk(micro_batches), strict=True):
            (LOSS(net(piece), target) / micro_batches).backward()

    found: dict[str, Callable[[], object]] = {PLAIN: accumulate}
    for schedule, mode in (("gpipe", "never"), ("1f1b", "never"), ("zero_bubble", "never"), ("gpipe", "always")):
        pipe = GPipe(net, stages, micro_batches, schedule=schedule, checkpoint=mode, devices=[gpu()])
        found[f"{schedule}, {mode}"] = lambda pipe=pipe: pipe.step(x, y, LOSS)
    for mode in ("never", "always"):
        if other := torchgpipe(net, stages, micro_batches, mode):
            found[f"torchgpipe, {mode}"] = lambda other=other: LOSS(other(x), y).backward()

    def whole(work: Callable[[], object]) -> None:
        net.zero_grad()
        work()
        wait_for_gpus()

    return {name: lambda work=work: whole(work) for name, work in found.items()}


def torchgpipe(net: nn.Sequential, stages: int, micro_batches: int, mode: str) -> nn.Module | None:
    """The same by torchgpipe, if it is there."""
    try:
        from torchgpipe import GPipe as TorchGPipe
    except ModuleNotFoundError:
        return None
    return TorchGPipe(net, [1] * stages, devices=[gpu()] * stages, chunks=micro_batches, checkpoint=mode)
