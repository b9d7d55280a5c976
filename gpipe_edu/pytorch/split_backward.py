"""A backward in two halves: I, the gradient of a stage's input, and W, those of its weights.

Asking autograd twice would walk the chain of activations twice, and zero bubble would gain nothing. So I also asks
for the gradients that arrive at each node where the way to the weights leaves the way to the input; W starts there:

    output <- node <- node <- input          I walks this chain
                |       |
             weight   weight                 W goes only down here
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from . import torch_private


@dataclass
class _Fork:
    """A node on the way to the input from which a way to some weights leaves, and the gradients it received."""

    node: Node
    weights: list[Tensor]
    received: Sequence[Tensor | None] = ()

    def edges(self) -> list[GradientEdge]:
        """Where gradients arrive."""
        return [GradientEdge(self.node, i) for i in range(len(self.node._input_metadata))]

    def weight_gradients(self) -> None:
        """Add the gradients of the weights below this node to their `.grad`."""
        given = [pair for pair in zip(self.edges(), self.received, strict=True) if pair[1] is not None]
        self.received = ()
        if given:
            edges, gradients = zip(*given, strict=True)
            backward(edges, gradients, into=self.weights)


def backward(
    roots: Sequence[Tensor | GradientEdge], gradients: Sequence[Tensor | None], into: Sequence[Tensor] = ()
) -> None:
    """As torch.autograd.backward: add to the `.grad` of all leaves that `roots` depend on, or only `into`.

    gradients: one for each root, None for a scalar loss.
    """
    given = _given(roots, gradients)
    torch_private.run_backward(
        tuple(roots), given, False, False, tuple(into), allow_unreachable=True, accumulate_grad=True
    )


def _given(roots: Sequence[Tensor | GradientEdge], gradients: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    # torch.autograd.backward would also check its arguments, which costs as much as a small layer. There is nothing to
    # check: autograd itself has computed these gradients, for these very tensors.
    pairs = zip(roots, gradients, strict=True)
    return tuple(torch.ones_like(cast(Tensor, root)) if given is None else given for root, given in pairs)


def input_gradient(
    roots: Sequence[Tensor], gradients: Sequence[Tensor | None], inputs: Sequence[Tensor]
) -> Callable[[], None]:
    """Add the gradients of `inputs` to their `.grad`; returns a function that does the same for all other leaves: the
    stage's weights, and those of a loss.

    roots: the stage's outputs that need a gradient; gradients: one for each, None for a scalar loss.
    """
    used = {id(tensor): tensor for tensor in inputs if tensor.requires_grad}
    if not used:
        return partial(backward, roots, gradients)
    graph = _graph(roots)
    if any(map(_must_run_whole, graph)):
        backward(roots, gradients)
        return lambda: None
    leaves = {
        node: leaf
        for node, children in graph.items()
        if not children and (leaf := getattr(node, "variable", None)) is not None
    }
    weights = [leaf for leaf in leaves.values() if id(leaf) not in used]

    def all_at_once() -> None:
        if weights:
            backward(roots, gradients, into=weights)

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
    wanted = (*used.values(), *(edge for fork in forks for edge in fork.edges()))
    found = iter(
        torch_private.run_backward(
            tuple(roots), _given(roots, gradients), True, False, wanted, allow_unreachable=True, accumulate_grad=False
        )
    )
    for tensor in used.values():
        tensor.grad = next(found)
    for fork in forks:
        fork.received = [next(found) for _ in fork.edges()]
    reached = [id(weight) for fork in forks for weight in fork.weights]
    if len(set(reached)) < len(reached) or any(root.grad_fn not in to_input for root in roots):
        # A weight used in two places is below two forks, and what flows from one fork to the other would count twice;
        # and below a root that leads to no input there may be weights, but there is no fork.
        return all_at_once

    owners = _owners(roots) if any(map(_is_python, (fork.node for fork in forks))) else []

    def from_forks() -> None:
        for fork in forks:
            fork.weight_gradients()
        owners.clear()

    return from_forks


def _is_python(node: Node) -> bool:
    """Whether `node` belongs to an autograd.Function in Python: a reference keeps only a shell of these alive."""
    return isinstance(node, torch_private.FunctionNode)


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
    # A reentrant checkpoint allows nothing else. In what torch.compile has made, each half would compute all gradients,
    # and where that may reuse the memory of what it has saved, it allows nothing else either.
    return name in ("CheckpointFunctionBackward", "CompiledFunctionBackward")


def _graph(roots: Sequence[Tensor]) -> dict[Node, list[Node]]:
    """The nodes that each node leads to; every node comes after those."""
    found: dict[Node, list[Node]] = {}
    seen: set[Node] = set()
    stack: list[tuple[Node, list[Node] | None]] = [(root.grad_fn, None) for root in roots if root.grad_fn is not None]
    while stack:
        node, children = stack.pop()
        if children is not None:  # all of them are in the order by now
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
