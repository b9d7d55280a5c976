"""One rule for the form of every answer: what a caller can't tell apart is right.

A caller goes over an answer once, in order, and computes with its numbers. So a list, a tuple, an array and a generator
are as good as each other, and so are 2, NumPy's 2 and True. A set, which has no order, and a dict or a text, whose
items are of another kind, are not. But ticks and rows are asked for by number, and a dict may have them by number.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from gpipe_edu.base.words import shorten
from gpipe_edu.process import plain
from gpipe_edu.schedule import Op, Schedule


def gather(value: Any, deep: int = 1) -> Any:
    """In the learner's process: the value with lists for all that gives its items in order, `deep` levels down."""
    return [gather(item, deep - 1) for item in value] if deep and gives_items(value) else value


def by_number(value: Any) -> Any:
    """In the learner's process: a dict whose keys are 0, 1, 2 and so on as the list that it stands for."""
    if not isinstance(value, dict) or not all(map(is_whole, value)) or {*value} != {*range(len(value))}:
        return value
    return [value[number] for number in range(len(value))]


class HandedOutAgain(Exception):
    """A later call has changed the result of an earlier one, because both are one and the same object."""


_earlier: list[tuple[Any, int, int, bytes]] = []
"""The result of the last call, and its length, depth and content when it came."""


def gather_for_good(value: Any, deep: int = 1) -> Any:
    """As `gather`, for the result of a call. Raises HandedOutAgain if this call has changed the one that came before.

    An earlier result that has only grown longer passes: what is left over shows in this one, and says more.
    """
    while _earlier:
        before, length, its_depth, content = _earlier.pop()
        if len(before) <= length and plain.encode(gather(before, its_depth)) != content:
            raise HandedOutAgain
    found = gather(value, deep)
    if isinstance(value, list | np.ndarray):  # else it cannot be read twice, or not be changed
        with suppress(MemoryError):  # reported when it is handed over
            _earlier.append((value, len(value), deep, plain.encode(found)))
    return found


def at_its_place(place: int, make: Callable[[], Any]) -> Any:
    """What `make` makes, where something gone used to lie, so that both have one `id`; elsewhere if it is not gone.

    Code that keeps results by `id` takes the second for the first, as it will for a learner one day.
    """
    others = {}  # not a list, which might take the place itself
    for number in range(100):
        if id(made := make()) == place:
            break
        others[number] = made
    return made


def gives_items(value: Any) -> bool:
    """Whether the value gives its items one by one and in order."""
    if isinstance(value, str | bytes | dict | set | frozenset | Op | Schedule):
        return False
    if isinstance(value, np.ndarray):
        return bool(value.ndim)
    by_number = hasattr(value, "__len__") and hasattr(value, "__getitem__")  # enough for a loop
    return by_number or hasattr(value, "__iter__")


def describe(value: Any, most: int = 60) -> str:
    """In the judge's process: a value in a learner's report."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return shorten(repr(value), most)


def is_whole(value: Any) -> bool:
    """Whether it counts something: a whole number of any type."""
    return isinstance(value, int | np.integer | np.bool_)
