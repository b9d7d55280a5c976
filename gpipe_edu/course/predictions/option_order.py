"""What makes one learner's course differ from another's: the order of a prediction's options.

With one order for all, the letter that is right most often would be a good blind guess, and a neighbour's letters could
be copied.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from random import Random
from typing import TypeVar

from gpipe_edu.base import store

_SECTION = "learner"

T = TypeVar("T")


def shuffle(key: str, items: Iterable[T]) -> list[T]:
    """`items` in this learner's order for `key`: the same one in every session."""
    order = list(items)
    Random(f"{_seed()} {key}").shuffle(order)
    return order


def _seed() -> str:
    """Drawn once and stored in the learner's file; where nothing can be stored, the same one for all."""
    try:
        if seed := store.read(_SECTION).get("seed"):
            return str(seed)
        with store.change(_SECTION) as kept:
            return str(kept.setdefault("seed", secrets.token_hex(8)))
    except OSError:
        return ""
