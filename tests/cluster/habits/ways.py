"""What a PyTorch user does, done twice on every rank: with the plain net, and with a pipeline of processes.

A habit is a function that is given a way to train, and returns what is to be compared. On each rank its own weights,
their gradients and its buffers come out equal, to 1e-10 in float64, or all ranks raise the same sentence.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline
from gpipe_edu.split import split_batch
from tests.cluster.jobs import unwatched

M, N = 3, 7  # ragged

SCHEDULES = {
    "1f1b": lambda K: ge.one_f_one_b(K, M),
    "gpipe, late": lambda K: ge.gpipe(K, M, recompute="late"),
    "zero bubble": lambda K: ge.zero_bubble(K, M),
}

Habit = Callable[["Way"], Any]


class Way:
    """The plain net; `pieces`: fed one micro-batch after the other, for layers that look at all samples of a batch."""

    def __init__(self, pieces: bool = False) -> None:
        self._M = M if pieces else 1

    def wrap(self, net: nn.Module, loss: Callable[..., Tensor], x: Tensor, **options: Any) -> Any:
        return Plain(net, loss, self._M, options.get("reduction", "mean"))


class Piped(Way):
    """A pipeline of all ranks."""

    def __init__(self, schedule: str) -> None:
        super().__init__()
        self._schedule = SCHEDULES[schedule](dist.get_world_size())

    def wrap(self, net: nn.Module, loss: Callable[..., Tensor], x: Tensor, **options: Any) -> Any:
        return Pipeline(net, self._schedule, loss, x, **options)


class Plain:
    """A net with the methods of a pipeline."""

    def __init__(self, net: nn.Module, loss: Callable[..., Tensor], M: int, reduction: str) -> None:
        self._net, self._loss, self._M, self._sums = net, loss, M, reduction == "sum"
        self.parameters, self.zero_grad, self.train = net.parameters, net.zero_grad, net.train
        self.named_parameters, self.named_buffers = net.named_parameters, net.named_buffers

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for piece, target in zip(split_batch(x, self._M), split_batch(y, self._M), strict=True):
            loss = self._loss(self._net(piece), target) * (1.0 if self._sums else len(piece) / len(x))
            loss.sum().backward()
            total += loss.detach().double().sum()
        return total

    def predict(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self._net(x)

    def clip_grad_norm(self, most: float) -> Tensor:
        return nn.utils.clip_grad_norm_(self._net.parameters(), most)


def held(model: Any) -> dict[str, Any]:
    """All that training changes."""
    weights = {name: (weight.detach().clone(), copy.copy(weight.grad)) for name, weight in model.named_parameters()}
    return weights | {name: buffer.clone() for name, buffer in model.named_buffers()}


def trained(
    way: Way, net: nn.Module, x: Tensor, y: Tensor, loss: Callable[..., Tensor] = F.mse_loss, **options: Any
) -> Any:
    """Three steps of SGD with momentum; then a prediction."""
    model = way.wrap(net, loss, x, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9) if list(model.parameters()) else None
    losses = []
    for _ in range(3):
        model.zero_grad()
        losses.append(model.step(x, y))
        if optimizer:
            optimizer.step()
    return losses, held(model)


def seeded(*layers: Callable[[], nn.Module]) -> nn.Sequential:
    """A float64 net of layers that are made here, so that their weights are always the same."""
    torch.manual_seed(0)
    return nn.Sequential(*[layer() for layer in layers]).double()


def mlp() -> nn.Sequential:
    return seeded(
        partial(nn.Linear, 6, 8),
        nn.Tanh,
        partial(nn.Linear, 8, 8),
        nn.Tanh,
        partial(nn.Linear, 8, 8),
        nn.Tanh,
        partial(nn.Linear, 8, 3),
    )


def batch(*shape: int, seed: int = 1, samples: int = N) -> Tensor:
    return torch.randn(samples, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def apart(found: Any, expected: Any) -> float:
    """The largest difference; of dicts only what this rank has, of losses only where it knows one."""
    if isinstance(found, dict):
        missing = found.keys() - expected.keys()
        assert not missing, f"other names: {sorted(missing)}, expected some of {sorted(expected)}"
        return max((apart(found[name], expected[name]) for name in found), default=0.0)
    if isinstance(found, (tuple, list)):
        return max((apart(one, other) for one, other in zip(found, expected, strict=True)), default=0.0)
    if found is None and isinstance(expected, Tensor) and expected.ndim == 0:
        return 0.0  # the loss, where the last stage is not
    if found is None or expected is None:
        return 0.0 if found is expected else float("inf")
    if isinstance(found, Tensor):
        found, expected = found.to_dense().detach(), expected.to_dense().detach()
        if found.shape != expected.shape:
            return float("inf")
        return float((found - expected).abs().max()) if found.numel() else 0.0
    return 0.0 if found == expected else float("inf")


def outcomes(habit: Habit, pieces: bool) -> dict[str, float | str]:
    """For each schedule, how far this rank is from one device, or the sentence that it was told."""
    found: dict[str, float | str] = {}
    for name in SCHEDULES:
        try:
            of_pipeline = habit(Piped(name))
        except (TypeError, ValueError) as error:
            found[name] = str(error)
        else:
            found[name] = apart(of_pipeline, habit(Way(pieces)))
    return found


def run(group: Any, ranks: int, habit: Habit, pieces: bool = False) -> list[dict[str, float | str]]:
    """The outcomes on each rank."""
    return group.run([partial(unwatched, outcomes, habit, pieces)] * ranks, 60).values
