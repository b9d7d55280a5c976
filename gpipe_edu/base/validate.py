"""Arguments that people type: checked in one place, so that every error names what was given and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from numbers import Real
from typing import Any, Final, cast

from .words import shown

NUMBER_OR_LIST: Final = "a number, or a list of one per stage"


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """`value` as an int, NumPy integers included; True and 1.0 are taken for mistakes, not for counts.

    Raises TypeError if it is not a whole number, ValueError if it is less than `least` or more than `most`.
    """
    if type(value) is not int:
        plain = _plain(value)
        if isinstance(plain, bool) or not hasattr(plain, "__index__"):
            raise TypeError(f"{name} is {shown(repr(value), 60)}; it must be a whole number of at least {least}")
        value = int(plain.__index__())
    if value < least:
        raise ValueError(f"{name} is {value}; it must be at least {least}")
    if most is not None and value > most:
        raise ValueError(f"{name} is {value:,}; it must be at most {most:,}")
    return int(value)


def _plain(value: Any) -> Any:
    """NumPy's and PyTorch's scalars as Python's, which never overflow and stay exact."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def number(name: str, value: Any) -> float:
    """`value`, if it is a number (else TypeError), finite and at least 0 (else ValueError)."""
    plain = _plain(value)
    if isinstance(plain, bool) or not isinstance(plain, Real):
        raise TypeError(f"{name} is {shown(repr(value), 60)}; it must be a number")
    amount = cast(float, plain)
    if not 0 <= amount < math.inf:
        raise ValueError(f"{name} is {value!r}; it must be finite and at least 0")
    return amount


def numbers(name: str, values: Any, allowed: str = "a list of numbers") -> tuple[float, ...]:
    """`values` as a tuple, each checked by `number`. Raises TypeError, which says what is allowed, for text and for
    what has no order (a dict, a set)."""
    if isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {values!r}; it must be {allowed}")
    return tuple(number(f"{name}[{index}]", value) for index, value in enumerate(values))


def per_stage(name: str, value: Any, stages: int) -> tuple[float, ...]:
    """One number for all stages, or a list of one per stage, as a tuple. Raises ValueError if the list does not fit."""
    if isinstance(value, Real):
        return (number(name, value),) * stages
    values = numbers(name, value, NUMBER_OR_LIST)
    if len(values) != stages:
        raise ValueError(
            f"{name} has {len(values)} values, but there are {stages} stages; give one number for all stages or "
            f"{stages} of them"
        )
    return values


class SaidPlainly(Exception):
    """Mixed into errors whose message says it all: a notebook shows them without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]
