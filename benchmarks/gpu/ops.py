"""What the parts that look at time have in common: ops that take as long on this GPU as they are told to."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from gpipe_edu.pytorch import place

LOSS = nn.MSELoss()


def gpu(index: int = 0) -> str:
    return f"{place.GPU}:{index}"


def seconds(work: Callable[[], object]) -> float:
    """From an idle GPU to an idle GPU."""
    place.wait_for_gpus()
    began = time.perf_counter()
    work()
    place.wait_for_gpus()
    return time.perf_counter() - began


def layers(width: int, count: int, where: str | None = None) -> nn.Sequential:
    """So many layers, each a product of width x width numbers and a ReLU, the same weights at every call."""
    torch.manual_seed(0)
    blocks = (nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(count))
    return nn.Sequential(*blocks).to(where or gpu())


def batch(width: int, micro_batches: int) -> tuple[Tensor, Tensor]:
    """For such layers, micro-batches of width samples; an op of one layer is then one product of squares."""
    torch.manual_seed(1)
    return tuple(torch.randn(micro_batches * width, width, device=gpu()) for _ in range(2))


def width_for(milliseconds: float, start: int) -> int:
    """The width at which the forward of one layer takes about so long, found by trying, from `start` on."""
    width = start
    for _ in range(4):
        layer, x = layers(width, 1), torch.randn(width, width, device=gpu())
        with torch.no_grad():
            layer(x)
            took = 100 * seconds(lambda layer=layer, x=x: [layer(x) for _ in range(10)])
        factor = min(max((milliseconds / took) ** (1 / 3), 1 / 4), 4)
        width = max(32, 32 * round(width * factor / 32))
    return width
