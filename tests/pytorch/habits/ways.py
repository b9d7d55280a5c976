"""What a PyTorch user does, done twice: with the plain net, and with a pipe. Both come out equal.

A habit is a function that is given a way to train, and returns what is to be compared. `as_plain` makes a test of it
that tries every way a pipe can train; `in_pieces` compares with the net run on one micro-batch after the other, for
layers that look at the whole batch; `as_plain_calls` is for what is done with a model's output, which `step` does not
give.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gpipe_edu.pytorch import GPipe
from gpipe_edu.split import join_batch, split_batch
from tests.each import each, without
from tests.pytorch.bench import Apply

K, M, N = 2, 3, 7  # ragged


@dataclass(frozen=True)
class Piped:
    schedule: str
    checkpoint: str
    steps: bool

    def __str__(self) -> str:
        return f"{self.schedule}-{self.checkpoint}-{'step' if self.steps else 'call'}"

    def wrap(self, net: nn.Sequential, K: int = K, **options: Any) -> nn.Module:
        return GPipe(net, K, M, schedule=self.schedule, checkpoint=self.checkpoint, **options)

    def learn(self, model: Any, x: Any, y: Any, loss_fn: Callable[..., Tensor] = F.mse_loss, **options: Any) -> Tensor:
        """The loss; the gradients are in `.grad`."""
        return model.step(x, y, loss_fn, **options) if self.steps else learned(model, x, y, loss_fn)


class Plain:
    def wrap(self, net: nn.Sequential, K: int = K, **options: Any) -> nn.Module:
        return net

    def learn(self, model: Any, x: Any, y: Any, loss_fn: Callable[..., Tensor] = F.mse_loss, **options: Any) -> Tensor:
        return learned(model, x, y, loss_fn)


class InPieces(Plain):
    def wrap(self, net: nn.Sequential, K: int = K, **options: Any) -> nn.Module:
        return Pieces(net)


class Pieces(nn.Module):
    """`net`, run on one micro-batch after the other."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Any) -> Any:
        return join_batch([self.net(piece) for piece in split_batch(x, M)])


def learned(model: nn.Module, x: Any, y: Any, loss_fn: Callable[..., Tensor]) -> Tensor:
    loss = loss_fn(model(x), y)
    loss.backward()
    return loss.detach()


CALLS = [Piped("gpipe", "always", False), Piped("gpipe", "never", False)]
TRAINS = [
    CALLS[0],
    Piped("1f1b", "except_last", True),
    Piped("zero_bubble", "never", True),
    Piped("zero_bubble", "always", True),
]
Habit = Callable[..., Any]


def compared(habit: Habit, ways: Sequence[Piped], reference: Plain) -> Habit:
    @without(["way"], habit)
    def test(**parameters: Any) -> None:
        expected = habit(reference, **parameters)
        each("way", ways)(lambda way: same(habit(way, **parameters), expected))()

    return test


def as_plain(habit: Habit) -> Habit:
    return compared(habit, TRAINS, Plain())


def in_pieces(habit: Habit) -> Habit:
    return compared(habit, TRAINS, InPieces())


def in_pieces_calls(habit: Habit) -> Habit:
    return compared(habit, CALLS, InPieces())


def as_plain_calls(habit: Habit) -> Habit:
    return compared(habit, CALLS, Plain())


def same(found: Any, expected: Any) -> None:
    """Fails unless all tensors, numbers and words in both are the same: to 1e-10 in float64."""
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, Tensor):
        exact = expected.dtype in (torch.float64, torch.complex128)
        close = {"rtol": 1e-10, "atol": 1e-12} if exact else {}
        torch.testing.assert_close(found, expected, check_stride=False, **close)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-10)
    else:
        assert found == expected


def mlp(*widths: int) -> nn.Sequential:
    """Linear and Tanh by turns, float64, always the same weights."""
    torch.manual_seed(0)
    widths = widths or (6, 8, 8, 3)
    pairs = itertools.pairwise(widths)
    return nn.Sequential(*[layer for a, b in pairs for layer in (nn.Linear(a, b), nn.Tanh())]).double()


def seeded(*layers: Callable[[], nn.Module]) -> nn.Sequential:
    """A float64 net of layers that are made here, so that their weights are always the same."""
    torch.manual_seed(0)
    return nn.Sequential(*[layer() for layer in layers]).double()


def batch(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(N, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def data() -> tuple[Tensor, Tensor]:
    """x and y for `mlp()`."""
    return batch(6), batch(3, seed=2)


def held(net: nn.Module) -> dict[str, Any]:
    """All that training changes: weights, their gradients, buffers."""
    weights = {name: (weight.detach().clone(), copy.deepcopy(weight.grad)) for name, weight in net.named_parameters()}
    return weights | {name: buffer.clone() for name, buffer in net.named_buffers()}


def do(function):
    return lambda: Apply(function)


def trained(way, net, x, **options):
    """One batch through it; the loss is all outputs, each with a weight of its own."""
    x = x.clone().requires_grad_(True) if x.is_floating_point() or x.is_complex() else x
    loss = way.learn(way.wrap(net, **options), x, x.new_zeros(len(x), 1), weighed)
    return loss, x.grad, held(net)


def weighed(out, y=None):
    """A sum over samples, divided by how many there are, so that micro-batches count as in one batch."""
    parts = out if isinstance(out, tuple) else (out,)
    total = 0.0
    for part in parts:
        if part.is_complex():
            part = torch.view_as_real(part)
        weights = torch.linspace(0.5, 1.5, part[0].numel(), dtype=torch.float64).view_as(part[0])
        total = total + (part.double() * weights).sin().sum() / len(part)
    return total


def error_of(call: Callable[[], Any]) -> type[BaseException]:
    """Which error a call ends in. Fails if in none."""
    try:
        call()
    except Exception as error:
        return type(error)
    raise AssertionError("no error")
