"""A step in the learner's process with witnesses: which layers ran and when, and whose outputs stay in memory.

Each layer writes down its runs. A weak reference to the memory of its output tells whether it is still there, held by
autograd, a closure or a list somewhere.
"""

from __future__ import annotations

import gc
from typing import Any, NamedTuple, TypeAlias

from gpipe_edu.reference.twin import as_arrays
from gpipe_edu.words import with_article

from .garbage import ignore_other_objects
from .networks import Array, Item, build_network

Stages: TypeAlias = list[list[Item]]
"""The layers of each stage."""

Number: TypeAlias = tuple[int, int]
"""A layer: its stage, and its number in the stage."""


class CheckpointQuestion(NamedTuple):
    """One forward and, if there is to be a graph, the backward from `dy`.

    trains: whether the stages are in training mode. follow: the input requires a gradient, too. earlier: an input that
    goes forward before x and comes back after it, with the same `dy`.
    """

    stages: Stages
    x: Array
    dy: Array
    again: list[bool]
    seed: int = 0
    trains: bool = True
    graph: bool = True
    follow: bool = False
    earlier: Array | None = None

    @property
    def draws(self) -> bool:
        """Whether there is a dropout, and it drops."""
        return self.trains and any(isinstance(item, float) for items in self.stages for item in items)


class CheckpointAnswer(NamedTuple):
    """What came, what ran, and what stayed.

    runs, reruns: layers in the forward and in the backward. blind: stages that ran without autograd. kept: outputs that
    are in memory after the forward, with their bytes. masks: what each Dropout drew, once for each of its runs. left:
    outputs that are in memory after the backward.
    """

    output: Array
    has_graph: bool
    runs: list[Number]
    blind: list[int]
    kept: list[tuple[int, int, int]]
    input_requires: bool
    input_values: Array
    same_lists: bool
    same_modes: bool
    reruns: list[Number]
    masks: dict[Number, list[Array]]
    dx: Array | None
    grads: list[Array | None]
    left: list[Number]


@ignore_other_objects()
def perform(forward: Any, **given: Any) -> CheckpointAnswer | dict[str, str]:
    """The answer to a `CheckpointQuestion`."""
    import torch
    from torch.multiprocessing.reductions import StorageWeakRef

    asked = CheckpointQuestion(**given)
    torch.manual_seed(asked.seed)
    nets = [build_network(items).train(asked.trains) for items in asked.stages]
    runs: list[Number] = []
    blind: set[int] = set()
    outputs: list[tuple[int, int, int, Any]] = []
    masks: dict[Number, list[Array]] = {}

    def watch(k: int, i: int, layer: Any) -> None:
        def before(_: Any, inputs: Any) -> None:
            runs.append((k, i))
            if not torch.is_grad_enabled():
                blind.add(k)

        def after(_: Any, inputs: Any, output: Any) -> None:
            outputs.append((k, i, output.nbytes, StorageWeakRef(output.untyped_storage())))  # type: ignore[no-untyped-call]
            if isinstance(layer, torch.nn.Dropout):
                masks.setdefault((k, i), []).append((output / inputs[0]).detach().numpy())

        layer.register_forward_pre_hook(before)
        layer.register_forward_hook(after)

    def in_memory() -> list[tuple[int, int, int]]:
        gc.collect()
        return [(k, i, size) for k, i, size, there in outputs if not there.expired()]

    x, dy = torch.from_numpy(asked.x.copy()).requires_grad_(asked.follow), torch.from_numpy(asked.dy)
    its_stages, its_again = list(nets), list(asked.again)
    with torch.set_grad_enabled(asked.graph):
        first = None
        if asked.earlier is not None:
            first = forward(list(nets), torch.from_numpy(asked.earlier), list(asked.again))
        for k, net in enumerate(nets):
            for i, layer in enumerate(net):
                watch(k, i, layer)
        output = forward(its_stages, x, its_again)
    if output is None:
        return {"slip": "no-return", "expected": "a tensor", "came": "None"}
    if not isinstance(output, torch.Tensor):
        return {"slip": "no-tensor", "expected": "a tensor", "came": with_article(type(output).__name__)}
    last = (len(nets) - 1, len(nets[-1]) - 1)  # the result is in our own hands
    found: dict[str, Any] = {
        "output": output.detach().numpy().copy(),
        "has_graph": output.requires_grad,
        "runs": list(runs),
        "blind": sorted(blind),
        "kept": [(k, i, size) for k, i, size in in_memory() if (k, i) != last],
        "input_requires": x.requires_grad,
        "input_values": x.detach().numpy().copy(),
        "same_lists": its_stages == nets and its_again == asked.again,
        "same_modes": all(module.training == asked.trains for net in nets for module in net.modules()),
    }
    runs.clear()
    if asked.graph and output.requires_grad and output.shape == dy.shape:
        torch.autograd.backward(output, dy)
    found |= {"reruns": list(runs), "masks": masks, "dx": None if x.grad is None else x.grad.numpy()}
    if first is not None and first.requires_grad:
        torch.autograd.backward(first, dy)
    found["grads"] = as_arrays(weight.grad for net in nets for weight in net.parameters())
    del output, first
    return CheckpointAnswer(**found, left=[(k, i) for k, i, _ in in_memory()])
