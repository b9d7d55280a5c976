"""Two GPUs, where there are two: equality, copies between them, and how much their stages overlap."""

from __future__ import annotations

import statistics

import torch

from benchmarks.gpu.equality import EXACT, both_ways, check_timeline, pipe_of
from benchmarks.gpu.findings import Findings
from benchmarks.gpu.ops import LOSS, batch, gpu, layers, seconds, width_for
from benchmarks.gpu.sizes import Sizes
from benchmarks.measuring import in_turn
from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.place import usable_gpus, wait_for_gpus

M = 8


def run(found: Findings, sizes: Sizes) -> None:
    count = usable_gpus()
    if count < 2:
        found.not_asked("several GPUs", "there is one")
        return
    every = [gpu(index) for index in range(count)]
    worst = [both_ways(pipe_of(every), where) for where in ("cpu", gpu(0), gpu(1))]
    worst.append(both_ways(pipe_of([gpu(1), "cpu", gpu(0)]), gpu(1)))
    found.bar(f"float64, {count} GPUs", max(worst), EXACT)
    check_timeline(found, every)
    block = torch.ones(sizes.samples * sizes.width * 8, device=gpu(0))
    there = torch.empty_like(block, device=gpu(1))
    took = min(seconds(lambda: there.copy_(block)) for _ in range(5))
    found.figure("a copy from GPU 0 to 1", f"{block.numel() * 4 / took / 1e9:.1f} GB/s")
    overlap(found, sizes)


def overlap(found: Findings, sizes: Sizes) -> None:
    """A step of two stages on two GPUs, as a share of the same on one."""
    width = width_for(sizes.durations[0], sizes.width)
    x, y = batch(width, M)
    variants = {}
    for name, devices in {"one": [gpu(0)], "two": [gpu(0), gpu(1)]}.items():
        pipe = GPipe(layers(width, 2), 2, M, schedule="1f1b", checkpoint="never", devices=devices)

        def step(pipe: GPipe = pipe) -> None:
            pipe.step(x, y, LOSS)
            wait_for_gpus()

        variants[name] = step
    times = in_turn(variants, max(sizes.rounds, 5), warm_up=2)
    share = statistics.median(two / one for one, two in zip(times["one"], times["two"], strict=True))
    found.figure(
        f"two stages on two GPUs, ops of {sizes.durations[0]:g} ms",
        f"{share:.2f} of the time on one; a pipeline of M = {M} needs {(M + 1) / (2 * M):.2f} at least",
    )
