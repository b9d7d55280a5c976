"""Training steps of a learner's, watched: what went through the network, and when its activations were let go.

The layers write down each forward, and their output each gradient that comes back for it. Whatever autograd keeps for a
backward is kept in a box of ours, so that the boxes that are left tell whose activations are in memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu.reference.twin import as_arrays

from .networks import Array, Item, build_network

MOMENTUM: Final = 0.5


class StepsQuestion(NamedTuple):
    """Steps of SGD in PyTorch, one for each batch. leftover: a batch whose gradients are there before the first one."""

    items: list[Item]
    batches: Sequence[tuple[Array, Array]]
    M: int
    rate: float
    loss: str = "cross_entropy"
    training: bool = True
    leftover: tuple[Array, Array] | None = None


class WatchedStep(NamedTuple):
    """What one call did.

    loss: a number where it gave one, else what came. has_graph: whether the loss still hangs on its graph. updates:
    calls of `optimizer.step()`. modes: whether every layer was in training mode, at each forward and at the end.
    inputs_kept: whether the numbers of x and y are as they were. inputs_ask: whether x or y now asks for gradients.

    forwards: for each its samples, whether with autograd, and which earlier ones were in memory then, because their
    backward was still to come. backwards: of which forwards. graph_kept: whether activations outlived their backward.
    """

    loss: Any
    has_graph: bool
    weights: list[Array | None]
    updates: int
    modes: list[bool]
    inputs_kept: bool
    inputs_ask: bool
    forwards: list[tuple[int, bool, list[int]]]
    backwards: list[int]
    graph_kept: bool

    @property
    def trained(self) -> list[int]:
        """Samples of those forwards that keep activations; pieces without any don't count."""
        return [samples for samples, with_autograd, _ in self.forwards if with_autograd and samples]

    @property
    def ran_empty(self) -> bool:
        """Whether a piece without samples went through the network."""
        return any(samples == 0 for samples, _, _ in self.forwards)


class _Box:
    """A tensor that autograd keeps for the backward of one forward."""

    def __init__(self, tensor: Any, forward: int) -> None:
        self.tensor, self.forward = tensor, forward


class _StepWatch:
    """Watches a network through one step after the other."""

    def __init__(self, net: Any, optimizer: Any) -> None:
        self.net = net
        self.begin()
        net[0].register_forward_pre_hook(self._arrives)  # of the layers, so that a loop over them is seen, too
        net[-1].register_forward_hook(self._leaves)
        optimizer.register_step_post_hook(self._updates)

    def begin(self) -> None:
        """A step begins."""
        self.forwards: list[tuple[int, bool, list[int]]] = []
        self.backwards: list[int] = []
        self.modes: list[bool] = []
        self.updates, self.graph_kept = 0, False
        self._boxes: weakref.WeakSet[_Box] = weakref.WeakSet()

    def look(self) -> set[int]:
        """Note the mode, and whose activations are in memory; returns those that still wait for their backward."""
        self.modes.append(all(module.training for module in self.net.modules()))
        held = {box.forward for box in self._boxes}
        self.graph_kept |= not held.isdisjoint(self.backwards)
        return held.difference(self.backwards)

    def pack(self, tensor: Any) -> _Box:
        """The box for a tensor that autograd wants to keep."""
        box = _Box(tensor.detach(), len(self.forwards) - 1)
        self._boxes.add(box)
        return box

    def _arrives(self, module: Any, inputs: Any) -> None:
        import torch

        self.forwards.append((len(inputs[0]), torch.is_grad_enabled(), sorted(self.look())))

    def _leaves(self, module: Any, inputs: Any, output: Any) -> None:
        forward, backwards = len(self.forwards) - 1, self.backwards
        if output.requires_grad:
            output.register_hook(lambda gradient: backwards.append(forward))

    def _updates(self, *_: Any) -> None:
        self.updates += 1


def perform(train_step: Any, **given: Any) -> list[WatchedStep]:
    """The steps of a `StepsQuestion`."""
    import torch

    asked = StepsQuestion(**given)
    net = build_network(asked.items).train(asked.training)
    loss_fn = torch.nn.CrossEntropyLoss() if asked.loss == "cross_entropy" else _squared_error
    optimizer = torch.optim.SGD(net.parameters(), lr=asked.rate, momentum=MOMENTUM)
    if asked.leftover is not None:
        x, y = map(torch.from_numpy, asked.leftover)
        loss_fn(net(x), y).backward()
    watch = _StepWatch(net, optimizer)
    return [_step(train_step, watch, loss_fn, optimizer, batch, asked.M) for batch in asked.batches]


def _step(train_step: Any, watch: _StepWatch, loss_fn: Any, optimizer: Any, batch: Any, M: int) -> WatchedStep:
    import torch

    watch.begin()
    given = [torch.from_numpy(array.copy()) for array in batch]
    with torch.autograd.graph.saved_tensors_hooks(watch.pack, lambda box: box.tensor):
        loss = train_step(watch.net, loss_fn, optimizer, *given, M)
    watch.look()
    is_one = isinstance(loss, torch.Tensor) and loss.numel() == 1
    return WatchedStep(
        loss=loss.item() if is_one else loss,
        has_graph=is_one and loss.requires_grad,
        weights=as_arrays(watch.net.parameters()),
        updates=watch.updates,
        modes=watch.modes,
        inputs_kept=all(np.array_equal(now.detach().numpy(), was) for now, was in zip(given, batch, strict=True)),
        inputs_ask=any(tensor.requires_grad for tensor in given),
        forwards=watch.forwards,
        backwards=watch.backwards,
        graph_kept=watch.graph_kept,
    )


def _squared_error(output: Any, target: Any) -> Any:
    return ((output - target) ** 2).mean()
