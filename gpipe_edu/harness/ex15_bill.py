"""How `bill` is called."""

from __future__ import annotations

from typing import Any

from .forms import gather_for_good


def perform(bill: Any, model: dict[str, int], plan: dict[str, Any]) -> Any:
    """The rows of the bill, and both arguments as they are afterwards."""
    model, plan = dict(model), dict(plan)
    return gather_for_good(bill(model, plan), 2), model, plan
