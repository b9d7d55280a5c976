"""Training without the flush, as PipeDream does it: no device ever drains, and gradients come from old weights.

GPipe updates once, after the flush, so all ops of a step see the same weights. Here every micro-batch of the schedule
is a mini-batch of its own, and a stage updates its weights right after each of its backwards:

    device 0   F0 F1 F2    B0 F3 B1 F4 B2      F3 meets weights that know B0: the updates of 1 and 2 come too late
    device 1      F0 F1 B0 F2 B1 F3 B2 F4      F3 meets weights that know B0 and B1
    device 2         F0 B0 F1 B1 F2 B2 F3      F3 meets weights that know B0, B1 and B2: the last stage is never late

So what a forward meets follows from the row alone: the backwards that come before it. A schedule that finishes
each mini-batch before the next one starts, `naive(K, M)`, is plain SGD.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.schedule import check_schedule
from gpipe_edu.split import balance_uniform

from .layers import Array, Layer
from .losses import cross_entropy
from .sequential import SGD
from .stage import Stage


class StaleRun(NamedTuple):
    """The loss of every mini-batch, from its own forward, and per device the most weight versions it held."""

    losses: list[float]
    versions: tuple[int, ...]


def train_without_flush(
    layers: Sequence[Layer],
    batches: Sequence[tuple[Array, Any]],
    schedule: Schedule,
    learning_rate: float,
    *,
    stash: bool = True,
) -> StaleRun:
    """Train `layers` in place with SGD and cross-entropy, one mini-batch (x, labels) per micro-batch of `schedule`.

    stash: a stage keeps the weights that a forward used until its backward, which then gives the gradient for *some*
    weights. Without it, the backward uses the current weights, and the result is the gradient of no function.

    Raises ScheduleError for a schedule that cannot run, ValueError for ops other than F and B, for other than one
    mini-batch per micro-batch, or for a learning rate that is not positive.
    """
    kinds = {op.kind for row in check_schedule(schedule).rows for op in row}
    if kinds != {"F", "B"}:
        raise ValueError(f"the schedule has the ops {', '.join(sorted(kinds))}; without a flush only F and B are known")
    if len(batches) != schedule.micro_batches:
        raise ValueError(
            f"there are {len(batches)} mini-batches and the schedule has {schedule.micro_batches} micro-batches; "
            f"without a flush each is a mini-batch of its own, so give as many of both"
        )
    ends = [0, *accumulate(balance_uniform(len(layers), schedule.stages))]
    stages = [_UpdatingStage(layers[start:end], learning_rate, stash) for start, end in pairwise(ends)]
    outputs: dict[tuple[int, int], Array] = {}
    gradients: dict[tuple[int, int], Array] = {}
    losses = [0.0] * schedule.micro_batches
    last = schedule.stages - 1
    for _, (kind, m, k), _ in schedule.steps:
        if kind == "F":
            x, labels = batches[m]
            entering = outputs.pop((m, k - 1)) if k else np.asarray(x, dtype=np.float64)
            outputs[m, k] = stages[k].forward(m, entering)
            if k == last:
                losses[m], gradients[m, k + 1] = cross_entropy(outputs.pop((m, k)), labels)
        else:
            gradients[m, k] = stages[k].update(m, gradients.pop((m, k + 1)))
    on_device = [{op.stage for op in row} for row in schedule.rows]
    return StaleRun(losses, tuple(max((stages[k].versions for k in mine), default=0) for mine in on_device))


class _UpdatingStage:
    """A stage whose weights change after each of its backwards, and that remembers the ones its forwards used."""

    def __init__(self, layers: Sequence[Layer], learning_rate: float, stash: bool) -> None:
        self.layers, self.stash = layers, stash
        self.optimizer = SGD(layers, learning_rate)
        self.met: dict[int, list[Layer]] = {}
        self.stage = Stage(layers, self.met.__getitem__, keeps=lambda m: True)
        self.versions = 1

    def forward(self, m: int, x: Array) -> Array:
        self.met[m] = [layer.at(0, m) for layer in self.layers]
        if self.stash:
            self.met[m] = [_with_own_params(layer) for layer in self.met[m]]
            # The newest version is the current weights, which need no copy.
            self.versions = max(self.versions, len(self.met))
        return self.stage.forward(m, x)

    def update(self, m: int, dy: Array) -> Array:
        """Backward of mini-batch m and, at once, the update with its gradients; returns the gradient to send on."""
        self.stage.grads = [
            {name: np.zeros_like(value) for name, value in layer.params.items()} for layer in self.layers
        ]
        dy = self.stage.backward(m, dy)
        self.optimizer.step(self.stage.grads)
        del self.met[m]
        return dy


def _with_own_params(layer: Layer) -> Layer:
    twin = copy(layer)
    twin.params = {name: value.copy() for name, value in layer.params.items()}
    return twin
