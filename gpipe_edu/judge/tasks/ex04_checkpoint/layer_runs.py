"""Which layers ran in the forward and which in the backward, and whether a backward relied on the run it should.

All of it is known from the judge's own stamps; what a learner's process tells has no part in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from gpipe_edu.judge.tasks.ex04_checkpoint.perform import Number, Stages
from gpipe_edu.judge.traced_runs import Run, Trail


@dataclass(frozen=True)
class LayerRuns:
    """The runs of the layers of `stages`, of which those in `again` were to be run again."""

    trail: Trail
    stages: Stages
    again: Sequence[bool]

    @cached_property
    def _forward(self) -> dict[int, Run]:
        return dict(self.trail.of("F", "forward"))

    @cached_property
    def _backward(self) -> dict[int, Run]:
        return dict(self.trail.of("F", "backward"))

    @property
    def first(self) -> list[Number]:
        """The layers in the order of the forward."""
        return [run.place for run in self._forward.values()]

    @property
    def again_run(self) -> list[Number]:
        """The layers that the backward ran again."""
        return [run.place for run in self._backward.values()]

    @property
    def twice(self) -> bool:
        """Whether the forward ran some layers twice."""
        return max(Counter(self.first).values(), default=0) > 1

    @property
    def blind(self) -> set[int]:
        """The stages that ran without autograd."""
        return {run.place[0] for run in self._forward.values() if not run.seen[0]}

    @property
    def _order(self) -> list[Number]:
        return [(k, i) for k, items in enumerate(self.stages) for i in range(len(items))]

    @property
    def skipped(self) -> bool:
        """Whether some layer has not run in the forward."""
        return not set(self._order) <= set(self.first)

    @property
    def whole(self) -> bool:
        """Whether each layer has run in the forward, and on what the one in front of it gave."""
        order = self._order
        before = dict(zip(order[1:], order, strict=False))
        came_from = all(
            {self._place(number) for number in run.sources} == {before.get(run.place)} for run in self._forward.values()
        )
        return set(self.first) == set(order) and came_from

    @property
    def relies_on_the_first(self) -> bool:
        """Whether a backward through a stage that was to run again used what its first run gave."""
        return any(
            self.again[run.place[0]] and not run.sources <= self._backward.keys()
            for _, run in self.trail.of("B", "backward")
        )

    def _place(self, number: int | None) -> Number | None:
        """Of the run that gave a stamp; None for a stamp that came with the input."""
        run = self._forward.get(-1 if number is None else number)
        return None if run is None else run.place
