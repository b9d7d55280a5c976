"""How `interleaved` is called."""

from __future__ import annotations

from typing import Any

from gpipe_edu.judge.guest import schedules
from gpipe_edu.judge.guest.forms import by_number, gather_for_good

HIDDEN = schedules.hide_recipes("interleaved")


def perform(interleaved: Any, K: int, M: int, V: int) -> Any:
    """What the function gives for K devices with V stages each, and M micro-batches."""
    return gather_for_good(by_number(interleaved(K, M, V)), 2)
