"""What betrays how a stage was re-materialized: which layers the backward ran forward again, and in which order.

Right is: the stages that were to run again, the last one first, and in each the layers from first to last, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby, pairwise
from typing import NamedTuple

from gpipe_edu.base.words import join_words
from gpipe_edu.judge.case import Sign, Signs
from gpipe_edu.judge.tasks.ex04_checkpoint.perform import Number


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
        """What was to be, in words."""
        return f"runs again: {_named(sorted(self.wanted))}"

    @property
    def came(self) -> str:
        """What was, in words."""
        often = Counter(self.runs)
        return "ran again: " + _named(f"{k} ({often[k, 0]}x)" if often[k, 0] > 1 else k for k in sorted(self.stages))


def signs(reruns: Reruns) -> Signs:
    """From the most telling one on."""
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
