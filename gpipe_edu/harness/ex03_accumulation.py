"""Training steps of a learner's, watched: what changed, and whether activations were let go.

What went through the network, the judge knows from its layers (`asked.py`). Whatever autograd keeps for a backward is
kept in a box of ours, so that the boxes that are left tell whose activations are in memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu.reference.twin import as_arrays
from gpipe_edu.sandbox.asking import ask_judge

from .networks import Array, Item

MOMENTUM: Final = 0.5


class StepsQuestion(NamedTuple):
    """Steps of SGD in PyTorch, one for each batch, on a network whose real weights the judge has.

    leftover: a batch whose gradients are there before the first one.
    """

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
    graph_kept: whether activations outlived their backward.
    """

    loss: Any
    has_graph: bool
    weights: list[Array | None]
    updates: int
    modes: list[bool]
    inputs_kept: bool
    inputs_ask: bool
    graph_kept: bool


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
        self._forwards = 0
        self._backwards: list[int] = []
        self.modes: list[bool] = []
        self.updates, self.graph_kept = 0, False
        self._boxes: weakref.WeakSet[_Box] = weakref.WeakSet()

    def look(self) -> None:
        """Note the mode, and whether activations are in memory that no backward needs any more."""
        self.modes.append(all(module.training for module in self.net.modules()))
        self.graph_kept |= any(box.forward in self._backwards for box in self._boxes)

    def pack(self, tensor: Any) -> _Box:
        """The box for a tensor that autograd wants to keep."""
        box = _Box(tensor.detach(), self._forwards)
        self._boxes.add(box)
        return box

    def _arrives(self, module: Any, inputs: Any) -> None:
        self.look()
        self._forwards += 1

    def _leaves(self, module: Any, inputs: Any, output: Any) -> None:
        forward, backwards = self._forwards, self._backwards
        if output.requires_grad:
            output.register_hook(lambda gradient: backwards.append(forward))

    def _updates(self, *_: Any) -> None:
        self.updates += 1


def perform(train_step: Any, **given: Any) -> list[WatchedStep]:
    """The steps of a `StepsQuestion`."""
    import torch

    from .asked import build_asked

    asked = StepsQuestion(**given)
    net = build_asked(asked.items).train(asked.training)
    loss_fn = torch.nn.CrossEntropyLoss() if asked.loss == "cross_entropy" else _squared_error
    optimizer = torch.optim.SGD(net.parameters(), lr=asked.rate, momentum=MOMENTUM)
    if asked.leftover is not None:
        x, y = map(torch.from_numpy, asked.leftover)
        loss_fn(net(x), y).backward()
    watch = _StepWatch(net, optimizer)
    return [_step(train_step, watch, loss_fn, optimizer, batch, asked.M) for batch in asked.batches]


def _step(train_step: Any, watch: _StepWatch, loss_fn: Any, optimizer: Any, batch: Any, M: int) -> WatchedStep:
    import torch

    ask_judge(("step",))
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
        graph_kept=watch.graph_kept,
    )


def _squared_error(output: Any, target: Any) -> Any:
    return ((output - target) ** 2).mean()
