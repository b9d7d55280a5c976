"""Where to cut: layers measured one by one, and the balance that follows.

Every layer is copied before it runs, so parameters, buffers, gradients, random state and train/eval mode of the
model stay as they were.
"""

from __future__ import annotations

import copy
from statistics import median
from time import perf_counter
from typing import NamedTuple

import torch
from torch import nn

from gpipe_edu.pytorch.ledger import Ledger
from gpipe_edu.pytorch.skip import shelf
from gpipe_edu.pytorch.values import Value, change, check, differentiable, tensors
from gpipe_edu.split import balance_by_cost
from gpipe_edu.validate import whole


class LayerProfile(NamedTuple):
    """One layer's median seconds of a forward and a backward, and its bytes of saved activations and of parameters."""

    forward: float
    backward: float
    activations: int
    parameters: int


def profile(net: nn.Sequential, sample: Value, repeats: int = 5) -> list[LayerProfile]:
    """Measure each layer of `net` on `sample`, a micro-batch as it will come: shape (n, ...), on the layers' device.

    Raises TypeError if net is no nn.Sequential or a layer returns no tensor, ValueError for repeats below 1.
    """
    if not isinstance(net, nn.Sequential):
        raise TypeError(f"net is a {type(net).__name__}; it must be an nn.Sequential")
    whole("repeats", repeats, 1)
    layers = [copy.deepcopy(layer) for layer in net]
    devices = {part.device for part in tensors(check(sample, "the sample")) if part.is_cuda}
    with torch.random.fork_rng(sorted(device.index for device in devices)), torch.enable_grad():
        rounds = [_measure(layers, sample) for _ in range(repeats + 1)][1:]  # the first one warms up
    return [
        LayerProfile(
            median(layer.forward for layer in of_layer),
            median(layer.backward for layer in of_layer),
            of_layer[0].activations,
            of_layer[0].parameters,
        )
        for of_layer in zip(*rounds, strict=True)
    ]


def balance_by_time(net: nn.Sequential, sample: Value, K: int) -> tuple[int, ...]:
    """K layer counts whose slowest stage, forward and backward, is as fast as possible; arguments as in `profile`."""
    return balance_by_cost([layer.forward + layer.backward for layer in profile(net, sample)], K)


def balance_by_memory(net: nn.Sequential, sample: Value, K: int, copies: float = 2) -> tuple[int, ...]:
    """K layer counts whose fullest stage holds as few bytes as possible: activations, and `copies` of the parameters.

    copies: 2 for weights and gradients; Adam adds 2. Other arguments as in `profile`.
    """
    return balance_by_cost([layer.activations + copies * layer.parameters for layer in profile(net, sample)], K)


def _measure(layers: list[nn.Module], sample: Value) -> list[LayerProfile]:
    profiles = []
    with shelf({}):
        for layer in layers:
            sample = change(lambda part: part.detach().requires_grad_(differentiable(part)), sample)
            ledger = Ledger(layer.parameters())
            with ledger.watch((0, 0)):
                started = _now(sample)
                output = check(layer(sample), "the output of a layer")
                forward = _now(sample) - started
            roots = [part for part in tensors(output) if part.requires_grad]
            started = _now(sample)
            if roots:
                torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
            backward = _now(sample) - started
            size = sum(weight.numel() * weight.element_size() for weight in layer.parameters())
            profiles.append(LayerProfile(forward, backward, ledger.peak, size))
            sample = output
    return profiles


def _now(value: Value) -> float:
    """The time when everything asked for so far is done."""
    for part in tensors(value):
        if part.is_cuda:
            torch.cuda.synchronize(part.device)
    return perf_counter()
