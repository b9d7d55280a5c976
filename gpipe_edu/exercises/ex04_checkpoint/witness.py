"""A step in the learner's process with witnesses: which layers ran and when, and whose outputs stay in memory.

Each layer writes down its runs. A weak reference to the memory of its output tells whether it is still there, whoever
holds it: autograd, a closure or a list somewhere.
"""

from __future__ import annotations

import gc
from typing import Any, TypeAlias

from gpipe_edu.exercises.garbage import others_passed_over
from gpipe_edu.exercises.networks import Array, Item, network
from gpipe_edu.reference.twin import as_arrays

Stages: TypeAlias = list[list[Item]]
"""The layers of each stage."""

Number: TypeAlias = tuple[int, int]
"""A layer: its stage, and its number in the stage."""


@others_passed_over()
def perform(
    forward: Any,
    stages: Stages,
    x: Array,
    dy: Array,
    again: list[bool],
    seed: int = 0,
    trains: bool = True,
    graph: bool = True,
    follow: bool = False,
    earlier: Array | None = None,
) -> Any:
    """One forward and, if there is to be a graph, the backward from `dy`. What came and ran, and what stayed.

    trains: whether the stages are in training mode. follow: the input requires a gradient, too. earlier: an input that
    goes forward before x and comes back after it, with the same `dy`.
    """
    import torch
    from torch.multiprocessing.reductions import StorageWeakRef

    torch.manual_seed(seed)
    nets = [network(items).train(trains) for items in stages]
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

    given, its_stages, its_again = torch.from_numpy(x.copy()).requires_grad_(follow), list(nets), list(again)
    with torch.set_grad_enabled(graph):
        first = None if earlier is None else forward(list(nets), torch.from_numpy(earlier), list(again))
        for k, net in enumerate(nets):
            for i, layer in enumerate(net):
                watch(k, i, layer)
        output = forward(its_stages, given, its_again)
    if not isinstance(output, torch.Tensor):
        return {"bad": type(output).__name__}
    last = (len(nets) - 1, len(stages[-1]) - 1)  # the result is in our own hands
    found = {
        "output": output.detach().numpy().copy(),
        "has_graph": output.requires_grad,
        "runs": list(runs),
        "blind": sorted(blind),
        "kept": [(k, i, size) for k, i, size in in_memory() if (k, i) != last],
        "input_requires": given.requires_grad,
        "input_values": given.detach().numpy().copy(),
        "same_lists": its_stages == nets and its_again == again,
        "same_modes": all(module.training == trains for net in nets for module in net.modules()),
    }
    runs.clear()
    if graph and output.requires_grad and tuple(output.shape) == dy.shape:
        torch.autograd.backward(output, torch.from_numpy(dy))
    found |= {"reruns": list(runs), "masks": masks, "dx": None if given.grad is None else given.grad.numpy()}
    if first is not None and first.requires_grad:
        torch.autograd.backward(first, torch.from_numpy(dy))
    found["grads"] = as_arrays(weight.grad for net in nets for weight in net.parameters())
    del output, first
    return found | {"left": [(k, i) for k, i, _ in in_memory()]}
