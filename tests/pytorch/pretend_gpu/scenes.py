"""What the tests on the pretend GPU have in common: a net, its mini-batch, and what one device makes of them."""

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gpipe_edu.pytorch import GPipe

from . import cuda

DEVICE_SETS = {
    "one GPU": ["gpu:0"],
    "three GPUs": ["gpu:0", "gpu:1", "gpu:2"],
    "CPU in front": ["cpu", "gpu:0", "gpu:1"],
    "CPU behind": ["gpu:1", "gpu:0", "cpu"],
    "CPU between": ["gpu:0", "cpu", "gpu:0"],
}


class NotDense(nn.Module):
    """Its output's elements have others between them, and so have those of its gradient."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x, x * 2], 2)[:, :, 0]


class Joined(nn.Module):
    """The first layer of a net whose input is a tuple."""

    def forward(self, parts: tuple[Tensor, Tensor]) -> Tensor:
        return parts[0] + 3 * parts[1]


def net(*, batch_norm: bool = False, dense: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for index in range(6):
        layers.append(nn.Linear(4, 4))
        layers.append(nn.BatchNorm1d(4) if batch_norm else nn.Tanh())
        if not dense and index % 2:
            layers.append(NotDense())
    return nn.Sequential(*layers).double()


def batch(samples: int = 7) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(samples, 4).double(), torch.randn(samples, 4).double()


def on_one_device(layers: nn.Sequential, x: Tensor, y: Tensor) -> list[Tensor]:
    """Loss and gradients, of x too, without a pipe, on the CPU."""
    plain, x = copy.deepcopy(layers), x.detach().clone().requires_grad_()
    loss = F.mse_loss(plain(x), y)
    loss.backward()
    return [loss.detach(), x.grad, *(weight.grad for weight in plain.parameters())]


def in_pipe(pipe: GPipe, x: Tensor, y: Tensor, way: str) -> list[Tensor]:
    """The same from the pipe, where they are when it returns. Waits for nothing."""
    x = x.detach().requires_grad_()
    pipe.zero_grad()
    if way == "step":
        loss = pipe.step(x, y, F.mse_loss)
    else:
        y = y.to(pipe.devices[-1])  # before, since the host waits for it
        loss = F.mse_loss(pipe(x), y)
        loss.backward()
    return [loss.detach(), x.grad, *(weight.grad for weight in pipe.parameters())]


def same(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """To the last bits, and no race on the way."""
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-12, atol=1e-14, msg=lambda text, i=index: f"{i}: {text}")
    no_race()


def no_race() -> None:
    found = cuda.races()
    assert not found, "\n".join(found)
