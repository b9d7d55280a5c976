"""What went round a ring, told to the judge message by message, and whether it could be known where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu.judge.guest.networks import Array

from .ring_sums import shares_in

FEW: Final = 50
"""Numbers in an array up to which several others may add up to it by chance."""


class Message(NamedTuple):
    """What device k has sent in one of its calls, or received."""

    k: int
    call: int
    sent: bool
    array: Array


class Told:
    """Answers (device, question): the beginning of a call, and each message, in the order of time."""

    def __init__(self, D: int) -> None:
        self._calls = [-1] * D
        self.messages: list[Message] = []

    def __call__(self, question: Any) -> None:
        """Note it. Raises ValueError for what is no question."""
        k, (kind, *rest) = question
        if kind == "step":
            self._calls[k] += 1
        elif kind in ("sent", "received"):
            self.messages.append(Message(k, self._calls[k], kind == "sent", np.asarray(rest[0], dtype=float)))
        else:
            raise ValueError(f"{kind!r} is no question")

    def sent(self, k: int, call: int) -> list[Array]:
        """What device k has sent in a call."""
        return [m.array for m in self.messages if m[:3] == (k, call, True)]

    @property
    def sizes(self) -> list[list[list[int]]]:
        """How many numbers each message had that was sent, of each device in each of its calls."""
        return [
            [[array.size for array in self.sent(k, call)] for call in range(last + 1)]
            for k, last in enumerate(self._calls)
        ]

    def arrived(self) -> bool:
        """Whether each device has received what its left neighbour had sent, in its order."""
        D = len(self._calls)
        sent, received = (
            [[m.array for m in self.messages if (m.k, m.sent) == (k, way)] for k in range(D)] for way in (True, False)
        )
        pairs = [(sent[k - 1], received[k]) for k in range(D)]
        return all(len(a) == len(b) and all(map(np.array_equal, a, b)) for a, b in pairs)

    def known(self, k: int, call: int, own: Sequence[Array]) -> Known:
        """What device k could know in a call, which begins with the arrays that it has."""
        return Known(own, [message for message in self.messages if (message.k, message.call) == (k, call)])


class Known:
    """The arrays that a device has, and what can be computed of them by adding and multiplying with numbers.

    To have an array that cannot be is to have been told it in another way. That shows where arrays are longer than
    there are of them.
    """

    def __init__(self, own: Sequence[Array], messages: Sequence[Message]) -> None:
        self._arrays, self._messages = list(own), list(messages)

    def sends_only_what_it_has(self, then: Sequence[tuple[Array, Array]] = ()) -> bool:
        """Go through its messages. then: pairs of an array and what it has as soon as it can have that one."""
        return all(self._goes_on(message, then) for message in self._messages)

    def _goes_on(self, message: Message, then: Sequence[tuple[Array, Array]]) -> bool:
        self._arrays += [more for needed, more in then if self.has(needed) and not self.has(more)]
        if not message.sent:
            self._arrays.append(message.array)
        return self.has(message.array)

    def has(self, array: Array) -> bool:
        """Whether it is a sum of multiples of arrays that it has."""
        alike = [one for one in self._arrays if one.shape == array.shape]
        return bool(alike) and shares_in(array, alike) is not None
