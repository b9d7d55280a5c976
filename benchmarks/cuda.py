"""Everything about the PyTorch engine that needs a GPU, in one call of a few minutes on one GPU with several stages.

Why: most machines that test this project have no GPU, so what needs one is gathered here: the checks of cuda_checks.py,
then memory by mode, and throughput against plain PyTorch and torchgpipe.

    python benchmarks/cuda.py

Stages share the one GPU, each with its own stream, so no variant can be faster than plain PyTorch on the whole batch;
what is compared is how little is lost. Exits with 1 if a check fails, with 2 where there is no GPU.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path

# Started by its path, this file's folder stands first among the places of modules, and PyTorch, which looks for a
# package called `cuda`, would find this file.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from torch import Tensor, nn

from benchmarks.cuda_checks import CHECKS, mlp
from benchmarks.measuring import in_turn, machine, spread
from gpipe_edu.pytorch import GPipe

K, M, ROUNDS = 4, 8, 15
DEVICES = ["cuda:0"]


def transformer(width: int, layers: int) -> nn.Sequential:
    """Transformer encoder layers without dropout."""
    blocks = (nn.TransformerEncoderLayer(width, 8, 4 * width, 0.0, batch_first=True) for _ in range(layers))
    return nn.Sequential(*blocks)


def memory() -> None:
    """Allocator statistics by checkpoint mode, beside plain PyTorch."""
    x, y, loss = torch.randn(4096, 2048).cuda(), torch.randn(4096, 2048).cuda(), nn.MSELoss()
    print(f"\n{'memory: MLP 16 x 2048, N=4096':<40} {'MiB above the start of the step':>32}")
    for checkpoint in ("never", "except_last", "always"):
        pipe = GPipe(mlp(2048, 16), K, M, checkpoint=checkpoint, devices=DEVICES, measure_memory=True)
        pipe.step(x, y, loss)
        print(f"{'ours, ' + checkpoint:<40} {max(pipe.peak_memory) / 2**20:32.0f}")
    plain = mlp(2048, 16).cuda()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    loss(plain(x), y).backward()
    print(f"{'plain PyTorch':<40} {(torch.cuda.max_memory_allocated() - before) / 2**20:32.0f}")


def throughput(name: str, make: Callable[[], nn.Sequential], x: Tensor) -> None:
    """Milliseconds of a step, all variants in turn, and their ratio to plain PyTorch."""
    loss, y = nn.MSELoss(), torch.randn_like(x)
    plain = make().cuda()

    def run_plain() -> None:
        plain.zero_grad()
        loss(plain(x), y).backward()
        torch.cuda.synchronize()

    def run_cut() -> None:
        plain.zero_grad()
        for piece, target in zip(x.chunk(M), y.chunk(M), strict=True):
            (loss(plain(piece), target) / M).backward()
        torch.cuda.synchronize()

    variants: dict[str, Callable[[], object]] = {"plain, whole batch": run_plain, "plain, accumulation": run_cut}
    for schedule in ("gpipe", "1f1b", "zero_bubble"):
        for checkpoint in ("never", "always"):
            pipe = GPipe(make(), K, M, schedule=schedule, checkpoint=checkpoint, devices=DEVICES)

            def step(pipe: GPipe = pipe) -> None:
                pipe.zero_grad()
                pipe.step(x, y, loss)
                torch.cuda.synchronize()

            variants[f"ours, {schedule}, {checkpoint}"] = step
    try:
        from torchgpipe import GPipe as TorchGPipe

        for checkpoint in ("never", "always"):
            net = make()
            even = [len(net) // K] * K
            other = TorchGPipe(net, even, devices=["cuda:0"] * K, chunks=M, checkpoint=checkpoint)

            def torchgpipe_step(other: nn.Module = other) -> None:
                other.zero_grad()
                loss(other(x), y).backward()
                torch.cuda.synchronize()

            variants[f"torchgpipe 0.0.7, {checkpoint}"] = torchgpipe_step
    except ModuleNotFoundError:
        print("torchgpipe is not installed: its rows are left out")
    found = in_turn(variants, ROUNDS, warm_up=4)
    base = found["plain, whole batch"]
    print(f"\n{name:<40} {'ms: median (IQR)':>20} {'of plain':>9}")
    for variant, times in found.items():
        ratio = statistics.median(t / b for t, b in zip(times, base, strict=True))
        print(f"{variant:<40} {spread(times):>20} {ratio:9.2f}", flush=True)


def main() -> int:
    if not torch.cuda.is_available():
        print("not run on a GPU yet: PyTorch finds none here")
        return 2
    print(f"{machine()}, torch {torch.__version__}, {torch.cuda.get_device_name()}; K={K} stages on one GPU, M={M}\n")
    checks = [check() for check in CHECKS]
    memory()
    throughput("MLP 16 x 2048, N=4096", lambda: mlp(2048, 16), torch.randn(4096, 2048).cuda())
    sequence = torch.randn(64, 256, 512).cuda()
    throughput("Transformer 8 x 512, N=64, 256 tokens", lambda: transformer(512, 8), sequence)
    print("\nall checks hold" if all(checks) else "\nA CHECK FAILED")
    return 0 if all(checks) else 1


if __name__ == "__main__":
    sys.exit(main())
