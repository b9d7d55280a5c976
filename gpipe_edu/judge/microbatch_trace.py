"""What went through a network in pieces, and in which order, from the runs of the judge's own layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.remote_layers import Run


@dataclass(frozen=True)
class PieceRuns:
    """The runs of the layers of one step, by their numbers; places: the layers that ask, in their order."""

    runs: dict[int, Run]
    places: Sequence[int]

    @cached_property
    def _relied_on(self) -> dict[int, int]:
        """The forwards that some backward relied on, and the last one that did."""
        return {run.of: number for number, run in self.runs.items() if run.kind == "B"}

    def forwards(self, place: int) -> dict[int, Run]:
        """Those of a layer."""
        return {number: run for number, run in self.runs.items() if (run.kind, run.place) == ("F", place)}

    def _trained(self, place: int) -> list[Run]:
        """Forwards that keep activations, as autograd was on, or as one went back; pieces without any don't count."""
        found = self.forwards(place).items()
        return [run for number, run in found if len(run.x) and (run.seen[0] or number in self._relied_on)]

    @property
    def largest(self) -> int:
        """Most samples at once, in any layer."""
        return max((len(run.x) for run in self.runs.values()), default=0)

    @property
    def passed(self) -> list[int]:
        """For each layer the samples of all its forwards, kept or not."""
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

    def are_of(self, x: Array, off: float = 1e-9) -> bool:
        """Whether the samples went through, each once, through all layers, and came back as they were.

        off: what may be lost between two layers.
        """
        trained = [self._trained(place) for place in self.places]
        came, went = ([np.concatenate([getattr(run, side) for run in row]) for row in trained] for side in "xy")
        whole = sorted(map(tuple, came[0])) == sorted(map(tuple, x)) and all(
            run.as_it_was for run in self.runs.values()
        )
        pairs = zip(went, came[1:], strict=False)
        return whole and all(np.allclose(np.tanh(a), b, rtol=off, atol=off) for a, b in pairs)
