"""How far gradients are from those of one device: one figure, the same for every engine and every check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

Grads: TypeAlias = Sequence[Any] | Sequence[Mapping[str, Any]]
"""Arrays, or a dict of arrays for each layer."""


def gradient_difference(found: Grads, expected: Grads) -> float:
    """The largest difference of any value, as a share of the largest expected one.

    Infinite if a gradient is missing (None), has NaN or another shape, or is not zero where only zeros are expected.
    """
    ours, theirs = _flat(found), _flat(expected)
    if list(map(np.shape, ours)) != list(map(np.shape, theirs)):
        return float("inf")
    worst = max((float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True) if np.size(b)), default=0.0)
    largest = max((float(np.abs(b).max()) for b in theirs if np.size(b)), default=0.0)
    if not largest:
        return float("inf") if worst else 0.0
    return worst / largest if np.isfinite(worst) else float("inf")


def _flat(grads: Grads) -> list[Any]:
    return [part for layer in grads for part in (layer.values() if isinstance(layer, Mapping) else [layer])]
