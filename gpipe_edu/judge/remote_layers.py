"""The judge's side of `guest/remote_layers.py`: computes for layers whose weights an answer lacks, and notes it.

The notes tell what went through a network in pieces, and in which order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, NamedTuple

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.judge.guest.networks import Array, Item


class Run(NamedTuple):
    """A layer's run: "F", or "B", a backward through run number `of`, -1 if through none; and its step.

    x: what came in, for "B" the gradient of the output. y: what went out. saved: what a forward has to keep for its
    backward, or what the backward had of it. as_it_was: whether these are the same. seen: what else the layer told.
    """

    kind: str
    step: int
    place: Any
    x: Array
    y: Array
    of: int
    saved: ref.layers.Saved
    as_it_was: bool = True
    seen: Any = None


class AskedLayers:
    """Answers the questions of asked layers. steps: for each step the layers by place, as weights change."""

    def __init__(self, *steps: Mapping[Any, ref.Layer]) -> None:
        self._steps, self.step = steps, -1
        self.runs: list[Run] = []

    def __call__(self, question: Any) -> Any:
        """Answer: a forward, a backward, or the beginning of a step. Raises ValueError for anything else."""
        kind, *rest = question
        if kind == "step":
            self.step += 1
            return None
        place, number = rest[0], len(self.runs)
        layer = self._steps[min(max(self.step, 0), len(self._steps) - 1)][place]
        if kind == "F":
            _, x, seen = rest
            y, saved = layer.forward(x)
            self.runs.append(Run("F", self.step, place, x, y, number, saved, seen=seen))
            return number, y
        if kind != "B":
            raise ValueError(f"{kind!r} is no question")
        _, of, dy, saved = rest
        known = 0 <= of < number and (self.runs[of].kind, self.runs[of].place) == ("F", place)
        same = known and all(map(np.array_equal, saved, self.runs[of].saved))
        dx, grads = layer.backward(dy, saved)
        self.runs.append(Run("B", self.step, place, dy, dx, of if known else -1, saved, same))
        return dx, grads

    def runs_of(self, step: int) -> dict[int, Run]:
        """The runs of a step, by number."""
        return {number: run for number, run in enumerate(self.runs) if run.step == step}


def with_other_weights(items: Sequence[Item], secret: Random) -> list[Item]:
    """What an answer's process gets in place of these layers."""
    numbers = np.random.default_rng(secret.randrange(2**32))
    return [
        (numbers.normal(size=item[0].shape), numbers.normal(size=item[1].shape)) if isinstance(item, tuple) else item
        for item in items
    ]


@dataclass(frozen=True)
class PieceRuns:
    """The runs of the layers of one step, by their numbers; places: the layers that ask, in their order."""

    runs: dict[int, Run]
    places: Sequence[int]

    @cached_property
    def _relied_on(self) -> dict[int, int]:
        """Each forward that a backward relied on, and the last one that did."""
        return {run.of: number for number, run in self.runs.items() if run.kind == "B"}

    def forwards(self, place: int) -> dict[int, Run]:
        """A layer's forwards, by number."""
        return {number: run for number, run in self.runs.items() if (run.kind, run.place) == ("F", place)}

    def _trained(self, place: int) -> list[Run]:
        """Forwards that keep activations, as autograd was on, or as they went back; empty pieces don't count."""
        found = self.forwards(place).items()
        return [run for number, run in found if len(run.x) and (run.seen[0] or number in self._relied_on)]

    @property
    def largest(self) -> int:
        """Most samples at once, in any layer."""
        return max((len(run.x) for run in self.runs.values()), default=0)

    @property
    def passed(self) -> list[int]:
        """For each layer how many samples all its forwards had, kept or not."""
        return [sum(len(run.x) for run in self.forwards(place).values()) for place in self.places]

    @property
    def ran_empty(self) -> bool:
        """Whether a piece without samples went through the network."""
        return any(run.kind == "F" and not len(run.x) for run in self.runs.values())

    @property
    def trained(self) -> list[list[int]]:
        """For each layer the samples of each of its forwards that keep activations."""
        return [[len(run.x) for run in self._trained(place)] for place in self.places]

    @property
    def waiting(self) -> int:
        """Most earlier pieces whose backward through a layer was still to come when it ran forward."""
        back = self._relied_on
        numbers = [list(self.forwards(place)) for place in self.places]
        return max((sum(back.get(j, -1) > n for j in row if j < n) for row in numbers for n in row), default=0)

    def are_of(self, x: Array, off: float = 1e-9, rounded: float = 0.0) -> bool:
        """Whether each sample went once through all layers, and what they kept came back as it was.

        off: what may be lost between two layers. rounded: by how much the samples may differ from those of x.
        """
        trained = [self._trained(place) for place in self.places]
        came, went = ([np.concatenate([getattr(run, side) for run in row]) for row in trained] for side in "xy")
        whole = _has_the_rows(came[0], x, rounded) and all(run.as_it_was for run in self.runs.values())
        pairs = zip(went, came[1:], strict=False)
        return whole and all(np.allclose(np.tanh(a), b, rtol=off, atol=off) for a, b in pairs)


def _has_the_rows(found: Array, x: Array, off: float) -> bool:
    """Whether these are the rows of x, each once, in any order; up to `off`."""
    if not off:
        return sorted(map(tuple, found)) == sorted(map(tuple, x))
    distances = np.abs(found[:, None] - x).max(axis=2)
    return sorted(distances.argmin(axis=1)) == list(range(len(x))) and bool(distances.min(axis=1).max() <= off)
