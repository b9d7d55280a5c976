"""The judge's side of `guest/traced_layers.py`: what ran, from stamps that only the judge can give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu.judge.guest.networks import Array

BEGIN: Final = ("forward", "backward", "over")
"""Phases, in their order; what runs before the first is not counted."""


class Run(NamedTuple):
    """A layer's run "F", or a gradient that has come back to it, "B"; in which step and phase.

    samples: their numbers, from 1 on; a stamp that nobody has given stands for itself. sources: the numbers of the runs
    that gave the stamps that came in, or on which the backward relied; -1 for what was given from outside, None for a
    stamp that nobody has given. seen: what else the layer told.
    """

    kind: str
    step: int
    phase: int
    place: Any
    samples: tuple[float, ...]
    sources: frozenset[int | None]
    seen: tuple[Any, ...]


class Trail:
    """Answers the questions of stamped layers, and notes them."""

    def __init__(self, secret: Random, handed_out: Any = None) -> None:
        self._secret, self._handed_out = secret, handed_out
        self._step, self._phase = -1, -1
        self._known: dict[float, tuple[int, float]] = {}
        self.runs: list[Run] = []

    def stamp(self, x: Array) -> Array:
        """A mini-batch with stamps, its samples numbered from 1 on."""
        stamps = self._give(-1, range(1, len(x) + 1)).reshape(-1, *[1] * (x.ndim - 1))
        return np.concatenate([x, np.broadcast_to(stamps, (*x.shape[:-1], 1))], axis=-1)

    def __call__(self, question: Any) -> Any:
        """Answer a question: a stamped run, a backward through one, or the beginning of a phase.

        What the backward starts from is handed out only when it begins, so nobody can begin it earlier. Raises
        ValueError for anything else.
        """
        kind, *rest = question
        if kind in BEGIN:
            self._phase = BEGIN.index(kind)
            self._step += kind == "forward"
            return self._handed_out if kind == "backward" else None
        if kind not in ("F", "B"):
            raise ValueError(f"{kind!r} is no question")
        place, stamps, *seen = rest
        known = [self._known.get(float(stamp), (None, float(stamp))) for stamp in stamps]
        samples, sources = tuple(sample for _, sample in known), frozenset(run for run, _ in known)
        self.runs.append(Run(kind, self._step, self._phase, place, samples, sources, tuple(seen)))
        return self._give(len(self.runs) - 1, samples) if kind == "F" else None

    def _give(self, run: int, samples: Sequence[float] | range) -> Array:
        stamps = []
        for sample in samples:
            while (stamp := self._secret.randrange(1, 2**24) / 2**24) in self._known:  # exact in float32, too
                pass
            self._known[stamp] = run, float(sample)
            stamps.append(stamp)
        return np.array(stamps)

    def is_repeated(self, number: int | None) -> bool:
        """Whether a run took place in a backward."""
        return number is not None and number >= 0 and self.runs[number].phase == BEGIN.index("backward")

    def of(self, kind: str, phase: str) -> Iterator[tuple[int, Run]]:
        """The runs of a kind in a phase, with their numbers."""
        for number, run in enumerate(self.runs):
            if (run.kind, run.phase) == (kind, BEGIN.index(phase)):
                yield number, run
