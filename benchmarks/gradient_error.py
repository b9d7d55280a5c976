"""How far off a mini-batch's gradient is, by the number of micro-batches and by the type in which it is added up.

bf16 has 8 binary digits: a sum that is 256 times as large as what comes next no longer grows. So a pipe adds up in fp32
unless told otherwise. Both are compared with the gradient of the same weights in float64. Nothing is timed.

    python -m benchmarks.gradient_error
"""

from __future__ import annotations

import copy
from itertools import pairwise

import torch
from torch import Tensor, nn

from benchmarks.measuring import machine
from gpipe_edu.data import digits
from gpipe_edu.pytorch import GPipe

N, K, WIDTHS = 1024, 2, (64, 256, 256, 256, 10)
MICRO_BATCHES = (1, 8, 64, 256, 1024)
LOSS = nn.CrossEntropyLoss()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found = digits()
    x, y = torch.from_numpy(found.x_train[:N]).float(), torch.from_numpy(found.y_train[:N])
    net = nn.Sequential(*(layer for a, b in pairwise(WIDTHS) for layer in (nn.Linear(a, b), nn.ReLU())))[:-1]
    print(f"{machine()}, torch {torch.__version__}")
    print(f"{N} digits, MLP {WIDTHS}, K={K}; error of the whole gradient, and KiB of the sums")
    print(
        f"\n{'':>14}{'added up in fp32':>18}   {'in 16 bits':>16}\n{'weights':<9} {'M':>4}"
        + 2 * f"{'error':>10} {'KiB':>7} "
    )
    for kind in (torch.bfloat16, torch.float16):
        narrow, images = copy.deepcopy(net).to(kind), x.to(kind)
        exact = copy.deepcopy(narrow).double()
        LOSS(exact(images.double()), y).backward()
        right = gradient(exact)
        for M in MICRO_BATCHES:
            row = f"{str(kind).removeprefix('torch.'):<9} {M:>4}"
            for wide in (True, False):
                pipe = GPipe(copy.deepcopy(narrow), K, M, devices=["cpu"], accumulate_in_fp32=wide, measure_memory=True)
                pipe.step(images, y, LOSS)
                error = float((gradient(pipe) - right).norm() / right.norm())
                row += f"{error:10.2%} {sum(pipe.gradient_memory) / 1024:7.0f} "
            print(row.rstrip())


def gradient(net: nn.Module) -> Tensor:
    """All gradients in one row, in float64."""
    return torch.cat([weight.grad.double().flatten() for weight in net.parameters() if weight.grad is not None])


if __name__ == "__main__":
    main()
