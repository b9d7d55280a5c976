"""What each process ran of its own stage, from the runs of the judge's layers.

Only the processes of a stage can have its layers run, and what came out of them only they are told. A process that has
computed with an activation or a gradient has therefore been sent it, in whatever way.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from gpipe_edu import reference as ref
from gpipe_edu.judge.remote_layers import AskedLayers


class OwnRuns:
    """Answers (process, question). cuts: where each stage begins, and the end."""

    def __init__(self, layers: Sequence[ref.Layer], cuts: Sequence[int]) -> None:
        stages = [range(a, b) for a, b in pairwise(cuts)]
        self._stages = [AskedLayers({place: layers[place] for place in stage}) for stage in stages]
        self._first = [next(place for place in stage if layers[place].params) for stage in stages]

    def __call__(self, question: Any) -> Any:
        """The answer. Raises LookupError for a layer of another process, ValueError for what is no question."""
        k, asked = question
        return self._stages[k](asked)

    def of_last_step(self, k: int) -> list[tuple[str, int]]:
        """ "F" and "B" of process k's first layer with weights, each with the number of its forward in the step."""
        layers, place = self._stages[k], self._first[k]
        runs = {number: run for number, run in layers.runs_of(layers.step).items() if run.place == place}
        forwards = [number for number, run in runs.items() if run.kind == "F"]
        return [(run.kind, forwards.index(run.of)) for run in runs.values() if run.of in forwards]
