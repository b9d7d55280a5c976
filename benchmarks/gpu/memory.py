"""Peak memory: what the allocator says, what `peak_memory` says, and the formula."""

from __future__ import annotations

import torch

from benchmarks.gpu.findings import Findings
from benchmarks.gpu.ops import LOSS, gpu, layers
from benchmarks.gpu.sizes import Sizes
from gpipe_edu.pytorch import GPipe
from gpipe_edu.timeline import formulas

K, M, LAYERS = 4, 8, 16
MIB = 2**20


def run(found: Findings, sizes: Sizes) -> None:
    width, samples = sizes.width, sizes.samples
    found.figure("net", f"{LAYERS} x (Linear({width}), ReLU), {samples} samples, K = {K}, M = {M}, all on one GPU")
    net = layers(width, LAYERS)
    x, y = (torch.randn(samples, width, device=gpu()) for _ in range(2))
    boundary = samples * width * x.element_size()  # a layer saves as much: its input, which is the ReLU's output
    weights = sum(weight.numel() * weight.element_size() for weight in net.parameters())
    recomputed = K * formulas.peak_memory(LAYERS, K, M, boundary, boundary)
    on_paper = {"never": K * boundary + LAYERS * boundary, "except_last": recomputed, "always": recomputed}
    for mode, activations in on_paper.items():
        pipe = GPipe(net, K, M, checkpoint=mode, devices=[gpu()], measure_memory=True)
        pipe.step(x, y, LOSS)
        counted = peak(pipe, x, y)
        said, paper = max(pipe.peak_memory), activations + weights
        found.figure(
            f"checkpoint={mode!r}",
            f"allocator {counted / MIB:.1f} MiB; formula, and a gradient for each weight, {paper / MIB:.1f} MiB: "
            f"{counted / paper:.2f} of it",
        )
        found.bar(f"peak_memory against the allocator, {mode}", 100 * abs(said / counted - 1), 2, " %")
        del pipe
    net.zero_grad()
    before = start()
    LOSS(net(x), y).backward()
    found.figure("plain PyTorch, whole batch", f"allocator {(highest() - before) / MIB:.1f} MiB")


def peak(pipe: GPipe, x: torch.Tensor, y: torch.Tensor) -> int:
    """Bytes beyond those before a step that no earlier one has left gradients to."""
    pipe.zero_grad()
    before = start()
    pipe.step(x, y, LOSS)
    return highest() - before


def start() -> int:
    torch.cuda.synchronize(gpu())
    torch.cuda.reset_peak_memory_stats(gpu())
    return int(torch.cuda.memory_allocated(gpu()))


def highest() -> int:
    torch.cuda.synchronize(gpu())
    return int(torch.cuda.max_memory_allocated(gpu()))
