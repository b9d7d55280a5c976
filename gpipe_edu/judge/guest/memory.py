"""What an answer keeps: NumPy's arrays; and, in the middle of a step, anything else, searched for only among what that
step has made.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gpipe_edu.reference.layers import Array, Layer


def arrays_in(waiting: list[Any], known: list[Any]) -> list[Array]:
    """All arrays that `waiting` leads to, each once, through objects and closures, but not through layers."""
    found, seen = [], {id(value) for value in known}
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, Layer):
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            found.append(value)
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set):
            waiting += value
        elif hasattr(value, "__dict__"):
            waiting += vars(value).values()
            waiting += [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    return found


@contextmanager
def ignore_other_objects() -> Iterator[None]:
    """Don't look through what torch and others have made: that takes longer than a step."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
