"""What the engine itself costs per op: tiny layers, so that nearly all the time is the engine's and PyTorch's own.

Why: an op of a real model takes milliseconds; the engine's share of it must not show. Layers of Linear(8) do almost
nothing, K=4 and M=32 make many ops. Beside each schedule are the same ops in the same order without an engine, bare
calls of PyTorch in one thread: that is the floor. What one device takes for the same micro-batches, in one graph each,
is subtracted from both in the last column.

    python -m benchmarks.overhead
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.measuring import in_turn, machine, spread
from gpipe_edu import Schedule
from gpipe_edu.pytorch import GPipe

K, M, ROUNDS, WARM_UP = 4, 32, 40, 5


def bare(net: nn.Sequential, schedule: Schedule, x: Tensor, y: Tensor, loss: nn.Module) -> None:
    """The ops of a step, one after another: nothing but calls of PyTorch."""
    values = {(m, 0): piece for m, piece in enumerate(x.split(1))}
    targets = y.split(1)
    graphs: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    gradients: dict[tuple[int, int], Tensor | None] = {}  # at the output of a stage
    for _, (kind, m, k), _ in schedule.steps:
        if kind == "F":
            leaf = values.pop((m, k)).detach().requires_grad_(k > 0)
            out = net[k](leaf) if k < K - 1 else loss(net[k](leaf), targets[m]) / M
            graphs[m, k] = leaf, out
            values[m, k + 1] = out.detach()
            continue
        leaf, out = graphs[m, k] if kind == "I" else graphs.pop((m, k))
        if kind == "B":
            torch.autograd.backward([out], [gradients.pop((m, k), None)])
            gradients[m, k - 1] = leaf.grad
        elif kind == "I" and k > 0:
            (gradients[m, k - 1],) = torch.autograd.grad([out], [leaf], [gradients.get((m, k))], retain_graph=True)
        elif kind == "W":
            torch.autograd.backward([out], [gradients.pop((m, k), None)], inputs=list(net[k].parameters()))


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y, loss = torch.randn(M, 8), torch.randint(0, 8, (M,)), nn.CrossEntropyLoss()
    net = nn.Sequential(*(nn.Linear(8, 8) for _ in range(K)))
    by_hand = nn.Sequential(*(nn.Linear(8, 8) for _ in range(K)))

    def accumulate() -> None:
        for piece, target in zip(x.split(1), y.split(1), strict=True):
            (loss(by_hand(piece), target) / M).backward()

    variants: dict[str, Callable[[], object]] = {"one device": accumulate}
    ops = {}
    for name in ("gpipe", "1f1b", "zero_bubble"):
        pipe = GPipe(net, K, M, devices=["cpu"], schedule=name, checkpoint="never")
        schedule = pipe.schedule
        variants[name] = lambda pipe=pipe: pipe.step(x, y, loss)
        variants[f"{name}, bare"] = lambda schedule=schedule: bare(by_hand, schedule, x, y, loss)
        ops[name] = ops[f"{name}, bare"] = sum(map(len, schedule.rows))
    processor: dict[str, list[float]] = {name: [] for name in variants}

    def noting(name: str) -> Callable[[], None]:
        def work() -> None:
            began = time.process_time()
            variants[name]()
            processor[name].append(1e3 * (time.process_time() - began))

        return work

    clock = in_turn({name: noting(name) for name in variants}, ROUNDS, WARM_UP)
    busy = {name: took[WARM_UP:] for name, took in processor.items()}
    print(f"{machine()}, torch {torch.__version__}, K={K}, M={M}, Linear(8), one BLAS thread a worker")
    for kind, found in (("clock", clock), ("processor time", busy)):
        alone = statistics.median(found["one device"])
        print(f"\nby {kind}; one device, by hand: {alone:.2f} ms a step")
        print(f"{'':<18} {'ops':>5} {'ms a step (IQR)':>20} {'us/op':>7} {'more than by hand, us/op':>25}")
        for name, count in ops.items():
            step = statistics.median(found[name])
            print(f"{name:<18} {count:>5} {spread(found[name]):>20} {1e3 * step / count:7.1f}", end="")
            print(f"{1e3 * (step - alone) / count:26.1f}")


if __name__ == "__main__":
    main()
