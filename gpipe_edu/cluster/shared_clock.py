"""When each op ran on each rank, on one clock.

Every machine has a clock of its own. Rank 0's is the reference: each other rank asks it for the time again and again,
and the quickest of these round trips gives the offset between the two clocks, to within half the time it took.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final, NamedTuple

import torch
import torch.distributed as dist

from gpipe_edu.schedule import Op

_QUESTIONS: Final = 20
"""Round trips: the quickest of so many is hardly slower than the quickest possible."""


class OpTime(NamedTuple):
    """One op on this rank, start and end in seconds on this rank's clock."""

    op: Op
    start: float
    end: float


class Offset(NamedTuple):
    """How far rank 0's clock is ahead of this rank's, and by how much that may be wrong, both in seconds."""

    ahead: float
    uncertainty: float


class SharedClock:
    """Notes the ops of a step: on a CPU from start to end of the call, on a GPU from when the kernels run."""

    def __init__(self, device: torch.device) -> None:
        self._stream = device.type == "cuda"
        self._notes: list[tuple[Op, Any, Any]] = []
        self.now: Op | None = None
        """The op that is running, or ran last."""

    def begin(self) -> None:
        """A step begins."""
        self._notes = []
        if self._stream:
            torch.cuda.synchronize()
            self._zero, self._zero_at = _event(), perf_counter()

    @contextmanager
    def op(self, op: Op) -> Iterator[None]:
        """Around an op."""
        self.now = op
        start = self._moment()
        yield
        self._notes.append((op, start, self._moment()))

    def longer(self) -> None:
        """Extend the last op until now: the loss belongs to the last stage's forward."""
        op, start, _ = self._notes[-1]
        self._notes[-1] = (op, start, self._moment())

    def op_times(self) -> list[OpTime]:
        """The ops of the last step."""
        if not self._stream:
            return [OpTime(*note) for note in self._notes]
        torch.cuda.synchronize()
        return [OpTime(op, self._seconds(start), self._seconds(end)) for op, start, end in self._notes]

    def _seconds(self, event: Any) -> float:
        return self._zero_at + float(self._zero.elapsed_time(event)) / 1e3

    def _moment(self) -> Any:
        return _event() if self._stream else perf_counter()


def offset(group: Any) -> Offset:
    """This rank's offset within `group`; all ranks of it call this at the same time."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    value = torch.zeros(1, dtype=torch.float64)
    found = [Offset(0.0, 0.0)] if rank == 0 else []
    for other in range(1, size):
        for _ in range(_QUESTIONS):
            if rank == 0:
                dist.recv(value, group=group, group_src=other)
                value.fill_(perf_counter())
                dist.send(value, group=group, group_dst=other)
            elif rank == other:
                asked = perf_counter()
                dist.send(value, group=group, group_dst=0)
                dist.recv(value, group=group, group_src=0)
                heard = perf_counter()
                found.append(Offset(value.item() - (asked + heard) / 2, (heard - asked) / 2))
    return min(found, key=lambda one: one.uncertainty)


def _event() -> Any:
    event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event
