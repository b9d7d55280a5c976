"""How `clock` is called."""

from __future__ import annotations

from typing import Any

from .forms import gather, gives_items


def perform(clock: Any, K: int, M: int) -> Any:
    """The ticks; their pairs may stand in any order, so a set is as good as a list."""
    ticks = clock(K, M)
    if not gives_items(ticks):
        return ticks
    # One tick is read before the next one is asked for, as a program that runs them does.
    return [gather(list(tick) if isinstance(tick, set | frozenset) else tick, 2) for tick in ticks]
