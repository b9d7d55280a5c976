"""How `accumulate` is called; what goes through the network and comes back, the judge knows from its own layers."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from gpipe_edu.judge.guest.forms import gives_items
from gpipe_edu.judge.guest.memory import ignore_other_objects
from gpipe_edu.judge.guest.networks import Array, Item
from gpipe_edu.process.asking import ask_judge

FEW = 64
"""Micro-batches up to which tensors are counted: looking for them takes as long as a small step."""


class BufferQuestion(NamedTuple):
    """A mini-batch for a network with bf16 weights; the judge has the real ones.

    leftover: gradients are there before. training: its mode. second: the same network has been through another
    mini-batch before. shared: its first two Linears share weights.
    """

    items: list[Item]
    x: Array
    y: Array
    M: int
    leftover: bool = False
    training: bool = True
    second: bool = False
    shared: bool = False


class BufferAnswer(NamedTuple):
    """What one call gave, and did.

    gradients: as float64, None for what is not a tensor; types: their types, in words. forwards: of this very network.
    copies: tensors in memory at the last forward as large as the first weight. held, doubles: tensors as large as the
    first bias when the second micro-batch goes back: those in bf16 added since the first one did, and those in float64.
    in_its_mode: whether each forward ran in the mode that was given. grads: how many weights have a `.grad` at the end.
    weights: at the end, with their types in words. trained: how many weights still are. first_changed: whether this
    call has changed what the one before gave.
    """

    gradients: list[Array | None]
    types: list[str]
    forwards: int
    copies: int
    held: int
    doubles: int
    in_its_mode: bool
    grads: int
    weights: list[Array]
    weight_types: list[str]
    trained: int
    training: bool
    first_changed: bool


class _Watch:
    def __init__(self, net: Any, M: int) -> None:
        self.M, self.net, self.weights = M, net, list(net.parameters())
        self.training, self.in_its_mode = net.training, True
        self.forwards = self.copies = 0
        self.types = [Counter[str]()]
        net[0].register_forward_pre_hook(self._arrives)
        net[-1].register_forward_hook(self._leaves)

    def _arrives(self, module: Any, inputs: Any) -> None:
        self.forwards += 1
        self.in_its_mode &= _is_in_mode(self.net, self.training)
        if self.M <= FEW:
            self.copies = len(_copies(self.weights[0]))

    def _leaves(self, module: Any, inputs: Any, output: Any) -> None:
        if output.requires_grad:
            output.register_hook(self._goes_back)

    def _goes_back(self, gradient: Any) -> None:
        """Look at tensors as large as the first bias: no piece of a mini-batch has its form."""
        from gpipe_edu.judge.guest.remote_layers import type_of

        if self.M <= FEW and len(self.types) < 3:
            self.types.append(Counter(type_of(one) for one in _copies(self.weights[1])))


def perform(accumulate: Any, **given: Any) -> BufferAnswer | dict[str, str]:
    """The answer to a `BufferQuestion`."""
    import torch

    from gpipe_edu.judge.guest.remote_layers import build_asked, type_of

    asked = BufferQuestion(**given)
    net = build_asked(asked.items).train(asked.training).bfloat16()
    if asked.shared:
        net[2].weight, net[2].bias = net[0].weight, net[0].bias
    x, y = torch.from_numpy(asked.x).bfloat16(), torch.from_numpy(asked.y)
    if asked.leftover:
        torch.nn.functional.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
    earlier = list(accumulate(net, torch.nn.CrossEntropyLoss(), -x, y, asked.M)) if asked.second else []
    as_it_was = [one.clone() for one in earlier]
    ask_judge(("step",))
    watch = _Watch(net, asked.M)
    with ignore_other_objects():
        found = accumulate(net, torch.nn.CrossEntropyLoss(), x, y, asked.M)
    if isinstance(found, torch.Tensor | Iterator) or not gives_items(found):
        return {"slip": "not-a-list", "expected": "a list of tensors", "came": type(found).__name__}
    found = list(found)
    return BufferAnswer(
        gradients=[one.detach().double().numpy() if isinstance(one, torch.Tensor) else None for one in found],
        types=[type_of(one) if isinstance(one, torch.Tensor) else type(one).__name__ for one in found],
        forwards=watch.forwards,
        copies=watch.copies,
        held=watch.types[-1]["bfloat16"] - watch.types[-2]["bfloat16"] if len(watch.types) > 2 else 0,
        doubles=watch.types[-1]["float64"],
        in_its_mode=watch.in_its_mode,
        grads=sum(weight.grad is not None for weight in watch.weights),
        weights=[weight.detach().double().numpy() for weight in net.parameters()],
        weight_types=[type_of(weight) for weight in net.parameters()],
        trained=sum(weight.requires_grad for weight in net.parameters()),
        training=_is_in_mode(net, asked.training),
        first_changed=not all(map(torch.equal, earlier, as_it_was)),
    )


def _is_in_mode(net: Any, training: bool) -> bool:
    return all(module.training is training for module in net.modules())


def _copies(weight: Any) -> list[Any]:
    """The tensors that are as large as this weight."""
    import torch

    return [one for one in gc.get_objects() if isinstance(one, torch.Tensor) and one.shape == weight.shape]
