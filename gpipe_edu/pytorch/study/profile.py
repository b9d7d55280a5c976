"""Where to cut: layers measured one by one, and the balance that follows.

Every layer is copied before it runs, so parameters, buffers, gradients, random state and train/eval mode of the
model stay as they were.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import NamedTuple

import torch
from torch import nn

from gpipe_edu.base.validate import whole
from gpipe_edu.pytorch.guards import a_sequential, known_words
from gpipe_edu.pytorch.ledger import Ledger
from gpipe_edu.pytorch.skip import shelf
from gpipe_edu.pytorch.values import Value, change, check, differentiable, tensors
from gpipe_edu.split import balance_by_cost, split_batch


class LayerProfile(NamedTuple):
    """One layer's median seconds of a forward and a backward, and its bytes of saved activations and of parameters."""

    forward: float
    backward: float
    activations: int
    parameters: int


def profile(net: nn.Sequential, sample: Value, repeats: int = 5) -> list[LayerProfile]:
    """Measure each layer of `net` on `sample`, a micro-batch as it will come: shape (n, ...), on the layers' device.

    The layers are measured as they train, in training mode and with their backward.
    Raises TypeError if net is no nn.Sequential or a layer returns no tensor, ValueError for repeats below 1.
    """
    whole("repeats", repeats, 1)
    return _medians(_rounds(net, sample, None), lambda done, seconds: done >= repeats)


def balance_by_time(
    partitions: int,
    net: nn.Sequential,
    sample: Value,
    *,
    timeout: float = 1.0,
    device: torch.device | str | None = None,
) -> tuple[int, ...]:
    """Layer counts for `partitions` stages whose slowest, forward and backward, is as fast as possible.

    timeout: seconds after which no more rounds are measured; one always is. device: where to measure copies of the
    layers and the sample, by default where they are. Otherwise as `profile`.
    """
    K = _number_of_stages(partitions)
    layers = _medians(_rounds(net, sample, device), lambda done, seconds: seconds >= timeout)
    return balance_by_cost([layer.forward + layer.backward for layer in layers], K)


def balance_by_size(
    partitions: int,
    net: nn.Sequential,
    sample: Value,
    *,
    micro_batches: int = 1,
    param_scale: float = 2.0,
    device: torch.device | str | None = None,
    **other: object,
) -> tuple[int, ...]:
    """Layer counts for `partitions` stages whose fullest holds as few bytes as possible: what one micro-batch saves,
    and `param_scale` copies of the parameters.

    sample: a mini-batch, shape (N, ...), that will be cut into `micro_batches`. param_scale: 2 for weights and
    gradients; momentum adds 1, Adam 2. Otherwise as `balance_by_time`.
    """
    known_words(other, partitions, micro_batches, "balance_by_size")
    K = _number_of_stages(partitions)
    piece = split_batch(check(sample, "the sample"), whole("micro_batches", micro_batches, 1))[0]
    layers = _medians(_rounds(net, piece, device), lambda done, seconds: done >= 1)
    return balance_by_cost([layer.activations + param_scale * layer.parameters for layer in layers], K)


def _number_of_stages(partitions: object) -> int:
    if isinstance(partitions, nn.Module):
        raise TypeError("the number of stages comes first: balance_by_time(partitions, net, sample)")
    return whole("partitions", partitions, 1)


def _rounds(net: nn.Sequential, sample: Value, device: torch.device | str | None) -> Iterator[list[LayerProfile]]:
    """Every layer measured once, again and again."""
    layers = [copy.deepcopy(layer).train().to(device) for layer in a_sequential(net)]
    sample = change(lambda part: part.to(device), check(sample, "the sample"))
    devices = sorted({part.device.index for part in tensors(sample) if part.is_cuda})
    while True:
        with torch.random.fork_rng(devices), torch.enable_grad():
            measured = _measure(layers, sample)
        yield measured


def _medians(rounds: Iterator[list[LayerProfile]], enough: Callable[[int, float], bool]) -> list[LayerProfile]:
    """Medians over rounds, the first of which warms up; enough: given their number and the seconds, whether to stop."""
    next(rounds)
    began, done = perf_counter(), [next(rounds)]
    while not enough(len(done), perf_counter() - began):
        done.append(next(rounds))
    return [
        LayerProfile(
            median(layer.forward for layer in of_layer),
            median(layer.backward for layer in of_layer),
            of_layer[0].activations,
            of_layer[0].parameters,
        )
        for of_layer in zip(*done, strict=True)
    ]


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
    """The time when all queued work is done."""
    for part in tensors(value):
        if part.is_cuda:
            torch.cuda.synchronize(part.device)
    return perf_counter()
