"""Training steps of a learner's, watched: what went through the network, and when its activations were let go.

The layers write down each forward, and their output each gradient that comes back for it. Whatever autograd keeps for a
backward is kept in a box of ours, so that the boxes that are left tell whose activations are in memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from gpipe_edu.course.exercise.networks import Array, Item, network
from gpipe_edu.reference.twin import as_arrays


class Step(NamedTuple):
    """What one call did.

    loss: a number where it gave one, else what came. has_graph: whether the loss still hangs on its graph. updates:
    calls of `optimizer.step()`. modes: whether every layer was in training mode, at each forward and at the end.
    inputs_kept: whether the numbers of x and y are as they were. inputs_ask: whether x or y now asks for gradients.

    trace: ("F", samples, waiting) for each forward of the network, "N" if without autograd, and ("B", forward) for each
    gradient of its output. waiting: the earlier forwards whose activations were in memory. held: those at the end.
    """

    loss: Any
    has_graph: bool
    weights: list[Array | None]
    updates: int
    modes: list[bool]
    inputs_kept: bool
    inputs_ask: bool
    trace: list[tuple[Any, ...]]
    held: list[int]

    @property
    def forwards(self) -> list[int]:
        """Samples of those forwards that keep activations; pieces without any don't count."""
        return [entry[1] for entry in self.trace if entry[0] == "F" and entry[1]]

    @property
    def ran_empty(self) -> bool:
        """Whether a piece without samples went through the network."""
        return any(entry[0] != "B" and entry[1] == 0 for entry in self.trace)

    @property
    def largest(self) -> int:
        """Samples of the largest forward of all."""
        return max((entry[1] for entry in self.trace if entry[0] != "B"), default=0)


class _Box:
    """A tensor that autograd keeps for the backward of one forward."""

    def __init__(self, tensor: Any, forward: int) -> None:
        self.tensor, self.forward = tensor, forward


class _Watch:
    """Watches a network through one step after the other."""

    def __init__(self, net: Any, optimizer: Any) -> None:
        self.net = net
        self.clear()
        net[0].register_forward_pre_hook(self._arrives)  # of the layers, so that a loop over them is seen, too
        net[-1].register_forward_hook(self._leaves)
        optimizer.register_step_post_hook(self._steps)

    def clear(self) -> None:
        """A step begins."""
        self.trace: list[tuple[Any, ...]] = []
        self.modes: list[bool] = []
        self.updates = self.forwards = 0
        self._boxes: weakref.WeakSet[_Box] = weakref.WeakSet()

    def boxes(self) -> AbstractContextManager[Any]:
        """Inside, what autograd keeps is in boxes."""
        import torch

        unpack: Callable[[_Box], Any] = lambda box: box.tensor  # noqa: E731
        return torch.autograd.graph.saved_tensors_hooks(self._pack, unpack)

    def held(self) -> list[int]:
        """The forwards whose activations are in memory."""
        return sorted({box.forward for box in self._boxes})

    def note_mode(self) -> None:
        """Note whether every layer is in training mode."""
        self.modes.append(all(module.training for module in self.net.modules()))

    def _pack(self, tensor: Any) -> _Box:
        box = _Box(tensor.detach(), self.forwards - 1)
        self._boxes.add(box)
        return box

    def _arrives(self, module: Any, inputs: Any) -> None:
        import torch

        self.trace.append(("F" if torch.is_grad_enabled() else "N", len(inputs[0]), self.held()))
        self.forwards += 1
        self.note_mode()

    def _leaves(self, module: Any, inputs: Any, output: Any) -> None:
        forward, trace = self.forwards - 1, self.trace
        if output.requires_grad:
            output.register_hook(lambda gradient: trace.append(("B", forward)))

    def _steps(self, *_: Any) -> None:
        self.updates += 1


def perform(
    train_step: Any, items: list[Item], batches: Any, M: int, rate: float, loss: str, training: bool, leftover: Any
) -> list[Step]:
    """Some steps of SGD in PyTorch; leftover: a batch whose gradients are there before the first one."""
    import torch

    net = network(items).train(training)
    loss_fn = torch.nn.CrossEntropyLoss() if loss == "cross_entropy" else _squared_error
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.5)
    if leftover is not None:
        loss_fn(net(torch.from_numpy(leftover[0])), torch.from_numpy(leftover[1])).backward()
    watch = _Watch(net, optimizer)
    return [_step(train_step, watch, loss_fn, optimizer, batch, M) for batch in batches]


def _step(train_step: Any, watch: _Watch, loss_fn: Any, optimizer: Any, batch: Any, M: int) -> Step:
    import torch

    watch.clear()
    given = [torch.from_numpy(array.copy()) for array in batch]
    with watch.boxes():
        loss = train_step(watch.net, loss_fn, optimizer, *given, M)
    watch.note_mode()
    is_one = isinstance(loss, torch.Tensor) and loss.numel() == 1
    return Step(
        loss=loss.item() if is_one else loss,
        has_graph=is_one and loss.requires_grad,
        weights=as_arrays(watch.net.parameters()),
        updates=watch.updates,
        modes=watch.modes,
        inputs_kept=all(np.array_equal(now.detach().numpy(), was) for now, was in zip(given, batch, strict=True)),
        inputs_ask=any(tensor.requires_grad for tensor in given),
        trace=watch.trace,
        held=watch.held(),
    )


def _squared_error(output: Any, target: Any) -> Any:
    return ((output - target) ** 2).mean()
