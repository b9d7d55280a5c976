"""How much is tried of what is drawn at random, or large: all of it with `--whole`, and day by day the same part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

DAILY, WHOLE = "daily", "whole"
"""Names of hypothesis' profiles; tests/conftest.py loads one of them."""


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
    return cases if whole() else cases[::3]
