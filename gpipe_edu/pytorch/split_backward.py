"""A backward in two halves: I, the gradient of a stage's input, and W, those of its weights.

Asking autograd twice would walk the chain of activations twice, and zero bubble would gain nothing. So I notes the
gradient that arrives at each node where the way to the weights leaves the way to the input, and W starts there:

    output <- node <- node <- input          I walks this chain and takes notes
                |       |
             weight   weight                 W goes only down here
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node


class _Fork:
    """A node on the way to the input from which a way to some weights leaves, and the gradients it received."""

    def __init__(self, node: Node, weights: list[Tensor]) -> None:
        self.node, self.weights = node, weights
        self.received: Sequence[Tensor | None] = ()
        self._hook = node.register_prehook(self._note)

    def _note(self, gradients: Sequence[Tensor | None]) -> None:
        self.received = gradients
        self._hook.remove()

    def weight_gradients(self) -> None:
        """Add the gradients of the weights below this node to their `.grad`."""
        given = [(GradientEdge(self.node, i), g) for i, g in enumerate(self.received) if g is not None]
        if given:
            edges, gradients = zip(*given, strict=True)
            torch.autograd.backward(edges, gradients, inputs=self.weights)


def input_gradient(
    roots: Sequence[Tensor], gradients: Sequence[Tensor | None], inputs: Sequence[Tensor], weights: Sequence[Tensor]
) -> Callable[[], None]:
    """Add the gradients of `inputs` to their `.grad`; returns a function that does the same for `weights`.

    roots: the stage's outputs that need a gradient; gradients: one for each, None for a scalar loss.
    """
    used = [tensor for tensor in inputs if tensor.requires_grad]

    def all_at_once() -> None:
        if weights:
            torch.autograd.backward(roots, gradients, inputs=list(weights))

    if not used:
        return all_at_once
    forks, complete = _forks(roots, used, weights)
    torch.autograd.backward(roots, gradients, inputs=used, retain_graph=True)
    reached = [id(weight) for fork in forks for weight in fork.weights]
    if not complete or len(set(reached)) < len(reached):
        # A weight used in two places is below two forks, and what flows from one fork to the other would count twice.
        return all_at_once

    def from_forks() -> None:
        for fork in forks:
            fork.weight_gradients()

    return from_forks


def leaves_behind(roots: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Every leaf that gets a gradient from `roots`, except `inputs`: the stage's weights, and those of a loss."""
    skip, seen, found = {id(tensor) for tensor in inputs}, set(), []
    stack = [root.grad_fn for root in roots if root.grad_fn is not None]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in skip:
            found.append(leaf)
        stack.extend(child for child, _ in node.next_functions if child is not None)
    return found


def _forks(roots: Sequence[Tensor], inputs: Sequence[Tensor], weights: Sequence[Tensor]) -> tuple[list[_Fork], bool]:
    """The forks, and whether every root leads to an input, so that the forks lead to all weights."""
    children: dict[Node, list[Node]] = {}
    order: list[Node] = []  # every node behind the ones it leads to
    stack = [(root.grad_fn, False) for root in roots if root.grad_fn is not None]
    while stack:
        node, finished = stack.pop()
        if finished:
            order.append(node)
        elif node not in children:
            children[node] = [child for child, _ in node.next_functions if child is not None]
            stack.append((node, True))
            stack.extend((child, False) for child in children[node] if child not in children)
    wanted_inputs, wanted_weights = {id(t) for t in inputs}, {id(t): t for t in weights}
    to_input: set[Node] = set()
    to_weights: dict[Node, dict[int, Tensor]] = {}  # the weights that a node off the way to the input leads to
    forks = []
    for node in order:
        leaf = getattr(node, "variable", None)
        if id(leaf) in wanted_inputs or any(child in to_input for child in children[node]):
            to_input.add(node)
        below = {id(leaf): wanted_weights[id(leaf)]} if id(leaf) in wanted_weights else {}
        for child in children[node]:
            if child not in to_input:
                below |= to_weights[child]
        to_weights[node] = below
        if node in to_input and below:
            forks.append(_Fork(node, list(below.values())))
    return forks, all(root.grad_fn in to_input for root in roots)
