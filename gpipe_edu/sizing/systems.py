"""How other systems say what a plan says: `systems.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def systems() -> dict[str, Any]:
    """What each system is called, when its words were read, and what they mean."""
    return tomllib.loads(files(__package__).joinpath("systems.toml").read_text(encoding="utf-8"))


def full_name(system: str) -> str:
    """A system with the release in which its words were read: "torchtitan (0.3)"."""
    return f"{systems()[system]['name']} ({systems()[system]['read']})"
