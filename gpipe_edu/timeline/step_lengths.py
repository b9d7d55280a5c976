"""How long a step takes for thousands of variants of its costs at once, for a search over them.

Orders of micro-batches and cuts of layers change what ops cost, not which op waits for which. So the variants of one
schedule share a single pass over its ops, with an array where `simulate` has a number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Final

from gpipe_edu.schedule import Op, Schedule

from .costs import Costs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROUNDING: Final = 1e-9
"""The share of a number that is rounding."""


def step_lengths(schedule: Schedule, duration: Callable[[Op], NDArray[np.float64]], send: float) -> NDArray[np.float64]:
    """The makespan of each variant, as `simulate` plans it. duration: how long an op takes in each of them.

    The schedule must be one that can run: that is not checked. Pairs run apart, and links carry any number of messages.
    """
    import numpy as np

    home = schedule.device_of_stage
    free: dict[int, NDArray[np.float64]] = {}
    ended: dict[Op, NDArray[np.float64]] = {}
    for device, op, needs in schedule.steps:
        waits = [ended[need] + send * (home[need.stage] != device) for need in needs]
        begins = [*waits, free[device]] if device in free else waits
        free[device] = ended[op] = duration(op) + (reduce(np.maximum, begins) if begins else 0)
    return reduce(np.maximum, free.values())


def smallest(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """Where the smallest value is, and all that differ from it by rounding alone, in order."""
    import numpy as np

    return np.flatnonzero(values <= values.min() * (1 + ROUNDING))


def check_links(costs: Costs) -> None:
    """Raises ValueError for costs with a busy link or with overlap, which `step_lengths` does not know."""
    if costs.link or costs.overlap:
        raise ValueError(
            f"Costs link is {costs.link:g} and overlap {costs.overlap:g}; a search needs both to be 0: "
            f"give a message's time as send, and compare the results with simulate"
        )
