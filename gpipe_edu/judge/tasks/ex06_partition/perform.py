"""How `partition` is called."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpipe_edu.judge.guest.forms import at_its_place, gather, gather_for_good

HIDDEN: Final = {"gpipe_edu.balance_by_cost": "partition"}


def perform(partition: Any, costs: list[float], K: int, before: list[float] | None = None) -> Any:
    """The counts, and the costs as they are afterwards.

    before: costs of layers that are cut first, in a list that is gone when the other takes its place in memory.
    """
    if before is not None:
        first = list(before)
        place = id(first)
        gather(partition(first, K))
        del first
        costs = at_its_place(place, costs.copy)
    found = partition(costs, K)
    return gather_for_good(found.tolist() if isinstance(found, np.ndarray) else found), costs
