"""How `forward` is called and watched: the judge stamps every run of a layer, and what stays in memory is noted.

A weak reference to the memory of a layer's output tells whether it is still there, held by autograd, a closure or a
list somewhere.
"""

from __future__ import annotations

import gc
from typing import Any, NamedTuple, TypeAlias

from gpipe_edu.base.words import with_article
from gpipe_edu.judge.guest.memory import ignore_other_objects
from gpipe_edu.judge.guest.networks import Array, Item, build_network, modes_of
from gpipe_edu.process.asking import ask_judge
from gpipe_edu.reference.twin import as_arrays

Stages: TypeAlias = list[list[Item]]
"""The layers of each stage."""

Number: TypeAlias = tuple[int, int]
"""A layer: its stage, and its number in the stage."""


class CheckpointQuestion(NamedTuple):
    """One forward and, if there is to be a graph, the backward from a gradient that the judge then hands out.

    x: stamped. trains: whether the stages are in training mode. still: a layer that is in evaluation mode nevertheless.
    follow: the input requires a gradient, too. earlier: an input that goes forward before x, with a list of its own,
    and comes back after it.
    """

    stages: Stages
    x: Array
    again: list[bool]
    seed: int = 0
    trains: bool = True
    still: Number | None = None
    graph: bool = True
    follow: bool = False
    earlier: Array | None = None
    earlier_again: list[bool] = []  # noqa: RUF012  # nobody changes it


class CheckpointAnswer(NamedTuple):
    """What came, and what stayed; what ran, the judge knows.

    kept: outputs that are in memory after the forward, with their bytes. masks: what each Dropout drew, once for each
    of its runs. plain_masks: what it draws from the same seed when the stages just run. same_random_state: whether the
    backward has left it as it was. held: outputs that are in memory after the backward, while that of the last layer
    still is. left: those in memory when that is gone, too.
    """

    output: Array
    has_graph: bool
    kept: list[tuple[int, int, int]]
    input_requires: bool
    input_values: Array
    same_lists: bool
    grad_mode_kept: bool
    same_modes: bool
    masks: dict[Number, list[Array]]
    plain_masks: dict[Number, Array]
    same_random_state: bool
    dx: Array | None
    grads: list[Array | None]
    held: list[Number]
    left: list[Number]


@ignore_other_objects()
def perform(forward: Any, **given: Any) -> CheckpointAnswer | dict[str, str]:
    """The answer to a `CheckpointQuestion`, whose inputs are stamped; the judge has the gradient of the output."""
    import torch
    from torch.multiprocessing.reductions import StorageWeakRef

    from gpipe_edu.judge.guest.traced_layers import Stamped

    asked = CheckpointQuestion(**given)
    outputs: list[tuple[int, int, int, Any]] = []
    masks: dict[Number, list[Array]] = {}
    watching = False

    class Watched(Stamped):
        """A layer whose outputs are remembered, but not held."""

        def forward(self, x: Any) -> Any:
            output = super().forward(x)
            if watching and isinstance(self.layer, torch.nn.Dropout):
                masks.setdefault(self.place, []).append((output / x)[..., :-1].detach().numpy())
            if watching:
                outputs.append((*self.place, output[..., :-1].nbytes, StorageWeakRef(output.untyped_storage())))  # type: ignore[no-untyped-call]
            return output

        def seen(self, y: Any) -> tuple[Any, ...]:
            return (torch.is_grad_enabled(),)

    def in_memory() -> list[tuple[int, int, int]]:
        gc.collect()
        return [(k, i, size) for k, i, size, there in outputs if not there.expired()]

    nets = [
        torch.nn.Sequential(*(Watched(layer, (k, i)) for i, layer in enumerate(build_network(items))))
        for k, items in enumerate(asked.stages)
    ]
    for net in nets:
        net.train(asked.trains)
    if asked.still is not None:
        nets[asked.still[0]][asked.still[1]].eval()
    modes = modes_of(*nets)
    plain_masks = _draw_masks(asked) if asked.trains else {}
    torch.manual_seed(asked.seed)
    x = torch.from_numpy(asked.x.copy()).requires_grad_(asked.follow)
    its_stages, its_again = list(nets), list(asked.again)
    with torch.set_grad_enabled(asked.graph):
        first = None
        if asked.earlier is not None:
            first = forward(list(nets), torch.from_numpy(asked.earlier), list(asked.earlier_again))
        watching = True
        ask_judge(("forward",))
        output = forward(its_stages, x, its_again)
        grad_mode_kept = torch.is_grad_enabled() == asked.graph
    if output is None:
        return {"slip": "no-return", "expected": "a tensor", "came": "None"}
    if not isinstance(output, torch.Tensor):
        return {"slip": "no-tensor", "expected": "a tensor", "came": with_article(type(output).__name__)}
    last = (len(nets) - 1, len(nets[-1]) - 1)  # we hold the result ourselves
    found: dict[str, Any] = {
        "output": output.detach().numpy().copy(),
        "has_graph": output.requires_grad,
        "kept": [(k, i, size) for k, i, size in in_memory() if (k, i) != last],
        "input_requires": x.requires_grad,
        "input_values": x.detach().numpy().copy(),
        "same_lists": its_stages == nets and its_again == asked.again,
        "grad_mode_kept": grad_mode_kept,
        "plain_masks": plain_masks,
    }
    dy, state = torch.from_numpy(ask_judge(("backward",))), torch.get_rng_state()
    if asked.graph and output.requires_grad and output.shape == dy.shape:
        torch.autograd.backward(output, dy)
    found |= {"masks": masks, "dx": None if x.grad is None else x.grad[..., :-1].numpy()}
    ask_judge(("over",))
    found["same_random_state"] = torch.equal(torch.get_rng_state(), state)
    found["same_modes"] = modes_of(*nets) == modes
    if first is not None and first.requires_grad:
        torch.autograd.backward(first, dy)
    found["grads"] = as_arrays(weight.grad for net in nets for weight in net.parameters())
    found["held"] = [(k, i) for k, i, _ in in_memory() if (k, i) != last]
    del output, first
    return CheckpointAnswer(**found, left=[(k, i) for k, i, _ in in_memory()])


def _draw_masks(asked: CheckpointQuestion) -> dict[Number, Array]:
    """Where each Dropout lets values pass when the stages run one after another, from the seed on."""
    import torch

    nets = list(map(build_network, asked.stages))  # this draws, too
    torch.manual_seed(asked.seed)
    found, values = {}, torch.ones(len(asked.x), asked.x.shape[-1] - 1, dtype=torch.float64)
    for k, net in enumerate(nets):
        for i, layer in enumerate(net):
            if isinstance(layer, torch.nn.Dropout) and (k, i) != asked.still:
                found[k, i] = layer(torch.ones_like(values)).numpy()
            elif not isinstance(layer, torch.nn.Dropout):
                values = layer(values).detach()
    return found
