"""A network that writes down who calls its layers, so that a check sees what a pipeline did with its batch.

Each sample carries its number in the last column, past every layer, and so every call tells which samples it was for,
however the pipeline has cut them. This file needs torch and is loaded in the learner's process only.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class Log:
    """What the layers noted: (phase, layer, numbers of the samples, thread, whether grad was on, dropped values).

    phase: "F" during the forward, "R" for a forward that runs within the backward, "B" when a layer's gradient arrives;
    "dropped, F" and "dropped, R" say which values dropout has dropped.
    """

    def __init__(self) -> None:
        self.phase = "F"
        self.calls: list[tuple[str, int, list[float], int, bool, str]] = []
        self.activations: list[weakref.ref[Tensor]] = []

    def note(self, layer: int, numbers: Tensor, phase: str = "", dropped: str = "") -> None:
        """Write one call down."""
        first = numbers.detach()
        while first.dim() > 1:  # a sample of any shape has one number
            first = first[..., 0]
        found = [float(number) for number in first]
        self.calls.append((phase or self.phase, layer, found, threading.get_ident(), torch.is_grad_enabled(), dropped))

    def take(self) -> list[Any]:
        """What was noted since the last time."""
        calls, self.calls, self.phase = self.calls, [], "F"
        return calls

    def held(self) -> int:
        """How many activations somebody still holds, of all since the last time."""
        gc.collect()
        alive = sum(activation() is not None for activation in self.activations)
        self.activations = []
        return alive

    def __deepcopy__(self, memo: Any) -> Log:
        return self  # a copied layer writes into the same log


class Watched(nn.Module):
    """One layer, and the column of numbers that it lets pass."""

    def __init__(self, layer: nn.Module, place: int, log: Log) -> None:
        super().__init__()
        self.layer, self.place, self.log = layer, place, log

    def forward(self, x: Tensor) -> Tensor:
        """(n, features + 1) -> (n, outputs + 1)."""
        if not isinstance(x, Tensor):
            raise TypeError(f"a layer was called with a {type(x).__name__}; it takes a tensor of shape (n, ...)")
        numbers = x[..., -1:]
        # First of all: a recompute ends as soon as it has what the backward needs, in the middle of a layer.
        self.log.note(self.place, numbers)
        y: Tensor = self.layer(x[..., :-1])
        if isinstance(self.layer, nn.Dropout) and self.training:
            zeros = "".join("1" if value else "0" for value in (y == 0).flatten().tolist())
            self.log.note(self.place, numbers, "dropped, " + self.log.phase, zeros)
        y = torch.cat([y, numbers], -1)
        self.log.activations.append(weakref.ref(y))
        if y.requires_grad:
            y.register_hook(lambda gradient: self.log.note(self.place, numbers, "B"))  # type: ignore[no-untyped-call]
        return y


def watched(weights: Sequence[Any], dropout: float = 0.0, names: str = "") -> tuple[nn.Sequential, Log]:
    """Linear layers with these weights (each of shape (inputs, outputs), then its bias), tanh between them.

    names: a letter for each layer; without them, the layers are numbered.
    """
    log, layers = Log(), []
    for weight, bias in zip(weights[::2], weights[1::2], strict=True):
        linear = nn.Linear(*weight.shape).double()
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weight.T.copy()))
            linear.bias.copy_(torch.from_numpy(bias))
        layers += [linear, nn.Tanh(), nn.Dropout(dropout)] if dropout else [linear, nn.Tanh()]
    layers = layers[: -2 if dropout else -1]
    called = names or map(str, range(len(layers)))
    places = {name: Watched(layer, place, log) for place, (name, layer) in enumerate(zip(called, layers, strict=True))}
    return nn.Sequential(OrderedDict(places)), log


def numbered(x: Any) -> Tensor:
    """The batch of shape (N, ..., features) with the numbers 1 to N as one more feature."""
    numbers = np.arange(1.0, len(x) + 1).reshape(-1, *[1] * (x.ndim - 1))
    return torch.from_numpy(np.concatenate([x, np.broadcast_to(numbers, (*x.shape[:-1], 1))], axis=-1))


def without_numbers(output: Tensor) -> Tensor:
    """What a network without this column would give."""
    return output[..., :-1]


def arrays(tensors: Sequence[Tensor | None]) -> list[Any]:
    """Weights or gradients as arrays in the reference engine's layout; None stays None."""
    found = [None if tensor is None else tensor.detach().numpy().copy() for tensor in tensors]
    return [array.T.copy() if array is not None and array.ndim == 2 else array for array in found]
