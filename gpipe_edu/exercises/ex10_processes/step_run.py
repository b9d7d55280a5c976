"""The run that is judged: a training step in processes, and the same step on one device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

from gpipe_edu import reference as ref
from gpipe_edu.distributed.diary import Entry
from gpipe_edu.exercises.networks import Array
from gpipe_edu.exercises.weighting import Parts, flat, parts_of
from gpipe_edu.schedule import Schedule
from gpipe_edu.split import balance_uniform


@dataclass(frozen=True)
class Run:
    """What was asked for, and what came, with one item for each process.

    diaries: of the last step. values: what the last process gave back, None for all others. grads, weights: afterwards.
    training: whether the stage was and is in training mode. came_back: for each forward, whether a gradient that is not
    all zeros came back to its result.
    """

    schedule: Schedule
    layers: list[ref.Layer]
    x: Array
    y: Array
    diaries: Sequence[Sequence[Entry]]
    values: Sequence[Any]
    grads: Sequence[Sequence[Array | None]]
    weights: Sequence[Sequence[Array | None]]
    training: Sequence[bool]
    came_back: Sequence[Sequence[bool]]

    @property
    def K(self) -> int:
        """How many processes there are."""
        return self.schedule.stages

    @property
    def M(self) -> int:
        """How many micro-batches there are."""
        return self.schedule.micro_batches

    @property
    def loss(self) -> Any:
        """What the last process gave back: a number, None, or what it is in words."""
        return self.values[-1]

    @property
    def loss_in_words(self) -> str:
        """The same, to be shown."""
        return str(self.loss) if self.loss is None or isinstance(self.loss, str) else f"{self.loss:.6f}"

    @cached_property
    def stages(self) -> list[slice]:
        """Which layers are whose."""
        return [slice(a, b) for a, b in pairwise(cuts_of(len(self.layers), self.K))]

    @cached_property
    def _one_device(self) -> tuple[float, list[ref.layer.Params]]:
        return ref.train_sequential(self.layers, self.x, self.y)

    @property
    def true_loss(self) -> float:
        """That of one device."""
        return self._one_device[0]

    def true_grads(self, k: int) -> list[Array]:
        """Those of one device, for the weights of stage k."""
        return flat(self._one_device[1][self.stages[k]])

    @cached_property
    def errors(self) -> list[float]:
        """How far the gradients of each stage are from those of one device."""
        return [ref.gradient_difference(self.grads[k], self.true_grads(k)) for k in range(self.K)]

    def numbers_between(self, k: int) -> int:
        """How many numbers are in all activations, or all gradients, between stages k and k + 1."""
        behind = self.layers[self.stages[k].stop :]
        return len(self.x) * next(len(layer.params["weight"]) for layer in behind if layer.params)

    def parts(self, k: int, kind: str) -> Parts:
        """Each micro-batch alone, with the gradients of stage k, in the order of its row's "F" or "B"."""
        order = [op.micro_batch for op in self.schedule.rows[k] if op.kind == kind]
        return parts_of(self.layers, self.x, self.y, self.M, stage=self.stages[k], order=order)


def cuts_of(layers: int, K: int) -> list[int]:
    """Where each stage begins, and the end."""
    return [0, *accumulate(balance_uniform(layers, K))]
