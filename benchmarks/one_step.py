"""What one step is made of: planning it, its memory, its recompute, and what the engine costs per op.

Why: a slider plans a schedule at each of its moves, so planning has to be linear and quick. Re-materialization should
leave a device the boundary inputs and one interior, not a byte more. A real op takes milliseconds, and the engine's
share of it must not show: tiny layers show nothing else, beside the same ops as bare calls of PyTorch, and by hand.

    python -m benchmarks.one_step plan|memory|recompute|overhead
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn

import gpipe_edu as ge
from benchmarks.measuring import in_turn, machine, milliseconds, spread
from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.study import Block
from gpipe_edu.schedule.recipes import RECIPES
from gpipe_edu.sizing import transformer
from gpipe_edu.timeline.memory import peak_memory

OPS_PER_CASE = 300_000
"""Small schedules are planned more often: about so many ops for each case, but 5 to 60 rounds."""


def plan() -> None:
    print(f"{'schedule':<13} {'K':>3} {'M':>4} {'ops':>7} {'rounds':>6} {'check':>19} {'simulate':>19} us/op of both")
    for name in ("gpipe", "gpipe-early", "1f1b", "zero_bubble", "interleaved"):
        for K, M in ((4, 8), (8, 32), (16, 64), (64, 512)):
            rows = RECIPES[name](K, M).rows
            ops = sum(map(len, rows))
            rounds = min(60, max(5, OPS_PER_CASE // ops))
            fresh = [ge.Schedule(rows) for _ in range(rounds)]  # without what an earlier check has stored
            checked = [milliseconds(one.check) for one in fresh]
            simulated = [milliseconds(lambda one=one: ge.simulate(one)) for one in fresh]
            both = 1e3 * (statistics.median(checked) + statistics.median(simulated)) / ops
            print(f"{name:<13} {K:>3} {M:>4} {ops:>7} {rounds:>6} {spread(checked)} {spread(simulated)} {both:6.2f}")


def memory(K: int = 4, M: int = 8, N: int = 512, width: int = 256, layers: int = 16) -> None:
    x, target, piece = torch.randn(N, width), torch.randn(N, width), N // M * width * 4
    print(f"K={K}, M={M}, N={N}, {layers} x (Linear({width}), Tanh); KiB per device, counted and on paper")
    for schedule in ("gpipe", "1f1b", "zero_bubble"):
        for checkpoint in ("never", "except_last", "always"):
            net = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(layers)))
            pipe = GPipe(net, K, M, devices=["cpu"], schedule=schedule, checkpoint=checkpoint, measure_memory=True)
            pipe.step(x, target, nn.MSELoss())
            # A Linear saves its input and a Tanh its output, the next one's input: four arrays beyond the boundary.
            paper = peak_memory(ge.simulate(pipe.schedule), piece, layers // K * piece)
            shown = (" ".join(f"{size / 1024:6.0f}" for size in sizes) for sizes in (pipe.peak_memory, paper))
            print(f"{schedule:<12} {checkpoint:<12} {'   '.join(shown)}")


def recompute(K: int = 2, M: int = 4, N: int = 8, tokens: int = 256, blocks: int = 4) -> None:
    print(
        f"1F1B, K={K}, M={M}, N={N}, {blocks} blocks that store their scores, {tokens} tokens; MB of the fuller device"
    )
    for d, heads in ((64, 4), (256, 8)):
        x, y = torch.randn(2, N, tokens, d)
        block, held, steps = transformer(1, d, tokens, 2, heads=heads, fused=False).layers[1], {}, {}
        ways = {"none": (False, "never", 0), "selective": (True, "never", block.scores_work)}
        ways["full"] = (False, "always", block.work)
        for name, (again, checkpoint, _) in ways.items():
            for counts in (True, False):  # counting takes time
                net = nn.Sequential(*(Block(d, heads, again) for _ in range(blocks)))
                knobs = {"devices": ["cpu"], "schedule": "1f1b", "checkpoint": checkpoint, "measure_memory": counts}
                pipe = GPipe(net, K, M, **knobs)
                steps[name] = lambda pipe=pipe, x=x, y=y: pipe.step(x, y, nn.MSELoss())
                if counts:
                    steps[name]()
                    held[name] = max(pipe.peak_memory) / 1e6
        for name, times in in_turn(steps, 9, warm_up=2).items():
            moment = N // M * heads * tokens**2 * 4 / 1e6 if name == "selective" else 0
            work = 1 + ways[name][2] / (3 * block.work)
            print(
                f"{d:>5} {name:<10} {held[name]:8.2f}, for a moment {moment:5.2f} more, work {work:.2f} {spread(times)}"
            )


def bare(net: nn.Sequential, schedule: ge.Schedule, x: Tensor, y: Tensor, loss: nn.Module) -> None:
    """The ops of a step, one after another: nothing but calls of PyTorch."""
    K, M = schedule.stages, schedule.micro_batches
    values, targets = {(m, 0): piece for m, piece in enumerate(x.split(1))}, y.split(1)
    graphs: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    gradients: dict[tuple[int, int], Tensor | None] = {}  # at the output of a stage
    for _, (kind, m, k), _ in schedule.steps:
        if kind == "F":
            leaf = values.pop((m, k)).detach().requires_grad_(k > 0)
            out = net[k](leaf) if k < K - 1 else loss(net[k](leaf), targets[m]) / M
            graphs[m, k], values[m, k + 1] = (leaf, out), out.detach()
            continue
        leaf, out = graphs[m, k] if kind == "I" else graphs.pop((m, k))
        if kind == "B":
            torch.autograd.backward([out], [gradients.pop((m, k), None)])
            gradients[m, k - 1] = leaf.grad
        elif kind == "I" and k > 0:
            (gradients[m, k - 1],) = torch.autograd.grad([out], [leaf], [gradients.get((m, k))], retain_graph=True)
        elif kind == "W":
            torch.autograd.backward([out], [gradients.pop((m, k), None)], inputs=list(net[k].parameters()))


def overhead(K: int = 4, M: int = 32) -> None:
    x, y, loss = torch.randn(M, 8), torch.randint(0, 8, (M,)), nn.CrossEntropyLoss()
    net, by_hand = (nn.Sequential(*(nn.Linear(8, 8) for _ in range(K))) for _ in range(2))

    def accumulate() -> None:
        for piece, target in zip(x.split(1), y.split(1), strict=True):
            (loss(by_hand(piece), target) / M).backward()

    variants: dict[str, Callable[[], object]] = {"one device": accumulate}
    ops = {}
    for name in ("gpipe", "1f1b", "zero_bubble"):
        pipe = GPipe(net, K, M, devices=["cpu"], schedule=name, checkpoint="never")
        variants[name] = lambda pipe=pipe: pipe.step(x, y, loss)
        variants[f"{name}, bare"] = lambda order=pipe.schedule: bare(by_hand, order, x, y, loss)
        ops[name] = ops[f"{name}, bare"] = sum(map(len, pipe.schedule.rows))
    found = in_turn(variants, 40, warm_up=5)
    alone = statistics.median(found["one device"])
    print(f"K={K}, M={M}, Linear(8); one device, by hand: {alone:.2f} ms a step; per op in us, and beyond by hand")
    for name, count in ops.items():
        step = statistics.median(found[name])
        print(
            f"{name:<18} {count:>5} {spread(found[name])} {1e3 * step / count:7.1f} {1e3 * (step - alone) / count:7.1f}"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{machine()}, torch {torch.__version__}, one BLAS thread a worker; median (interquartile range) in ms")
    {"plan": plan, "memory": memory, "recompute": recompute, "overhead": overhead}[sys.argv[1]]()
