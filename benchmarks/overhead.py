"""What the engine itself costs per op: tiny layers, so that nearly all the time is the engine's.

Why: an op of a real model takes milliseconds; the engine's share of it must not show. Layers of Linear(8) do almost
nothing, K=4 and M=32 make many ops. The same layers run by hand in the same micro-batches are taken off.

    python -m benchmarks.overhead
"""

from __future__ import annotations

import statistics

import torch
from torch import nn

from benchmarks.measuring import in_turn, machine
from gpipe_edu.pytorch import GPipe

K, M, ROUNDS = 4, 32, 40


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y, loss = torch.randn(M, 8), torch.randint(0, 8, (M,)), nn.CrossEntropyLoss()
    net = nn.Sequential(*(nn.Linear(8, 8) for _ in range(K)))
    by_hand = nn.Sequential(*(nn.Linear(8, 8) for _ in range(K)))

    def accumulate() -> None:
        for piece, target in zip(x.split(1), y.split(1), strict=True):
            (loss(by_hand(piece), target) / M).backward()

    variants = {"one device": accumulate}
    ops = {}
    for schedule in ("gpipe", "1f1b", "zero_bubble"):
        pipe = GPipe(net, K, M, devices=["cpu"], schedule=schedule, checkpoint="never")
        variants[schedule] = lambda pipe=pipe: pipe.step(x, y, loss)
        ops[schedule] = sum(map(len, pipe.schedule.rows))
    found = in_turn(variants, ROUNDS, warm_up=5)
    print(f"{machine()}, torch {torch.__version__}, K={K}, M={M}, Linear(8), one BLAS thread a worker")
    alone = statistics.median(found["one device"])
    print(f"one device, by hand: {alone:.2f} ms a step\n")
    print(f"{'schedule':<14} {'ops':>5} {'ms a step':>10} {'us/op':>7} {'engine us/op':>13}")
    for schedule, count in ops.items():
        step = statistics.median(found[schedule])
        print(f"{schedule:<14} {count:>5} {step:10.2f} {1e3 * step / count:7.1f} {1e3 * (step - alone) / count:13.1f}")


if __name__ == "__main__":
    main()
