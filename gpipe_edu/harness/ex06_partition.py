"""How `partition` is called."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .forms import gather_for_good

HIDDEN: Final = {"gpipe_edu.balance_by_cost": "partition"}


def perform(partition: Any, costs: list[float], K: int) -> Any:
    """The counts, and the costs as they are afterwards."""
    found = partition(costs, K)
    return gather_for_good(found.tolist() if isinstance(found, np.ndarray) else found), costs
