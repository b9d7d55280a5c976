"""A step in the learner's process with witnesses: which layers ran and when, and whose outputs stay in memory.

Each layer writes down its runs. A weak reference to the memory of its output tells whether it is still there, whoever
holds it: autograd, a closure or a list somewhere.
"""

from __future__ import annotations

import gc
from typing import Any

from .networks import Array, Item, as_numpy, in_torch

Network = list[list[Item]]
"""The layers of each stage."""

Place = tuple[int, int]
"""A layer: its stage, and its number in the stage."""


def perform(
    forward: Any, stages: Network, x: Array, dy: Array, again: list[bool], seed: int, trains: bool, follow: bool
) -> Any:
    """One forward and, if it trains, the backward from `dy`; follow: the input requires a gradient, too."""
    import torch
    from torch.multiprocessing.reductions import StorageWeakRef

    torch.manual_seed(seed)
    nets = [in_torch(items).train(trains) for items in stages]
    runs: list[Place] = []
    blind: set[int] = set()
    outputs: list[tuple[int, int, int, Any]] = []
    masks: dict[Place, list[Array]] = {}

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

    for k, net in enumerate(nets):
        for i, layer in enumerate(net):
            watch(k, i, layer)
    given = torch.from_numpy(x.copy()).requires_grad_(follow)
    with torch.set_grad_enabled(trains):
        output = forward(list(nets), given, list(again))
    if not isinstance(output, torch.Tensor):
        return {"bad": type(output).__name__}
    gc.collect()
    first, last = list(runs), (len(nets) - 1, len(stages[-1]) - 1)
    found = {
        "bad": "",
        "output": output.detach().numpy().copy(),
        "graph": output.requires_grad,
        "runs": first,
        "blind": sorted(blind),
        # The result is in our own hands.
        "kept": [(k, i, size) for k, i, size, there in outputs if not there.expired() and (k, i) != last],
        "input": (given.requires_grad, given.detach().numpy().copy()),
    }
    runs.clear()
    if trains and output.requires_grad and tuple(output.shape) == dy.shape:
        torch.autograd.backward(output, torch.from_numpy(dy))
    found["grads"] = [as_numpy(weight.grad) for net in nets for weight in net.parameters()]
    found["dx"] = None if given.grad is None else given.grad.numpy()
    return found | {"reruns": list(runs), "masks": masks}
