"""How much is tried of what is drawn at random, or of cases that are alike: all of it with `--whole`, else the share of
the day, which the seed of the run's order picks. pytest-random-order prints that seed; without one the share is the
first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

DAILY, WHOLE = "daily", "whole"
"""Names of hypothesis' profiles; tests/conftest.py loads one of them."""

_seed = 0


def pick_by(seed: int) -> None:
    """From now on `seed` picks the share of the day."""
    global _seed
    _seed = seed


def whole() -> bool:
    """Whether these tests run with `--whole`."""
    return settings.get_current_profile_name() == WHOLE


def fewer(count: int) -> int:
    """So many seeds or examples; daily a third of them."""
    return count if whole() else -(-count // 3)


def examples(count: int) -> settings:
    """`@examples(300)` above `@given` tries so many; daily a third of them."""
    return settings(max_examples=fewer(count))


def third(cases: Sequence[T]) -> Sequence[T]:
    """All cases; daily every third, so of neighbours that are alike one is there."""
    return cases if whole() else cases[_seed % 3 :: 3] or cases[:1]


def is_due(place: int) -> bool:
    """Whether the case at this place of a sweep is one of today's third: 0, 5, 7, 9, 14 ..., so that each value of each
    parameter has its turn.
    """
    return whole() or (place + place // 3 + _seed) % 3 == 0


def one_of_each(cases: Sequence[T], kind: Callable[[T], Hashable]) -> list[T]:
    """All cases; daily one of each kind."""
    alike: dict[Hashable, list[T]] = {}
    for case in cases:
        alike.setdefault(kind(case), []).append(case)
    return list(cases) if whole() else [same[_seed % len(same)] for same in alike.values()]
