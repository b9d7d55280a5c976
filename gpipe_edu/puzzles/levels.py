"""The eleven levels, in the order in which they unlock: ten from `levels.toml`, and a sandbox of any size."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from gpipe_edu.base.validate import number, whole
from gpipe_edu.timeline import Costs

from .level import Level

SANDBOX: Final = "sandbox"
"""The key of the last level, whose sizes the player chooses."""

OPENS_SANDBOX: Final = "1f1b"
"""The level after which it opens: those who have built 1F1B know all that a sandbox needs."""

LARGEST: Final = {"K": 16, "M": 64, "V": 8}
"""How large a sandbox may be."""


def sandbox(K: int = 4, M: int = 8, V: int = 1, B: float = 2, send: float = 0, cap: float | None = None) -> Level:
    """A level of your own: any sizes, every kind of op; F takes 1, and every device may hold `cap` micro-batches.

    Raises ValueError or TypeError for sizes that make no pipeline, or that are larger than `LARGEST`.
    """
    for name, value in (("K", K), ("M", M), ("V", V)):
        if whole(f"sandbox {name}", value, 1) > LARGEST[name]:
            raise ValueError(f"sandbox {name} is {value}; it must be at most {LARGEST[name]}")
    return Level(
        SANDBOX,
        "Your own sandbox",
        "Whatever you want to find out: any op, any order, no par.",
        K,
        M,
        kinds="FBRCIW",
        V=V,
        costs=Costs(F=1, B=number("sandbox B", B), send=number("sandbox send", send)),
        cap=None if cap is None else (number("sandbox cap", cap),) * K,
        policy="1f1b",
        mode="free",
    )


def _read() -> Iterator[Level]:
    """The levels of `levels.toml`."""
    text = files(__package__).joinpath("levels.toml").read_text(encoding="utf-8")
    for key, entry in tomllib.loads(text).items():
        costs, cap = Costs(**entry.pop("costs", {"F": 1, "B": 1})), entry.pop("cap", None)
        yield Level(key, costs=costs, cap=cap and tuple(cap), **entry)


LEVELS: Final[tuple[Level, ...]] = (*_read(), sandbox())
"""All levels; each unlocks when the one before is solved, the sandbox earlier."""


def find_level(key: str) -> Level:
    """The level with that key, or of that number counted from 1. Raises ValueError for another."""
    meant = key.strip().lower().replace("_", "-").replace(" ", "-")
    for number_, level in enumerate(LEVELS, start=1):
        if meant in (level.key, str(number_)):
            return level
    known = ", ".join(f"{number_} {level.key}" for number_, level in enumerate(LEVELS, start=1))
    raise ValueError(f"level is {key!r}; it must be one of {known}")
