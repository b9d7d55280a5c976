"""Everything about the PyTorch engine that needs a GPU, in one call of a few minutes on one GPU with several stages.

Why: most machines that test this project have no GPU, so the checks that need one are gathered here: equality in
float64, random state, streams and events, memory by mode, and throughput against plain PyTorch and torchgpipe.

    python benchmarks/cuda.py

Stages share the one GPU, each with its own stream, so no variant can be faster than plain PyTorch on the whole batch;
what is compared is how little is lost. Exits with 1 if a check fails, with 2 where there is no GPU.
"""

from __future__ import annotations

import copy
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

# Started by its path, this file's folder stands first among the places of modules, and PyTorch, which looks for a
# package called `cuda`, would find this file.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from torch import Tensor, nn

from benchmarks.measuring import in_turn, machine, spread
from gpipe_edu.pytorch import GPipe

K, M, ROUNDS = 4, 8, 15


def mlp(width: int, layers: int, dropout: float = 0.0) -> nn.Sequential:
    """layers x (Linear, LayerNorm, ReLU, Dropout)."""
    blocks = (
        nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU(), nn.Dropout(dropout))
        for _ in range(layers)
    )
    return nn.Sequential(*blocks)


def transformer(width: int, layers: int) -> nn.Sequential:
    """Transformer encoder layers without dropout."""
    blocks = (nn.TransformerEncoderLayer(width, 8, 4 * width, 0.0, batch_first=True) for _ in range(layers))
    return nn.Sequential(*blocks)


def gradients(model: nn.Module) -> list[Tensor]:
    return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]


def difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """Largest difference as a share of the largest gradient."""
    largest = max(float(b.abs().max()) for b in theirs)
    return max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True)) / largest


def check_equality() -> bool:
    """float64 gradients of every schedule and mode, both ways, against plain PyTorch on the same GPU."""
    torch.manual_seed(0)
    x, y = torch.randn(37, 64, dtype=torch.float64), torch.randn(37, 64, dtype=torch.float64)
    net, loss = mlp(64, 8).double().cuda(), nn.MSELoss()
    plain = copy.deepcopy(net)
    loss(plain(x.cuda()), y.cuda()).backward()
    worst = 0.0
    for schedule in ("naive", "gpipe", "1f1b", "zero_bubble"):
        for checkpoint in ("always", "except_last", "never"):
            pipe = GPipe(copy.deepcopy(net), K, M, schedule=schedule, checkpoint=checkpoint)
            pipe.step(x, y, loss)
            worst = max(worst, difference(gradients(pipe), gradients(plain)))
            pipe.zero_grad()
            loss(pipe(x.cuda()), y.cuda()).backward()
            worst = max(worst, difference(gradients(pipe), gradients(plain)))
    print(f"float64 gradients, 4 schedules x 3 modes x 2 ways: largest difference {worst:.1e} of their size")
    return worst < 1e-10


def check_random_state() -> bool:
    """Dropout under recompute: the same gradients as without, twice the same bits."""
    torch.manual_seed(1)
    x, y, loss = torch.randn(32, 64).cuda(), torch.randn(32, 64).cuda(), nn.MSELoss()
    net = mlp(64, 8, dropout=0.5).cuda()
    found = []
    for checkpoint in ("never", "always", "always"):
        torch.manual_seed(2)
        pipe = GPipe(copy.deepcopy(net), K, M, checkpoint=checkpoint)
        pipe.step(x, y, loss)
        found.append(gradients(pipe))
    worst = difference(found[1], found[0])
    bitwise = all(map(torch.equal, found[1], found[2]))
    print(f"dropout: always against never {worst:.1e}; repeated runs bitwise equal: {bitwise}")
    return worst < 1e-5 and bitwise


def check_timeline() -> bool:
    """CUDA events: the sum of what they measured fits the step, and ops of different stages overlap."""
    x, y, loss = torch.randn(512, 2048).cuda(), torch.randn(512, 2048).cuda(), nn.MSELoss()
    pipe = GPipe(mlp(2048, 8), K, M, checkpoint="never")
    for _ in range(3):
        pipe.step(x, y, loss)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    pipe.step(x, y, loss)
    end.record()
    end.synchronize()
    timeline = pipe.timeline
    whole = start.elapsed_time(end) / 1e3
    overlap = sum(timeline.busy(device) for device in range(K)) / timeline.makespan
    print(f"timeline: {timeline.makespan * 1e3:.2f} of {whole * 1e3:.2f} ms; {overlap:.2f} stages busy on average")
    return 0 < timeline.makespan <= whole * 1.05


def memory() -> None:
    """Allocator statistics by checkpoint mode, beside plain PyTorch."""
    x, y, loss = torch.randn(4096, 2048).cuda(), torch.randn(4096, 2048).cuda(), nn.MSELoss()
    print(f"\n{'memory: MLP 16 x 2048, N=4096':<40} {'MiB above the start of the step':>32}")
    for checkpoint in ("never", "except_last", "always"):
        pipe = GPipe(mlp(2048, 16), K, M, checkpoint=checkpoint, measure_memory=True)
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
            pipe = GPipe(make(), K, M, schedule=schedule, checkpoint=checkpoint)

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
    checks = [check() for check in (check_equality, check_random_state, check_timeline)]
    memory()
    throughput("MLP 16 x 2048, N=4096", lambda: mlp(2048, 16), torch.randn(4096, 2048).cuda())
    sequence = torch.randn(64, 256, 512).cuda()
    throughput("Transformer 8 x 512, N=64, 256 tokens", lambda: transformer(512, 8), sequence)
    print("\nall checks hold" if all(checks) else "\nA CHECK FAILED")
    return 0 if all(checks) else 1


if __name__ == "__main__":
    sys.exit(main())
