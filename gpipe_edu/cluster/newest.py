"""A dictionary that keeps only what was used last: for what is dear to make again and takes memory.

Not `functools.lru_cache`: around a method it holds the method's object, which holds it, so a pipeline that is let go of
would keep the memory of its engines until garbage is collected.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Newest(Generic[K, V]):
    """At most `most` values by key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value of `key`, now the newest; None if it is not kept."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def keep(self, key: K, value: V) -> None:
        """As the newest; the oldest one goes if there are too many."""
        self._values[key] = value
        if len(self._values) > self._most:
            self._values.popitem(last=False)
