"""The learner's pipeline trains a network that writes down who calls its layers: so a check sees what it did.

Each sample carries its number in the last column, past every layer, and so every call tells which samples it was for,
however the pipeline has cut them. This file is loaded in the learner's process only, where torch is.
"""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import CheckpointError

from gpipe_edu.reference.twin import as_arrays
from gpipe_edu.words import with_article

from .ex05_wrapper import PipelineAnswer, PipelineQuestion, StepAnswer
from .garbage import ignore_other_objects
from .networks import Array, Item, build_network


class Log:
    """What the layers noted: (phase, layer, numbers of the samples, thread, whether grad was on, dropped values).

    phase: "F" during the forward, "R" for a forward that runs within the backward, "B" when a layer's gradient arrives;
    "dropped, F" and "dropped, R" say which values dropout has dropped.
    """

    def __init__(self) -> None:
        self.phase = "F"
        self.calls: list[tuple[str, int, list[float], int, bool, str]] = []
        self.activations: list[Any] = []

    def note(self, layer: int, numbers: Tensor, phase: str = "", dropped: str = "") -> None:
        """Write one call down."""
        first = numbers.detach()
        while first.dim() > 1:  # a sample of any shape has one number
            first = first[..., 0]
        self.calls.append(
            (phase or self.phase, layer, first.tolist(), threading.get_ident(), torch.is_grad_enabled(), dropped)
        )

    def remember(self, activation: Tensor) -> None:
        """Ask later whether its values are still in memory, held by anything."""
        self.activations.append(StorageWeakRef(activation.untyped_storage()))  # type: ignore[no-untyped-call]

    def take(self) -> list[Any]:
        """What was noted since the last time."""
        calls, self.calls, self.phase = self.calls, [], "F"
        return calls

    def count_held(self) -> int:
        """How many activations are still in memory, of all since the last time."""
        gc.collect()
        alive = sum(not activation.expired() for activation in self.activations)
        self.activations = []
        return alive

    def __deepcopy__(self, memo: Any) -> Log:
        return self  # a copied layer writes into the same log


class Noting(nn.Module):
    """One layer, and the column of numbers that it lets pass."""

    def __init__(self, layer: nn.Module, place: int, log: Log) -> None:
        super().__init__()
        self.layer, self.place, self.log = layer, place, log

    def forward(self, x: Tensor) -> Tensor:
        """(n, features + 1) -> (n, outputs + 1)."""
        if not isinstance(x, Tensor):
            raise TypeError(f"a layer was called with a {type(x).__name__}; it takes a tensor of shape (n, ...)")
        numbers = x[..., -1:]
        # First of all: a recompute ends as soon as it has what the backward needs, in the middle of a layer.
        self.log.note(self.place, numbers)
        y: Tensor = self.layer(x[..., :-1])
        if isinstance(self.layer, nn.Dropout) and self.training:
            zeros = "".join("1" if value else "0" for value in (y == 0).flatten().tolist())
            self.log.note(self.place, numbers, "dropped, " + self.log.phase, zeros)
        y = torch.cat([y, numbers], -1)
        self.log.remember(y)
        if y.requires_grad:
            y.register_hook(lambda gradient: self.log.note(self.place, numbers, "B"))  # type: ignore[no-untyped-call]
        return y


def watch(items: Sequence[Item], names: str = "", shared: bool = False) -> tuple[nn.Sequential, Log]:
    """The network, whose layers have a letter of `names` each, or numbers; shared: all its Tanhs are one layer."""
    log = Log()
    places = [Noting(layer, place, log) for place, layer in enumerate(build_network(items))]
    if shared:
        places = [
            places[items.index(None)] if item is None else place for item, place in zip(items, places, strict=True)
        ]
    return nn.Sequential(OrderedDict(zip(names or map(str, range(len(places))), places, strict=True))), log


@ignore_other_objects()
def perform(MyGPipe: Any, **given: Any) -> PipelineAnswer | dict[str, str]:
    """The answer to a `PipelineQuestion`: build a pipeline, give it one mini-batch after another."""
    asked = PipelineQuestion(**given)
    net, log = watch(asked.items, asked.names, asked.shared)
    own = list(net.parameters())
    pipe = MyGPipe(net, asked.balance, asked.M, checkpoint=asked.checkpoint)
    if not isinstance(pipe, nn.Module):
        return {"slip": "not-a-module", "expected": "an nn.Module", "came": with_article(type(pipe).__name__)}
    place = {id(weight): index for index, weight in enumerate(own)}
    weights = [place.get(id(weight), -1) for weight in pipe.parameters()]
    answer = PipelineAnswer(weights, list(pipe.state_dict()), list(net.state_dict()), steps=[])
    if not asked.trains:
        pipe.eval()
    optimizer = torch.optim.SGD(own, lr=asked.rate, momentum=0.5)
    for x, y in asked.batches:
        step = _step(pipe, log, number(x).requires_grad_(asked.trains_x), torch.from_numpy(y), asked.graph)
        grads = as_arrays(weight.grad for weight in own)
        answer.steps.append(StepAnswer(grads, log.count_held(), **step))
        if asked.rate:
            optimizer.step()
            optimizer.zero_grad()
    return answer


def _step(pipe: nn.Module, log: Log, x: Tensor, y: Tensor, graph: bool) -> dict[str, Any]:
    """Forward and, if the output allows it, backward. What came and was noted; nothing is held afterwards by us."""
    before, follows = x.detach().clone(), x.requires_grad
    log.take()
    log.remember(x)
    with torch.set_grad_enabled(graph):
        output = pipe(x)
    if not isinstance(output, Tensor):
        several = len(output) if isinstance(output, list | tuple) else 0
        return {"bad": type(output).__name__, "several": several}
    log.remember(output)
    # What a network without the column of numbers would give.
    output = output[..., :-1] if output.dim() else output
    step = {"output": output.detach().numpy().copy(), "has_graph": output.requires_grad}
    if graph and output.requires_grad and output.dim() == 2 and len(output) == len(y):
        log.phase = "R"
        try:
            nn.functional.cross_entropy(output, y).backward()  # type: ignore[no-untyped-call]
        except CheckpointError as error:  # twenty lines, of which the first one says it
            raise CheckpointError(str(error).strip().splitlines()[0]) from None
    step |= {"calls": log.take(), "dx": None if x.grad is None else x.grad[:, :-1].numpy()}
    step["changed"] = not torch.equal(x, before) or x.requires_grad != follows
    return step


def number(x: Array) -> Tensor:
    """The batch of shape (N, ..., features) with the numbers 1 to N as one more feature."""
    numbers = np.arange(1.0, len(x) + 1).reshape(-1, *[1] * (x.ndim - 1))
    return torch.from_numpy(np.concatenate([x, np.broadcast_to(numbers, (*x.shape[:-1], 1))], axis=-1))
