"""Which layers ran in the forward and which again in the backward, and what betrays how a stage was re-materialized.

All of it is known from the judge's own stamps; what a learner's process tells has no part in it. It is right if only
the stages that were to run again did, the last one first, and in each the layers from first to last, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import NamedTuple

from gpipe_edu.base.words import join_words
from gpipe_edu.judge.case import Sign, Signs
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
        """The layer whose run gave a stamp; None for a stamp that came with the input."""
        run = self._forward.get(-1 if number is None else number)
        return None if run is None else run.place


class Reruns(NamedTuple):
    """again: for each stage whether it was to run again. layers: how many each stage has. runs: in the backward."""

    again: list[bool]
    layers: list[int]
    runs: list[Number]

    @property
    def wanted(self) -> set[int]:
        """The stages that were to run again."""
        return {k for k, more in enumerate(self.again) if more}

    @property
    def stages(self) -> set[int]:
        """Those that did, even in part."""
        return {k for k, _ in self.runs}

    @property
    def expected(self) -> str:
        """What should have run, in words."""
        return f"runs again: {_named(sorted(self.wanted))}"

    @property
    def came(self) -> str:
        """What did run, in words."""
        often = Counter(self.runs)
        return "ran again: " + _named(f"{k} ({often[k, 0]}x)" if often[k, 0] > 1 else k for k in sorted(self.stages))


def signs(reruns: Reruns) -> Signs:
    """The most telling ones first."""
    runs, wanted, there, often = reruns.runs, reruns.wanted, reruns.stages, Counter(reruns.runs)
    twice = max(often.values(), default=0) > 1
    yield Sign("nothing", bool(wanted) and not runs)
    yield Sign("late-binding", twice and len(there) == 1 < len(wanted))
    yield Sign("nested", twice)
    order = [k for k, _ in groupby(k for k, _ in runs)]
    joined = any(first < second for first, second in pairwise(order))
    yield Sign("one-checkpoint", joined, came=f"ran again: stage {' then '.join(map(str, order))}")
    backwards = any(i > j for (k, i), (other, j) in pairwise(runs) if k == other)
    layers = ("a stage's layers run again from first to last", "from last to first")
    yield Sign("per-layer", backwards, *layers)
    yield Sign("reversed", bool(wanted) and there == set(range(len(reruns.again))) - wanted)
    yield Sign("last-spared", len(reruns.again) - 1 in wanted - there)
    yield Sign("list-ignored", bool(there - wanted))
    yield Sign("stage-spared", bool(wanted - there))
    for k in sorted(wanted):
        for i in range(reruns.layers[k]):
            whole = (f"all layers of stage {k} run again", f"layer {i} of stage {k} did not")
            yield Sign("some-spared", not often[k, i], *whole)


def _named(numbers: Iterable[object]) -> str:
    numbers = list(numbers)
    return f"stage {join_words(numbers)}" if numbers else "no stage"
