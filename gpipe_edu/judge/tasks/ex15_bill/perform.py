"""How `bill` is called."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpipe_edu.judge.guest.forms import gather_for_good


def perform(bill: Any, model: dict[str, int], plan: dict[str, Any]) -> Any:
    """The rows of the bill, and both arguments as they are afterwards."""
    model, plan = dict(model), dict(plan)
    rows = gather_for_good(bill(model, plan), 2)
    if isinstance(rows, list):
        rows = [list(map(_as_float, row)) if isinstance(row, list) else _as_float(row) for row in rows]
    return rows, model, plan


def _as_float(value: Any) -> Any:
    """Exact numbers, which can't be handed over, as floats."""
    return float(value) if isinstance(value, Fraction | Decimal) else value
