"""One stage on its device: each op of a schedule is one method, as in the NumPy engine.

What a stage holds of a micro-batch is a `Kept`: the inputs as leaves of an autograd graph of its own, and the outputs
from which backward starts. Because no graph crosses a boundary, the backward of each stage is a call of its own, which
its worker can make while other workers make theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from .batchnorm import BatchNorms, Buffers
from .guards import unchanged
from .ledger import Ledger
from .randomness import Randomness
from .skip import Stash, Take, shelf
from .split_backward import backward, input_gradient
from .thread_context import Surroundings
from .values import Value, change, check, differentiable, tensors

MAIN = ""
"""The name of the way from layer to layer; skips have names of their own."""

OUTPUT = "output"
"""The name of the way on which the last layer's output leaves beside the loss, if it is asked for."""

Values = dict[str, Value]
"""What enters or leaves a stage: the main value and skips, by name."""

Gradients = dict[str, Sequence[Tensor | None]]
"""For every tensor of such a value its gradient, or None."""

Head = Callable[[Value], Tensor]
"""From the last stage's output of a micro-batch to its share of the loss."""


@dataclass
class Kept:
    """What a stage holds of one micro-batch."""

    leaves: Values
    outputs: Values = field(default_factory=dict)
    versions: Sequence[int] = ()
    buffers: Buffers = field(default_factory=dict)
    weight_gradient: Callable[[], None] | None = None

    def inputs(self) -> list[Tensor]:
        """All input tensors."""
        return [tensor for value in self.leaves.values() for tensor in tensors(value)]

    def input_gradients(self) -> Gradients:
        """Their gradients, by name."""
        return {name: [tensor.grad for tensor in tensors(value)] for name, value in self.leaves.items()}


@dataclass
class StepState:
    """What all stages share in one step. It ends with the step, and frees its tensors."""

    trains: bool  # False: nothing is kept for backward
    rematerializes: Callable[[int, int], bool]
    autocasts: Sequence[Callable[[], torch.autocast]]
    surroundings: Surroundings  # of the forward; a transparent backward is called in others
    randomness: Randomness
    heads: Sequence[Head] = ()
    returns_outputs: bool = False  # with heads
    ledgers: Mapping[int, Ledger] = field(default_factory=dict)  # of the stages whose activations are counted
    kept: dict[tuple[int, int], Kept] = field(default_factory=dict)


