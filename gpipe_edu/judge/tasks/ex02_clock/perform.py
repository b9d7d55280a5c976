"""How `clock` is called."""

from __future__ import annotations

from typing import Any

from gpipe_edu.judge.guest.forms import HandedOutAgain, by_number, gather, gather_for_good, gives_items


def perform(clock: Any, K: int, M: int) -> Any:
    """The ticks; their pairs may stand in any order, so a set is as good as a list."""
    ticks = by_number(clock(K, M))
    if not gives_items(ticks):
        return ticks
    gather_for_good(ticks if isinstance(ticks, list) else [], 3)
    came = [(tick, _gather(tick)) for tick in ticks]
    if any(isinstance(tick, list) and _gather(tick) != found for tick, found in came):
        raise HandedOutAgain
    return [found for _, found in came]


def _gather(tick: Any) -> Any:
    return gather(list(tick) if isinstance(tick, set | frozenset) else tick, 2)
