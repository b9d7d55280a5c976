"""How `deferred_update` is called."""

from __future__ import annotations

from typing import Any

from gpipe_edu.judge.guest.forms import gather, gather_for_good


def perform(deferred_update: Any, **given: Any) -> Any:
    """The new running values for an `UpdateQuestion`, and its fields as they are afterwards."""
    found = deferred_update(*(value for value in given.values() if value is not None))
    one_array = hasattr(found, "ndim") and found.ndim < 2
    parts = found if one_array else gather(found)
    if isinstance(parts, list):
        gather_for_good(parts)  # the arrays are what may be kept: the pair may be new
        parts = [part.detach().numpy() if hasattr(part, "detach") else part for part in parts]
    return parts, list(given.values())
