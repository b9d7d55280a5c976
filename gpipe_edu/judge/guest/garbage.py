"""Garbage collection in the middle of a step, to see what is held of it, at the price of that step alone."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ignore_other_objects() -> Iterator[None]:
    """What torch and others have made is not looked through: that takes longer than a step."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
