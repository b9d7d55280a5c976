"""The ops of one rank, cut into steps. A profile begins and ends in the middle of one, so not every step is whole.

A step begins with a forward of micro-batch 0 while nothing is in flight, or with an op that the step before it has
already had.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from gpipe_edu.schedule import Op
from gpipe_edu.schedule.op import FINISHES

from ..timeline import Exchange
from .exchanges import Exchanged
from .op_names import Named
from .recording import TimedOp, TimedTransfer


class PlacedOp(NamedTuple):
    """An op that a rank ran from start to end, in microseconds."""

    op: Op
    start: float
    end: float
    exchanged: Exchanged | None = None


class Step:
    """`Step(ops, transfers)`: what one rank ran in one step, in the order in which its host ran it.

    again: the op that came once more while micro-batches were in flight, and so ended it; None if none did. ready: when
    its host turned to its first op, be it to wait. before: the rank's step before it, None if there is none. exchanges:
    of its ops, in microseconds, as `compare_ranks` knows them of all ranks.
    """

    def __init__(
        self,
        ops: Sequence[PlacedOp],
        transfers: Sequence[TimedTransfer] = (),
        again: Op | None = None,
        ready: float = 0.0,
        before: Step | None = None,
    ) -> None:
        self.ops, self.transfers, self.again = tuple(ops), tuple(transfers), again
        self.ready, self.before = ready, before
        self.exchanges: dict[Op, Exchange] = {}

    @cached_property
    def start(self) -> float:
        """When its first op begins."""
        return min(op.start for op in self.ops)

    @cached_property
    def end(self) -> float:
        """When its last op ends."""
        return max(op.end for op in self.ops)

    @property
    def forward_only(self) -> bool:
        """Whether it is a step of an evaluation."""
        return all(placed.op.kind == "F" for placed in self.ops)

    @cached_property
    def lack(self) -> str:
        """What it lacks to be a whole one, as far as one rank tells; "" if nothing."""
        if self.again:
            return f"{self.again} comes twice in one step"
        if self.forward_only:
            return ""
        begun = {placed.op[1:]: placed.op for placed in self.ops if placed.op.kind == "F"}
        finished = {placed.op[1:]: placed.op for placed in self.ops if placed.op.kind in FINISHES}
        lacks = [f"{op} has no backward" for key, op in begun.items() if key not in finished]
        lacks += [f"{op} has no forward" for key, op in finished.items() if key not in begun]
        return lacks[0] if lacks else ""

    def overlap(self, other: Step) -> float:
        """For how long both are under way; negative if one begins after the other's end."""
        return min(self.end, other.end) - max(self.start, other.start)


def steps_of(ops: Iterable[TimedOp], transfers: Sequence[TimedTransfer], place: Callable[[Named], Op]) -> list[Step]:
    """The steps of a rank, from the first to the last. place: the op, with its stage."""
    runs: list[list[tuple[PlacedOp, float]]] = []
    again: list[Op | None] = []
    seen: set[Op] = set()
    in_flight: set[tuple[int, int]] = set()
    for timed in sorted(ops, key=lambda timed: timed.mark):
        op = place(timed.op)
        begins = op.kind == "F" and op.micro_batch == 0 and not in_flight
        if not runs or begins or op in seen:
            if runs and in_flight:
                again[-1] = op
            runs.append([])
            again.append(None)
            seen, in_flight = set(), set()
        seen.add(op)
        if op.kind == "F":
            in_flight.add(op[1:])
        elif op.kind in FINISHES:
            in_flight.discard(op[1:])
        runs[-1].append((PlacedOp(op, timed.start, timed.end, timed.exchanged), timed.mark))
    firsts, lasts = [run[0][1] for run in runs], [run[-1][1] for run in runs]
    sent: list[list[TimedTransfer]] = [[] for _ in runs]
    for one in transfers:
        # What is sent follows the op that made it; what is received may come before a step's first op.
        number = bisect_right(firsts, one.mark) - 1 if one.transfer.sends else bisect_left(lasts, one.mark)
        if 0 <= number < len(runs):
            sent[number].append(one)
    found: list[Step] = []
    for run, mine, twice, mark in zip(runs, sent, again, firsts, strict=True):
        found.append(Step([placed for placed, _ in run], mine, twice, mark, found[-1] if found else None))
    return found
