"""A network that fits no host: each rank builds its own layers and no others.

Instead of a net, a pipeline is given a list of functions, each of which builds one layer. All ranks call all of them on
PyTorch's device "meta", where tensors hold no numbers, so that the whole network can be checked and cut; then each
builds the layers of its own stages for real.

Layer i draws its numbers from a generator seeded with i and `torch.initial_seed()`, which is what `torch.manual_seed`
was given. So they do not depend on the layers that were built before it, nor on the rank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

Builder = Callable[[], nn.Module]
"""Builds one layer, a new one at each call."""

Builders = list[Builder] | tuple[Builder, ...]


def build_layers(builders: Iterable[Builder]) -> nn.Sequential:
    """The whole net on one device, the same net that a `Pipeline` of these builders has in parts."""
    return nn.Sequential(*(build_layer(builder, index) for index, builder in enumerate(builders)))


def build_layer(builder: Builder, index: int) -> nn.Module:
    """Layer `index` of a net. The state of PyTorch's generator stays as it is.

    Raises ValueError for a layer that the builder has returned before.
    """
    digest = hashlib.blake2b(f"{torch.initial_seed()} {index}".encode(), digest_size=7).digest()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int.from_bytes(digest, "big"))
        layer = builder()
    for name, tensor in tensors_of(layer):
        if tensor.is_meta:
            raise ValueError(
                f"the function for layer {index} gave back a {type(layer).__name__} whose {name} it had built before; "
                "it must build a new layer at each call, and a weight of two layers must be in a whole net"
            )
    return layer


def outline(builders: Sequence[Any]) -> nn.Sequential:
    """The whole net on the device "meta", where it takes no memory.

    Raises TypeError for anything but functions that build layers, ValueError for a layer that can't be built there.
    """
    layers = []
    for index, builder in enumerate(builders):
        if isinstance(builder, nn.Module) or not callable(builder):
            raise TypeError(
                f"layer {index} of the list is a {type(builder).__name__}; a list has functions that build layers, "
                "such as partial(nn.Linear, 8, 8), and layers that are built already go into an nn.Sequential"
            )
        try:
            with torch.device("meta"):
                layer = builder()
        except (NotImplementedError, RuntimeError) as error:
            raise ValueError(
                f"layer {index} can't be built under torch.device('meta'), where a pipeline looks at it first: "
                f"{error}. Compute what needs numbers outside of the function"
            ) from error
        if not isinstance(layer, nn.Module):
            raise TypeError(f"the function for layer {index} gave back a {type(layer).__name__}; it must build a layer")
        for name, tensor in tensors_of(layer):
            if not tensor.is_meta:
                raise ValueError(
                    f"{name} of layer {index} is on {tensor.device} although the layer was built under "
                    "torch.device('meta'): build all of it inside of the function, and leave the device open"
                )
        layers.append(layer)
    return nn.Sequential(*layers)


def check_numbers(layers: nn.Module) -> None:
    """Raises ValueError for layers on the device "meta", which can't be trained."""
    for name, tensor in tensors_of(layers):
        if tensor.is_meta:
            raise ValueError(
                f"{name} is on the device meta, where it has no numbers: give a list of functions that build the "
                "layers, such as partial(nn.Linear, 8, 8), and each rank builds its own"
            )


def tensors_of(layer: nn.Module) -> Iterable[tuple[str, Tensor]]:
    """The weights and buffers, by name."""
    return chain(layer.named_parameters(), layer.named_buffers())
