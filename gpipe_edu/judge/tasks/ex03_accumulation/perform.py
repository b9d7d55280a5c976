"""A learner's training steps, watched: what changed, and whether activations were let go.

What went through the network, the judge knows from its layers (`remote_layers.py`). Whatever autograd keeps for a
backward is kept in a box of ours, so that the boxes that are left tell whose activations are in memory. Weak references
tell which outputs of the network are still there, and a mark on each output's graph tells whether the graph is.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu.judge.guest.memory import ignore_other_objects
from gpipe_edu.judge.guest.networks import Array, Item, asks_of, modes_of
from gpipe_edu.process.asking import ask_judge
from gpipe_edu.reference.twin import as_arrays

MOMENTUM: Final = 0.5

SMOOTHING: Final = 0.2
"""Of labels, in the loss called "smoothed"."""


class StepsQuestion(NamedTuple):
    """Steps of SGD in PyTorch, one for each batch, on a network whose real weights the judge has.

    leftover: a batch whose gradients are there before the first one. frozen: how many layers at the front are in
    evaluation mode, with weights that ask for no gradients. decay: of the weights, by the optimizer.
    """

    items: list[Item]
    batches: Sequence[tuple[Array, Array]]
    M: int
    rate: float
    loss: str = "cross_entropy"
    training: bool = True
    leftover: tuple[Array, Array] | None = None
    frozen: int = 0
    decay: float = 0.0


class WatchedStep(NamedTuple):
    """What one call did.

    loss: a number where it gave one, else what came. has_graph: whether the loss still hangs on its graph. grads: in
    `.grad` as the optimizer stepped. updates: calls of `optimizer.step()`. late_forwards: forwards of the network after
    the first of them. other_setting: name, old and new value of an optimizer's setting, if one was changed.
    modes_kept: whether every layer was in its mode at each forward and at the end. asks_kept: whether the same weights
    ask for gradients. inputs_kept: whether the numbers of x and y are as they were. inputs_ask: whether x or y now asks
    for gradients. graph_kept: whether activations outlived their backward. outputs_kept: whether outputs of several
    earlier pieces were there when one went forward. left: whether outputs or their graphs are there after the call.
    """

    loss: Any
    has_graph: bool
    weights: list[Array | None]
    grads: list[Array | None]
    updates: int
    late_forwards: int
    other_setting: list[str]
    modes_kept: bool
    asks_kept: bool
    inputs_kept: bool
    inputs_ask: bool
    graph_kept: bool
    outputs_kept: bool
    left: bool


class _Box:
    """A tensor that autograd keeps for the backward of one forward."""

    def __init__(self, tensor: Any, forward: int) -> None:
        self.tensor, self.forward = tensor, forward


class _Mark:
    """Put on a graph: as long as it is there, so is the graph."""


class _StepWatch:
    """Watches a network through one step after the other."""

    def __init__(self, net: Any, optimizer: Any) -> None:
        self.net, self._optimizer = net, optimizer
        self._modes, self._asks = modes_of(net), asks_of(net)
        self._settings = _settings_of(optimizer)
        self.begin()
        net[0].register_forward_pre_hook(self._arrives)  # on layers, so that a loop over them is seen, too
        net[-1].register_forward_hook(self._leaves)
        optimizer.register_step_pre_hook(self._is_about_to_update)
        optimizer.register_step_post_hook(self._updates)

    def begin(self) -> None:
        """A step begins."""
        self._forwards = 0
        self._backwards: list[int] = []
        self.updates, self.late_forwards = 0, 0
        self.grads: list[Array | None] = []
        self.other_setting: list[str] = []
        self.modes_kept, self.graph_kept, self.outputs_kept = True, False, False
        self._boxes: weakref.WeakSet[_Box] = weakref.WeakSet()
        self._marks: weakref.WeakSet[_Mark] = weakref.WeakSet()
        self._outputs: list[Any] = []

    def look(self) -> None:
        """Note the modes and settings, and whether activations are in memory that no backward needs any more."""
        self.modes_kept &= modes_of(self.net) == self._modes
        self.graph_kept |= any(box.forward in self._backwards for box in self._boxes)
        changed = (
            [name, str(was), str(now)]
            for (name, was), (_, now) in zip(self._settings, _settings_of(self._optimizer), strict=False)
            if was != now
        )
        self.other_setting = self.other_setting or next(changed, [])

    @property
    def asks_kept(self) -> bool:
        """Whether the same weights ask for gradients as at first."""
        return asks_of(self.net) == self._asks

    @property
    def left(self) -> bool:
        """Whether outputs or their graphs are still there when nobody needs them any more."""
        return _stays(lambda: len(self._marks) + self._outputs_there > 0)

    def pack(self, tensor: Any) -> _Box:
        """The box for a tensor that autograd wants to keep."""
        box = _Box(tensor.detach(), self._forwards)
        self._boxes.add(box)
        return box

    @property
    def _outputs_there(self) -> int:
        return sum(not output.expired() for output in self._outputs)

    def _arrives(self, module: Any, inputs: Any) -> None:
        self.look()
        self._forwards += 1
        self.late_forwards += self.updates > 0
        # The last output may stay in a variable until this forward's takes its place.
        self.outputs_kept |= _stays(lambda: self._outputs_there > 1)

    def _leaves(self, module: Any, inputs: Any, output: Any) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        forward, backwards = self._forwards, self._backwards
        self._outputs.append(StorageWeakRef(output.untyped_storage()))  # type: ignore[no-untyped-call]
        if output.requires_grad:
            output.register_hook(lambda gradient: backwards.append(forward))
            mark = output.grad_fn.metadata["mark"] = _Mark()
            self._marks.add(mark)

    def _is_about_to_update(self, *_: Any) -> None:
        self.look()
        self.grads = as_arrays(weight.grad for weight in self.net.parameters())

    def _updates(self, *_: Any) -> None:
        self.updates += 1


def _stays(there: Callable[[], bool]) -> bool:
    """Whether it is still there when reference cycles have been collected."""
    return there() and (gc.collect(), there())[1]


def _settings_of(optimizer: Any) -> list[tuple[str, Any]]:
    return [(name, value) for group in optimizer.param_groups for name, value in group.items() if name != "params"]


@ignore_other_objects()
def perform(train_step: Any, **given: Any) -> list[WatchedStep]:
    """The steps of a `StepsQuestion`."""
    import torch

    from gpipe_edu.judge.guest.remote_layers import build_asked

    asked = StepsQuestion(**given)
    net = build_asked(asked.items).train(asked.training)
    losses: dict[str, Any] = {
        "cross_entropy": torch.nn.CrossEntropyLoss(),
        "smoothed": torch.nn.CrossEntropyLoss(label_smoothing=SMOOTHING),
        "lopsided": _lopsided_error,
        "mse": _squared_error,
    }
    loss_fn = losses[asked.loss]
    optimizer = torch.optim.SGD(net.parameters(), lr=asked.rate, momentum=MOMENTUM, weight_decay=asked.decay)
    if asked.leftover is not None:
        x, y = map(torch.from_numpy, asked.leftover)
        loss_fn(net(x), y).backward()
    net[: asked.frozen].eval().requires_grad_(False)  # whose `.grad` stays, if it has one
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
    has_graph = is_one and loss.requires_grad
    is_number = is_one or (isinstance(loss, np.ndarray) and loss.ndim == 0)
    loss = loss.item() if is_number else loss  # so that we don't hold its graph
    return WatchedStep(
        loss=loss,
        has_graph=has_graph,
        weights=as_arrays(watch.net.parameters()),
        grads=watch.grads,
        updates=watch.updates,
        late_forwards=watch.late_forwards,
        other_setting=watch.other_setting,
        modes_kept=watch.modes_kept,
        asks_kept=watch.asks_kept,
        inputs_kept=all(np.array_equal(now.detach().numpy(), was) for now, was in zip(given, batch, strict=True)),
        inputs_ask=any(tensor.requires_grad for tensor in given),
        graph_kept=watch.graph_kept,
        outputs_kept=watch.outputs_kept,
        left=watch.left,
    )


def _squared_error(output: Any, target: Any) -> Any:
    return ((output - target) ** 2).mean()


def _lopsided_error(output: Any, target: Any) -> Any:
    error = output - target
    return (error**2 * (1.0 + (error > 0))).mean()
