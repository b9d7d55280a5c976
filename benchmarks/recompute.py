"""Recompute nothing, the attention scores, or everything: memory and time of a step under 1F1B.

Memory is what autograd stores between the ops, counted; selective recompute has one block's scores on top for a moment,
which are shown beside it. Operations are counted on paper (gpipe_edu.sizing). Times are taken in turn.

    python -m benchmarks.recompute
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.measuring import in_turn, machine, spread
from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.study import Block
from gpipe_edu.sizing import transformer

K, M, N, T, BLOCKS = 2, 4, 8, 256, 4
SIZES = ((64, 4), (256, 8))  # width and heads
ROUNDS = 9
WAYS = {"none": (False, "never"), "selective": (True, "never"), "full": (False, "always")}


def main() -> None:
    torch.set_num_threads(1)
    print(f"{machine()}, torch {torch.__version__}, one BLAS thread a worker")
    print(f"1F1B, K={K}, M={M}, N={N}, {BLOCKS} blocks that store their scores, {T} tokens")
    print(f"median (interquartile range) of {ROUNDS} steps in turn\n")
    print(
        f"{'width':>5}  {'recompute':<10} {'MB, fuller device':>17} {'for a moment':>13} {'work':>6} {'step, ms':>19}"
    )
    for d, heads in SIZES:
        x, y = torch.randn(2, N, T, d)
        memory, steps = {}, {}
        for name, (again, checkpoint) in WAYS.items():
            knobs = {"devices": ["cpu"], "schedule": "1f1b", "checkpoint": checkpoint}
            counted = GPipe(_network(d, heads, again), K, M, **knobs, measure_memory=True)
            counted.step(x, y, nn.MSELoss())
            memory[name] = max(counted.peak_memory) / 1e6
            pipe = GPipe(_network(d, heads, again), K, M, **knobs)
            steps[name] = lambda pipe=pipe, x=x, y=y: pipe.step(x, y, nn.MSELoss())
        scores = N // M * heads * T * T * 4 / 1e6
        block = transformer(1, d, T, 2, heads=heads, fused=False).layers[1]
        extra = {"none": 0, "selective": block.scores_work, "full": block.work}
        for name, times in in_turn(steps, ROUNDS, warm_up=2).items():
            moment = scores if name == "selective" else 0
            work = 1 + extra[name] / (3 * block.work)
            print(f"{d:>5}  {name:<10} {memory[name]:17.2f} {moment:13.2f} {work:6.2f} {spread(times):>19}")


def _network(d: int, heads: int, again: bool) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(d, heads, again) for _ in range(BLOCKS)))


if __name__ == "__main__":
    main()
