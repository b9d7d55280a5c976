"""One rule for the form of every answer: what a caller can't tell apart is right.

A caller goes over an answer once, in order, and computes with its numbers. So a list, a tuple, an array and a generator
are as good as each other, and so are 2, NumPy's 2 and True. A set has no order, a dict and a text have items of another
kind: they are not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.words import shorten


def gather(value: Any, deep: int = 1) -> Any:
    """In the learner's process: the value with lists for all that gives its items in order, `deep` levels down."""
    return [gather(item, deep - 1) for item in value] if deep and gives_items(value) else value


def gives_items(value: Any) -> bool:
    """Whether the value gives its items one by one and in order."""
    if isinstance(value, str | bytes | dict | set | frozenset | Op | Schedule):
        return False
    return bool(value.ndim) if isinstance(value, np.ndarray) else hasattr(value, "__iter__")


def describe(value: Any, most: int = 60) -> str:
    """In the judge's process: a value in a learner's report."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return shorten(repr(value), most)


def is_whole(value: Any) -> bool:
    """Whether it counts something: a whole number of any type."""
    return isinstance(value, int | np.integer | np.bool_)
