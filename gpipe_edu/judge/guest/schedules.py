"""What the exercises on schedules share in the learner's process."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from gpipe_edu.schedule import recipes, recompute

from .forms import by_number, gather_for_good


def perform(function: Any, K: int, M: int) -> Any:
    """In the learner's process: what the function gives for K devices and M micro-batches."""
    return gather_for_good(by_number(function(K, M)), 2)


def hide_recipes(function: str) -> dict[str, str]:
    """All recipes of this package and what they are made of, for an exercise that asks for one."""
    return {f"{module.__name__}.{name}": function for module in (recipes, recompute) for name in _functions(module)}


def _functions(module: ModuleType) -> Sequence[str]:
    found = inspect.getmembers(module, inspect.isfunction)
    return [name for name, function in found if function.__module__ == module.__name__]
