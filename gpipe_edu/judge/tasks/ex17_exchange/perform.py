"""How `exchange_bytes` is called."""

from __future__ import annotations

from fractions import Fraction
from typing import Any


def perform(
    exchange_bytes: Any,
    chosen: list[list[int]],
    home: list[int],
    device_of: list[int],
    capacity: int,
    token_bytes: int,
) -> Any:
    """The entries of the dict, and the three lists as they are afterwards."""
    lists = [list(experts) for experts in chosen], list(home), list(device_of)
    found = exchange_bytes(*lists, capacity, token_bytes)
    if isinstance(found, dict):
        found = [[(link, float(size) if isinstance(size, Fraction) else size) for link, size in found.items()]]
    return found, *lists
