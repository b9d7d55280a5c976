"""How workers send values to each other, and how all of them learn that one has failed.

Every worker has one inbox, a queue implemented in C. A worker that needs a message takes from its inbox until that
message comes and keeps the others for later. A failure is a message too, sent to all, so no worker waits forever.
"""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any, NamedTuple


class Address(NamedTuple):
    """What a message is: a value going forward ("F") or a gradient going back ("G"), its micro-batch and its way."""

    kind: str
    micro_batch: int
    way: int


class Aborted(Exception):
    """Another worker has failed."""


class Exchange:
    """The inboxes of one step, one per worker."""

    def __init__(self, workers: int) -> None:
        self._inboxes: list[SimpleQueue[tuple[Address | None, Any]]] = [SimpleQueue() for _ in range(workers)]
        self._waiting: list[dict[Address, Any]] = [{} for _ in range(workers)]
        self.aborted = False

    def send(self, worker: int, address: Address, value: Any) -> None:
        """Put a message into the inbox of `worker`."""
        self._inboxes[worker].put((address, value))

    def receive(self, worker: int, address: Address) -> Any:
        """The message at `address`, for `worker` only; waits until it is there. Raises Aborted after `abort`."""
        waiting = self._waiting[worker]
        while address not in waiting:
            arrived, value = self._inboxes[worker].get()
            if arrived is None:
                raise Aborted
            waiting[arrived] = value
        return waiting.pop(address)

    def abort(self) -> None:
        """Make every `receive`, waiting or to come, raise Aborted; workers that do not wait look at `aborted`."""
        self.aborted = True
        for inbox in self._inboxes:
            inbox.put((None, None))

    def let_go(self) -> None:
        """After a failure, when no worker runs any more: drop the messages that are left."""
        self._inboxes, self._waiting = [], []
