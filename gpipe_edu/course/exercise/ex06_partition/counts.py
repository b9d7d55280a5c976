"""Exercise 06: does an answer tell how many layers each stage has? What people hand back instead has a name each."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from gpipe_edu.course.task import Blame

from .cuts import Costs


def judge_counts(value: list[Any], costs: Costs, K: int, wrong: Blame) -> None:
    """Raise what `wrong` makes of the first thing that is wrong with a list for K stages."""
    L, bounds = len(costs), f"the counts must add up to {len(costs)}"
    if any(isinstance(item, list | tuple | np.ndarray) for item in value):
        raise wrong("groups", "These are the layers of each stage, or the ends of it. Tell only how *many* it has.")
    if not all(isinstance(item, int | float | np.number) and not isinstance(item, bool) for item in value):
        raise wrong("not-counts", "Every entry is a whole number: how many layers the stage gets.")
    total = sum(value)
    if len(value) == K and total != L and any(value) and np.isclose(float(total), sum(costs)):
        raise wrong("stage-costs", "This is what the stages cost. Asked is how many *layers* each has.")
    if not all(isinstance(item, int | np.integer) for item in value):
        raise wrong("fractions", "A stage has a whole number of layers: 3, not 3.0 and not 2.5.")
    rising = all(a < b for a, b in pairwise(value))
    if rising and total != L and value and ((value[0] == 0) or value[-1] == L or (len(value) == K - 1)):
        because = "These are places where stages start or end. Asked is how many layers each has: the differences."
        raise wrong("places", because, bounds)
    if len(value) < K:
        because = (
            "There are fewer stages than devices. If the layers fit into fewer stages, cut one further: it costs "
            "nothing, and every device needs a stage."
        )
        raise wrong("fewer-stages", because, f"{len(value)} instead of {K}")
    if len(value) > K:
        raise wrong("more-stages", "There are more stages than devices.", f"{len(value)} stages instead of {K}")
    empty = next((k for k, count in enumerate(value) if count < 1), None)
    if empty is not None:
        raise wrong("empty-stage", "Every stage needs at least one layer.", f"stage {empty} has {value[empty]}")
    if total < L:
        raise wrong("layers-lost", "Not all layers are placed: what became of the last ones?", f"{total} of {L}")
    if total > L:
        raise wrong("layers-twice", "More layers are placed than there are: does some layer count twice?", bounds)