class Stage:
    """Consecutive layers on one device, as `gpipe_edu.reference.Stage` is in NumPy.

    `stashes`: names of the skips that leave for other stages; `last`: the loss is computed from this stage's output;
    `read`: modules that other stages have, too, and whose buffers are only read.
    """

    def __init__(
        self,
        index: int,
        layers: Sequence[nn.Module],
        device: torch.device,
        *,
        stashes: Sequence[str],
        deferred: bool,
        last: bool,
        read: Collection[nn.Module] = (),
    ) -> None:
        self.index, self.device, self.stashes, self.last = index, device, stashes, last
        self.layers = nn.ModuleList(layers)
        self.batch_norms = BatchNorms(self.layers, deferred, read)
        self._has_skips = any(isinstance(module, (Stash, Take)) for module in self.layers.modules())

    def forward(self, step: StepState, m: int, inputs: Values) -> Values:
        """F: from inputs, leaves of this stage alone, to outputs, leaves for the stages that wait for them."""
        kept = Kept(inputs)
        keeps_graph = step.trains and not step.rematerializes(m, self.index)
        if step.trains and not keeps_graph:  # a recompute must find these as this forward does
            kept.versions = [tensor._version for tensor in kept.inputs()]
            kept.buffers = self.batch_norms.snapshot()
        outputs = self._run(step, m, kept, graph=keeps_graph, first=True)
        # Whether the next stage needs a gradient for its input must be known even where this forward keeps no graph.
        wants = step.trains and not keeps_graph and self._wants_gradient(kept)
        if step.trains:
            step.kept[m, self.index] = kept
            kept.outputs = outputs if keeps_graph else {}
            if self.index in step.ledgers:
                step.ledgers[self.index].add((m, self.index), kept.inputs())

        def sent(tensor: Tensor) -> Tensor:
            needs = tensor.requires_grad if keeps_graph else wants and differentiable(tensor)
            return tensor.detach().requires_grad_(needs)

        return {name: change(sent, value) for name, value in outputs.items()}

    def recompute(self, step: StepState, m: int) -> None:
        """R: the forward again, this time with its graph."""
        kept = step.kept[m, self.index]
        unchanged(kept.versions, [tensor._version for tensor in kept.inputs()], "the input of a stage")
        kept.outputs = step.surroundings.run(partial(self._run, step, m, kept, graph=True, first=False))

    def backward(self, step: StepState, m: int, gradients: Gradients) -> Gradients:
        """B: the weights' gradients go to `.grad`; returns those of the inputs."""
        kept = self._finish(step, m)
        roots, given = _roots(kept, gradients)
        if roots:
            with step.randomness.behind(m, self.index, self.device):
                backward(roots, given)
        return kept.input_gradients()

    def input_gradient(self, step: StepState, m: int, gradients: Gradients) -> Gradients:
        """I: the gradients of the inputs; the weights' are left for W."""
        kept = step.kept[m, self.index]
        roots, given = _roots(kept, gradients)
        if roots:
            with step.randomness.behind(m, self.index, self.device):
                kept.weight_gradient = input_gradient(roots, given, kept.inputs())
        return kept.input_gradients()

    def weight_gradient(self, step: StepState, m: int) -> None:
        """W: what I left."""
        finish = self._finish(step, m).weight_gradient
        if finish is not None:
            with step.randomness.behind(m, self.index, self.device):
                finish()

    def _run(self, step: StepState, m: int, kept: Kept, graph: bool, first: bool) -> Values:
        with ExitStack() as around:
            around.enter_context(torch.set_grad_enabled(graph))
            for autocast in step.autocasts:
                around.enter_context(autocast())
            # Most stages need none of the following, and each costs microseconds per op.
            if self.batch_norms.keeps_statistics:
                around.enter_context(self.batch_norms.forward(first, kept.buffers))
            if graph and self.index in step.ledgers:
                around.enter_context(step.ledgers[self.index].watch((m, self.index)))
            # What a layer hooks to its input, it hooks again in a recompute: to the same tensor, if both had one.
            again = step.trains and not graph
            given = {name: change(leaf, value) for name, value in kept.leaves.items()} if again else kept.leaves
            skips: dict[str, Any] = {}
            if self._has_skips:
                received = {name: value for name, value in given.items() if name != MAIN}
                skips = around.enter_context(shelf(received))
            layers_draw, loss_draws = step.randomness.of(m, self.index, self.device, first)
            with layers_draw:
                outputs: Values = {MAIN: self._through_layers(given[MAIN], kept)}
            for name in self.stashes:
                if name not in skips:
                    raise ValueError(f'the Stash("{name}") of this stage did not run, and a later stage waits for it')
                outputs[name] = check(skips.pop(name), f'what Stash("{name}") keeps for a later stage')
            if step.heads and self.last:
                if step.returns_outputs:
                    outputs[OUTPUT] = change(Tensor.detach, outputs[MAIN])
                with loss_draws:
                    outputs[MAIN] = step.heads[m](outputs[MAIN])
        return outputs

    def _through_layers(self, x: Value, kept: Kept) -> Value:
        versions = [tensor._version for tensor in kept.inputs()]
        try:
            for layer in self.layers:
                x = layer(x)
        except RuntimeError as error:
            if "leaf Variable" in str(error) and "in-place" in str(error):
                raise ValueError(IN_PLACE) from error
            raise
        if [tensor._version for tensor in kept.inputs()] != versions:
            raise ValueError(IN_PLACE)
        return check(x, "the output of a stage")

    def _wants_gradient(self, kept: Kept) -> bool:
        # Checked anew each time: weights may be frozen, or replaced, between two steps.
        return any(tensor.requires_grad for tensor in chain(kept.inputs(), self.layers.parameters(), self._others()))

    def _others(self) -> Iterator[Tensor]:
        """Tensors that layers hold without registering them as parameters."""
        for module in self.layers.modules():
            for held in (*module._buffers.values(), *vars(module).values()):
                if isinstance(held, Tensor):
                    yield held

    def _finish(self, step: StepState, m: int) -> Kept:
        if self.index in step.ledgers:
            step.ledgers[self.index].free((m, self.index))
        return step.kept.pop((m, self.index))


IN_PLACE = (
    "a layer changes the input of its stage in place, but the stage in front and a recompute need it as it was; use "
    "the layer's out-of-place form (inplace=False) or move the cut"
)


def leaf(tensor: Tensor) -> Tensor:
    """`tensor` as the start of a graph of its own."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _roots(kept: Kept, gradients: Gradients) -> tuple[list[Tensor], list[Tensor | None]]:
    """The outputs that backward starts from, with their gradients. A loss gets none: its gradient is 1."""
    roots: list[Tensor] = []
    given: list[Tensor | None] = []
    for name, value in kept.outputs.items():
        for index, tensor in enumerate(tensors(value)):
            gradient = gradients[name][index] if name in gradients else None
            if tensor.requires_grad and (gradient is not None or name not in gradients):
                roots.append(tensor)
                given.append(gradient)
    return roots, given
