"""Saved activations per device by schedule and checkpoint mode, counted, beside what counting on paper says.

Why: re-materialization should leave on each device the boundary inputs of all micro-batches plus one micro-batch's
interior, and not a byte more. Bytes are counted as autograd saves tensors, so nothing here is timed.

    python -m benchmarks.memory
"""

from __future__ import annotations

import torch
from torch import nn

import gpipe_edu as ge
from benchmarks.measuring import machine
from gpipe_edu.pytorch import GPipe
from gpipe_edu.timeline.memory import peak_memory

K, M, N, WIDTH, LAYERS = 4, 8, 512, 256, 16


def main() -> None:
    torch.manual_seed(0)
    x, target = torch.randn(N, WIDTH), torch.randn(N, WIDTH)
    piece = N // M * WIDTH * 4
    # A stage of four (Linear, Tanh): each Linear saves its input (the first one the boundary input), each Tanh its
    # output, which is the next Linear's input. So the interior is four arrays beyond the boundary.
    interior = LAYERS // K * piece
    print(f"{machine()}, torch {torch.__version__}")
    print(
        f"K={K}, M={M}, N={N}, {LAYERS} x (Linear({WIDTH}), Tanh); KiB per device; the loss saves a little on the last"
    )
    print(f"\n{'schedule':<12} {'checkpoint':<12} {'counted':>28}   {'on paper':>28}")
    for schedule in ("gpipe", "1f1b", "zero_bubble"):
        for checkpoint in ("never", "except_last", "always"):
            net = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS)))
            pipe = GPipe(net, K, M, devices=["cpu"], schedule=schedule, checkpoint=checkpoint, measure_memory=True)
            pipe.step(x, target, nn.MSELoss())
            paper = peak_memory(ge.simulate(pipe.schedule), piece, interior)
            counted, planned = (
                " ".join(f"{size / 1024:6.0f}" for size in sizes) for sizes in (pipe.peak_memory, paper)
            )
            print(f"{schedule:<12} {checkpoint:<12} {counted:>28}   {planned:>28}")


if __name__ == "__main__":
    main()
