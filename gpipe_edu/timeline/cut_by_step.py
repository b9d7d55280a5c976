"""The cut of layers into stages for which a planned step is shortest, where micro-batches cost differently.

`balance_by_cost` makes the largest stage as small as it can be, which is what counts while the pipeline is full. If
some micro-batches use layers that others skip, such as an image encoder, a stage is the largest for some of them and
not for others, and the step depends on the order that they come in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Final, NamedTuple

from gpipe_edu.base.validate import number, numbers
from gpipe_edu.base.words import plural
from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.schedule.schedule import check_schedule

from .step_lengths import smallest, step_lengths

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST: Final = 200_000
"""The most cuts that are tried, some seconds' worth."""


class Cut(NamedTuple):
    """balance: how many layers each stage has. makespan: the planned step, in the unit of the layers' times."""

    balance: tuple[int, ...]
    makespan: float


def balance_by_step(
    schedule: Schedule, forwards: Sequence[Sequence[float]], backward: float = 2, send: float = 0
) -> Cut:
    """The cut for which a planned step of `schedule` is shortest: all cuts are tried.

    forwards: for each layer its forward's time for each micro-batch, in the order that they run. backward: how many
    times that its backward takes. send: the time of a message. Of several cuts that are equally good, it is the one
    whose first stages have the fewest layers.

    Raises ValueError for a schedule whose ops are not F and B, for fewer layers than stages, rows of other lengths than
    the number of micro-batches, or more than 200,000 cuts; TypeError for what are no numbers.
    """
    import numpy as np

    K, M = check_schedule(schedule).stages, schedule.micro_batches
    if not {op.kind for row in schedule.rows for op in row} <= {"F", "B"}:
        raise ValueError(f"{schedule!r} has ops besides F and B; give a schedule such as ge.one_f_one_b({K}, {M})")
    rows = [numbers(f"forwards[{layer}]", row) for layer, row in enumerate(forwards)]
    for layer, row in enumerate(rows):
        if len(row) != M:
            raise ValueError(f"forwards[{layer}] has {plural(len(row), 'number')}; it must have {M}, a time for each")
    L = len(rows)
    if L < K:
        raise ValueError(f"{L} layers cannot fill {K} stages, because every stage needs at least one; give more layers")
    if comb(L - 1, K - 1) > _MOST:
        raise ValueError(
            f"{L} layers have {comb(L - 1, K - 1):,} cuts into {K} stages, more than {_MOST:,}; join layers, or use "
            f"balance_by_cost with what each layer costs for all micro-batches together"
        )
    inner = np.array(list(combinations(range(1, L), K - 1)), int).reshape(comb(L - 1, K - 1), K - 1)
    bounds = np.hstack([np.zeros((len(inner), 1), int), inner, np.full((len(inner), 1), L)])
    sums = np.vstack([np.zeros(M), np.cumsum(rows, axis=0)])
    times = {"F": 1.0, "B": number("backward", backward)}

    def duration(op: Op) -> NDArray[np.float64]:
        column: NDArray[np.float64] = sums[:, op.micro_batch]
        stage: NDArray[np.float64] = column[bounds[:, op.stage + 1]] - column[bounds[:, op.stage]]
        return stage * times[op.kind]

    lengths = step_lengths(schedule, duration, number("send", send))
    best = smallest(lengths)[0]
    return Cut(tuple(map(int, np.diff(bounds[best]))), float(lengths[best]))
