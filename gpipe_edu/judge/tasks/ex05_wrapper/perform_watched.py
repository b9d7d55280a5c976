"""The learner's pipeline trains a network whose layers have their runs stamped: so a check sees what it did.

Each sample carries a stamp in the last column, so the judge knows which samples a run was for, however the pipeline has
cut them. This file is loaded in the learner's process only, where torch is.
"""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import CheckpointError

from gpipe_edu.base.words import with_article
from gpipe_edu.judge.guest.memory import ignore_other_objects
from gpipe_edu.judge.guest.networks import Item, asks_of, build_network, modes_of
from gpipe_edu.judge.guest.traced_layers import Stamped
from gpipe_edu.process.asking import ask_judge
from gpipe_edu.reference.twin import as_arrays

from .perform import DEFAULT, PipelineAnswer, PipelineQuestion, StepAnswer


class Memory:
    """Which activations are still there; and whether a backward is under way."""

    def __init__(self) -> None:
        self._activations: list[Any] = []
        self.in_backward = False

    def remember(self, activation: Tensor) -> None:
        """Ask later whether its values are still in memory, held by anything."""
        self._activations.append(StorageWeakRef(activation.untyped_storage()))  # type: ignore[no-untyped-call]

    def count_held(self) -> int:
        """How many activations remembered since the last count are still in memory."""
        gc.collect()
        alive = sum(not activation.expired() for activation in self._activations)
        self._activations = []
        return alive

    def __deepcopy__(self, memo: Any) -> Memory:
        return self  # the outputs of a copied layer are remembered, too


class Watched(Stamped):
    """A layer that also tells its thread, whether grad was on, and which values a dropout has dropped."""

    def __init__(self, layer: nn.Module, place: int, memory: Memory) -> None:
        super().__init__(layer, place)
        self.memory = memory

    def forward(self, x: Tensor) -> Tensor:
        """As `Stamped` does. Raises CheckpointError where a repeated run doesn't get what the first one got."""
        try:
            output = super().forward(x)
        except RuntimeError as error:
            if self.memory.in_backward:
                raise CheckpointError(str(error)) from error
            raise
        self.memory.remember(output)
        return output

    def seen(self, y: Tensor) -> tuple[Any, ...]:
        """See the class."""
        drops = isinstance(self.layer, nn.Dropout) and self.training
        zeros = "".join("1" if value else "0" for value in (y == 0).flatten().tolist()) if drops else ""
        return threading.get_ident(), torch.is_grad_enabled(), zeros


def watch(items: Sequence[Item], names: str = "", shared: bool = False) -> tuple[nn.Sequential, Memory]:
    """The network, whose layers have a letter of `names` each, or numbers; shared: all its Tanhs are one layer."""
    memory = Memory()
    places = [Watched(layer, place, memory) for place, layer in enumerate(build_network(items))]
    if shared:
        places = [
            places[items.index(None)] if item is None else place for item, place in zip(items, places, strict=True)
        ]
    return nn.Sequential(OrderedDict(zip(names or map(str, range(len(places))), places, strict=True))), memory


@ignore_other_objects()
def perform(MyGPipe: Any, **given: Any) -> PipelineAnswer | dict[str, str]:
    """The answer to a `PipelineQuestion`: build a pipeline, give it one mini-batch after another."""
    asked = PipelineQuestion(**given)
    net, memory = watch(asked.items, asked.names, asked.shared)
    own, balance = list(net.parameters()), list(asked.balance)
    if asked.still:
        net.eval()[0].requires_grad_(False)
    before = modes_of(net), asks_of(net)
    how = {} if asked.checkpoint == DEFAULT else {"checkpoint": asked.checkpoint}
    pipe = MyGPipe(net, balance, asked.M, **how)
    if not isinstance(pipe, nn.Module):
        return {"slip": "not-a-module", "expected": "an nn.Module", "came": with_article(type(pipe).__name__)}
    place = {id(weight): index for index, weight in enumerate(own)}
    weights = [place.get(id(weight), -1) for weight in pipe.parameters()]
    same, keys = (modes_of(net), asks_of(net)) == before, (list(pipe.state_dict()), list(net.state_dict()))
    answer = PipelineAnswer(weights, *keys, balance, same, steps=[])
    if not asked.trains:
        pipe.eval()
    optimizer = torch.optim.SGD(own, lr=asked.rate, momentum=0.5)
    for x, y in asked.batches:
        step = _step(pipe, memory, torch.from_numpy(x).requires_grad_(asked.trains_x), torch.from_numpy(y), asked.graph)
        grads = as_arrays(weight.grad for weight in own)
        answer.steps.append(StepAnswer(grads, memory.count_held(), **step))
        if asked.rate:
            optimizer.step()
            optimizer.zero_grad()
    return answer


def _step(pipe: nn.Module, memory: Memory, x: Tensor, y: Tensor, graph: bool) -> dict[str, Any]:
    """Forward and, if the output allows it, backward. Returns what came; we hold nothing afterwards."""
    before, follows = x.detach().clone(), x.requires_grad
    ask_judge(("forward",))
    memory.in_backward = False
    memory.remember(x)
    with torch.set_grad_enabled(graph):
        output = pipe(x)
        grad_mode_kept = torch.is_grad_enabled() == graph
    if not isinstance(output, Tensor):
        several = len(output) if isinstance(output, list | tuple) else 0
        return {"bad": type(output).__name__, "several": several}
    memory.remember(output)
    # What a network without stamps would give.
    output = output[..., :-1] if output.dim() else output
    step = {"output": output.detach().numpy().copy(), "has_graph": output.requires_grad}
    step["grad_mode_kept"] = grad_mode_kept
    if graph and output.requires_grad and output.dim() == 2 and len(output) == len(y):
        ask_judge(("backward",))
        memory.in_backward = True
        try:
            nn.functional.cross_entropy(output, y).backward()  # type: ignore[no-untyped-call]
        except CheckpointError as error:  # twenty lines, of which the first says it all
            raise CheckpointError(str(error).strip().splitlines()[0]) from None
    step["dx"] = None if x.grad is None else x.grad[:, :-1].numpy()
    step["changed"] = not torch.equal(x, before) or x.requires_grad != follows
    return step
