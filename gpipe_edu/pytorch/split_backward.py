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
from torch.autograd.graph import GradientEdge, Node, _engine_run_backward


class _Fork:
    """A node on the way to the input from which a way to some weights leaves, and the gradients it received."""

    def __init__(self, node: Node, weights: list[Tensor]) -> None:
        self.node, self.weights = node, weights
        self.received: Sequence[Tensor | None] = ()
        self._hook = node.register_prehook(self._note)

    def _note(self, gradients: Sequence[Tensor | None]) -> None:
        self.received = gradients

    def stop_listening(self) -> None:
        """The node, and the hook through it, would hold this object, which holds the node."""
        self._hook.remove()

    def weight_gradients(self) -> None:
        """Add the gradients of the weights below this node to their `.grad`."""
        given = [(GradientEdge(self.node, i), g) for i, g in enumerate(self.received) if g is not None]
        self.received = ()
        if given:
            edges, gradients = zip(*given, strict=True)
            # What torch.autograd.backward calls after checks that cost as much as a small layer. There is nothing to
            # check: the engine itself gave these gradients to this node.
            _engine_run_backward(
                edges, gradients, False, False, tuple(self.weights), allow_unreachable=True, accumulate_grad=True
            )


def input_gradient(
    roots: Sequence[Tensor], gradients: Sequence[Tensor | None], inputs: Sequence[Tensor]
) -> Callable[[], None]:
    """Add the gradients of `inputs` to their `.grad`; returns a function that does the same for all other leaves: the
    stage's weights, and those of a loss.

    roots: the stage's outputs that need a gradient; gradients: one for each, None for a scalar loss.
    """
    used = {id(tensor): tensor for tensor in inputs if tensor.requires_grad}
    graph = _graph(roots)
    if any(map(_must_run_whole, graph)):
        torch.autograd.backward(roots, gradients)
        return lambda: None
    leaves = {
        node: leaf
        for node, children in graph.items()
        if not children and (leaf := getattr(node, "variable", None)) is not None
    }
    weights = [leaf for leaf in leaves.values() if id(leaf) not in used]

    def all_at_once() -> None:
        if weights:
            torch.autograd.backward(roots, gradients, inputs=weights)

    if not used:
        return all_at_once
    to_input = {node for node, leaf in leaves.items() if id(leaf) in used}
    to_weights: dict[Node, dict[int, Tensor]] = {}  # the weights that a node leads to, off the way to the input
    forks = []
    for node, children in graph.items():
        if not to_input.isdisjoint(children):
            to_input.add(node)
        below = {id(leaves[node]): leaves[node]} if node in leaves and node not in to_input else {}
        for child in children:
            if child not in to_input:
                below |= to_weights[child]
        to_weights[node] = below
        if below and node in to_input:
            forks.append(_Fork(node, list(below.values())))
    try:
        torch.autograd.backward(roots, gradients, inputs=list(used.values()), retain_graph=True)
    finally:
        for fork in forks:
            fork.stop_listening()
    reached = [id(weight) for fork in forks for weight in fork.weights]
    if len(set(reached)) < len(reached) or any(root.grad_fn not in to_input for root in roots):
        # A weight used in two places is below two forks, and what flows from one fork to the other would count twice;
        # and below a root that leads to no input there may be weights, but is no fork.
        return all_at_once

    owners = _owners(roots) if any(map(_is_python, (fork.node for fork in forks))) else []

    def from_forks() -> None:
        for fork in forks:
            fork.weight_gradients()
        owners.clear()

    return from_forks


def _is_python(node: Node) -> bool:
    """Whether `node` is that of an autograd.Function in Python: of these, a name keeps only the shell alive."""
    return isinstance(node, torch._C._FunctionBase)


def _owners(roots: Sequence[Tensor]) -> list[Node | None]:
    """Nodes that keep the graphs of `roots` alive without their values: views, as in PyTorch's get_gradient_edge."""
    with torch.enable_grad():
        return [root.view_as(root).grad_fn for root in roots]


def _must_run_whole(node: Node) -> bool:
    """Whether `node` can't be asked for some gradients only; I then gives all of them."""
    name = node.name()
    if name == "NativeGroupNormBackward0":
        # PyTorch 2.13 crashes if it is to give the gradients of a channels-last GroupNorm's weights, and no input's.
        saved: Tensor = node._saved_input  # type: ignore[attr-defined]
        return saved.is_cpu and not saved.is_contiguous()
    return name == "CheckpointFunctionBackward"  # a reentrant checkpoint allows nothing else


def _graph(roots: Sequence[Tensor]) -> dict[Node, list[Node]]:
    """The nodes that each node leads to; every node stands behind those."""
    found: dict[Node, list[Node]] = {}
    seen: set[Node] = set()
    stack: list[tuple[Node, list[Node] | None]] = [(root.grad_fn, None) for root in roots if root.grad_fn is not None]
    while stack:
        node, children = stack.pop()
        if children is not None:  # all of them stand there by now
            found[node] = children
        elif node not in seen:
            seen.add(node)
            children = [child for child, _ in node.next_functions if child is not None]
            if children:
                stack.append((node, children))
                stack.extend((child, None) for child in children)
            else:
                found[node] = children
    return found
