"""The judge's side of `guest/remote_layers.py`: computes for layers whose weights an answer has not, and notes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.judge.guest.networks import Array, Item


class Run(NamedTuple):
    """A layer's run "F", or "B", a backward through the run number `of`, -1 if it was through none; in which step.

    x: what came in, for "B" the gradient of the output. y: what went out. saved: what a forward has to keep for its
    backward, and what the backward had of it. as_it_was: whether these are the same. seen: what else the layer has
    told.
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
    """Answers the questions of asked layers, by their places; `steps` has them for each step, as weights change."""

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
        """Those of a step, with their numbers."""
        return {number: run for number, run in enumerate(self.runs) if run.step == step}


def with_other_weights(items: Sequence[Item], secret: Random) -> list[Item]:
    """What an answer's process gets in place of these layers."""
    numbers = np.random.default_rng(secret.randrange(2**32))
    return [
        (numbers.normal(size=item[0].shape), numbers.normal(size=item[1].shape)) if isinstance(item, tuple) else item
        for item in items
    ]
