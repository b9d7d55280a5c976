"""How `accumulate` is called; what goes through the network and comes back, the judge knows from its own layers."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

from gpipe_edu.sandbox.asking import ask_judge

from .garbage import ignore_other_objects
from .networks import Array, Item

FEW = 64
"""Micro-batches up to which tensors are counted: to look for them takes as long as a small step."""


class BufferQuestion(NamedTuple):
    """A mini-batch for a network with bf16 weights, of which the judge has the real ones.

    leftover: gradients are there before. training: its mode.
    """

    items: list[Item]
    x: Array
    y: Array
    M: int
    leftover: bool = False
    training: bool = True


class BufferAnswer(NamedTuple):
    """What one call gave, and did.

    gradients: as float64, None for what is no tensor; types: their types, in words. forwards: of this very network.
    copies: tensors as large as the first weight in memory at the last forward. grads: how many weights have a `.grad`
    at the end. weights: at the end, with their types in words.
    """

    gradients: list[Array | None]
    types: list[str]
    forwards: int
    copies: int
    grads: int
    weights: list[Array]
    weight_types: list[str]
    training: bool


class _Watch:
    def __init__(self, net: Any, M: int) -> None:
        self.M, self.weights = M, list(net.parameters())
        self.forwards = self.copies = 0
        net[0].register_forward_pre_hook(self._arrives)

    def _arrives(self, module: Any, inputs: Any) -> None:
        self.forwards += 1
        if self.M <= FEW:
            self.copies = sum(_is_copy(one, self.weights[0]) for one in gc.get_objects())


def perform(accumulate: Any, **given: Any) -> BufferAnswer | dict[str, str]:
    """The answer to a `BufferQuestion`."""
    import torch

    from .asked import build_asked, type_of

    asked = BufferQuestion(**given)
    net = build_asked(asked.items).train(asked.training).bfloat16()
    x, y = torch.from_numpy(asked.x).bfloat16(), torch.from_numpy(asked.y)
    if asked.leftover:
        torch.nn.functional.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
    ask_judge(("step",))
    watch = _Watch(net, asked.M)
    with ignore_other_objects():
        found = accumulate(net, torch.nn.CrossEntropyLoss(), x, y, asked.M)
    if isinstance(found, torch.Tensor) or not hasattr(found, "__iter__"):
        return {"slip": "not-a-list", "expected": "a list of tensors", "came": type(found).__name__}
    found = list(found.values()) if isinstance(found, dict) else list(found)
    return BufferAnswer(
        gradients=[one.detach().double().numpy() if isinstance(one, torch.Tensor) else None for one in found],
        types=[type_of(one) if isinstance(one, torch.Tensor) else type(one).__name__ for one in found],
        forwards=watch.forwards,
        copies=watch.copies,
        grads=sum(weight.grad is not None for weight in watch.weights),
        weights=[weight.detach().double().numpy() for weight in net.parameters()],
        weight_types=[type_of(weight) for weight in net.parameters()],
        training=all(module.training is asked.training for module in net.modules()),
    )


def _is_copy(one: Any, weight: Any) -> bool:
    import torch

    return isinstance(one, torch.Tensor) and one.shape == weight.shape
