"""In which order micro-batches should run if they cost differently.

A step pays for its first micro-batches while the pipeline fills, and for its last ones while it drains. In between, a
long micro-batch holds up the short ones that alternate with it. What follows depends on the schedule:

- Under GPipe, with stages alike and each micro-batch the same on all of them, the order changes nothing: the longest
  chain of ops passes every micro-batch on some stage, and the longest one on the K-1 others. So the step takes
  (sum + (K-1) longest) times F + B.
- Under GPipe, with an encoder on stage 0 that only some micro-batches use: shortest first.
- Under 1F1B: the shortest at both ends, the longest in the middle. Where memory is short, that does not fit: then the
  longest ones may not be in flight together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import combinations, permutations
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from gpipe_edu.base.validate import number
from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.schedule.op import FINISHES
from gpipe_edu.schedule.schedule import check_schedule

from .costs import Costs
from .step_lengths import ROUNDING, check_links, smallest, step_lengths

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ALL: Final = 8
"""Up to so many micro-batches all orders are tried: 40,320."""


class MicroBatchOrder(NamedTuple):
    """order: the micro-batch for each place. makespan: the planned step. least: a time that no order in this memory
    beats; it is the makespan if all orders were tried. Times are in the unit of the costs."""

    order: tuple[int, ...]
    makespan: float
    least: float


def order_micro_batches(schedule: Schedule, costs: Costs, memory: float | None = None) -> MicroBatchOrder:
    """The order of micro-batches in which a planned step of `schedule` is shortest.

    Place i of the schedule runs micro-batch order[i]. With up to 8 micro-batches all orders are tried. With more,
    sorted orders, and the one with the longest in the middle, are improved by swaps of two until none helps. The result
    need not be the best; `least` says how far it may be from that. (Of 1,200 random cases without a cap, small enough
    to try all orders, in planned steps of GPipe and 1F1B, 99 % were the best, and none took more than 1.5 % longer;
    with a cap and 10 micro-batches, up to 6.5 %.) The order given is kept if none is shorter.

    costs: with `micro_batches`. memory: the most that a device may hold. A micro-batch counts as many as its number in
    `costs.micro_batches`, on each stage, from its F until it is finished there.

    Raises ValueError for costs whose micro-batches are alike, or that have a link or an overlap; for a memory where
    costs have a list for each stage; if no order fits, or none is found.
    """
    check_schedule(schedule)
    check_links(costs)
    if costs.micro_batches is None:
        raise ValueError("Costs micro_batches is None, so all are alike, and in any order; give a number for each")
    limit = inf if memory is None else number("memory", memory)
    if memory is not None and not costs.sizes:
        raise ValueError("memory needs one number per micro-batch in Costs micro_batches, not a list for each stage")
    search = _Search(schedule.apart(), costs, limit)
    M = schedule.micro_batches
    tried = map(search.best, _all_orders(M)) if M <= _ALL else map(search.improve, search.starts())
    found = reduce(_shorter, tried)
    if found.excess:
        sure = "no order fits" if M <= _ALL else "no order was found that fits"
        raise ValueError(f"{sure}: memory is {limit:g}, and a device holds {limit + found.excess:g}; give it more")
    return MicroBatchOrder(found.order, found.makespan, found.makespan if M <= _ALL else search.least())


class _Tried(NamedTuple):
    """excess: by how much a device holds more than fits. The smallest is the best."""

    excess: float
    makespan: float
    order: tuple[int, ...]


class _Search:
    """Times and memory of many orders."""

    def __init__(self, schedule: Schedule, costs: Costs, memory: float) -> None:
        import numpy as np

        duration, M = costs.durations(schedule), schedule.micro_batches
        alike = {(op.kind, op.stage) for row in schedule.rows for op in row}
        self._cost = {
            (kind, stage): np.array([duration(Op(kind, m, stage)) for m in range(M)], float) for kind, stage in alike
        }
        self._schedule, self._send, self._memory = schedule, costs.send, memory
        self._sizes = np.array(costs.sizes or [0.0] * M, float)

    def best(self, orders: NDArray[np.intp]) -> _Tried:
        """The best of the orders, one per row; of several that are equally good the first."""
        lengths = step_lengths(
            self._schedule, lambda op: self._cost[op.kind, op.stage][orders[:, op.micro_batch]], self._send
        )
        excess = self._excess(self._sizes[orders])
        fits = smallest(excess)
        one = fits[smallest(lengths[fits])[0]]
        return _Tried(float(excess[one]), float(lengths[one]), tuple(map(int, orders[one])))

    def _excess(self, held_by: NDArray[np.float64]) -> NDArray[np.float64]:
        """By how much the fullest device of each order holds too much; 0 for what is rounding."""
        import numpy as np

        most = np.zeros(len(held_by))
        for row in self._schedule.rows if self._memory < inf else ():
            held = np.zeros(len(held_by))
            for kind, m, _ in row:
                if kind == "F":
                    held = held + held_by[:, m]
                    most = np.maximum(most, held)
                elif kind in FINISHES:
                    held = held - held_by[:, m]
        excess: NDArray[np.float64] = np.maximum(0, most - self._memory)
        return np.where(excess > ROUNDING * most, excess, 0) if self._memory < inf else excess

    def starts(self) -> Iterator[tuple[int, ...]]:
        """As given; shortest first; longest first; the longest in the middle."""
        import numpy as np

        times = sum(self._cost[key] * count for key, count in _counts(self._schedule.rows).items())
        rising = sorted(range(self._schedule.micro_batches), key=np.asarray(times).__getitem__)
        yield from (tuple(range(len(rising))), tuple(rising), tuple(rising[::-1]))
        yield tuple(rising[::2] + rising[1::2][::-1])

    def improve(self, order: tuple[int, ...]) -> _Tried:
        """This order after the best swap of two, again and again, until none helps."""
        import numpy as np

        swaps = list(combinations(range(len(order)), 2))
        now = self.best(np.array([order]))
        while True:
            orders = np.tile(now.order, (len(swaps), 1))
            for row, (one, other) in enumerate(swaps):
                orders[row, [one, other]] = orders[row, [other, one]]
            found = _shorter(now, self.best(orders))
            if found is now:
                return now
            now = found

    def least(self) -> float:
        """No step is shorter: a device runs its ops, the first after its micro-batch has come through the stages in
        front, and the last before its micro-batch goes back through them."""
        import numpy as np

        kinds = {kind for kind, _ in self._cost}
        back = next((kind for kind in "BC" if kinds <= {"F", "R", kind}), "")  # else the last op need not go back
        most = 0.0
        for row in self._schedule.rows:
            least = sum(float(np.sort(self._cost[key])[:count].sum()) for key, count in _counts([row]).items())
            if front := min(op.stage for op in row):
                for kind in ["F", back] if back else ["F"]:
                    least += float(np.sum([self._cost[kind, stage] for stage in range(front)], axis=0).min())
            most = max(most, least)
        return most


def _counts(rows: Iterable[Sequence[Op]]) -> Counter[tuple[str, int]]:
    """How many ops of each kind and stage there are."""
    return Counter((op.kind, op.stage) for row in rows for op in row)


def _shorter(found: _Tried, one: _Tried) -> _Tried:
    """The better of two, the first if what tells them apart is rounding."""
    return one if (one.excess, one.makespan) < (found.excess, found.makespan * (1 - ROUNDING)) else found


def _all_orders(M: int) -> Iterator[NDArray[np.intp]]:
    """All orders of M micro-batches in a few arrays, one per row."""
    import numpy as np

    for first in range(M):
        rest = [m for m in range(M) if m != first]
        yield np.array([(first, *others) for others in permutations(rest)])
