"""How `average_gradients` is called."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from gpipe_edu.judge.guest.forms import gather


def perform(average_gradients: Any, dense: list[float], experts: list[list[tuple[int, float]]]) -> Any:
    """What came, with a list of entries for each dict, and both arguments as they are afterwards.

    experts: the entries of each rank's dict.
    """
    own_dense, own_experts = list(dense), [dict(entries) for entries in experts]
    found = gather(average_gradients(own_dense, own_experts), 2)
    if isinstance(found, list):
        found = [_entries(part) for part in found]
    return found, own_dense, _entries(own_experts)


def _entries(part: Any) -> Any:
    if not isinstance(part, list):
        return part
    return [_entries_of(one) if isinstance(one, dict) else _plain(one) for one in part]


def _entries_of(own: dict[Any, Any]) -> dict[str, Any]:
    return {"entries": [(expert, _plain(gradient)) for expert, gradient in own.items()]}


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value
