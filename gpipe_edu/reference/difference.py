"""How far gradients are from those of one device: one figure, the same for every engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def largest_difference(pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]]) -> float:
    """Of pairs (gradient, expected): the largest difference of any value, as a share of the largest expected one."""
    pairs = list(pairs)
    largest = max(float(np.abs(expected).max()) for _, expected in pairs)
    return max(float(np.abs(found - expected).max()) for found, expected in pairs) / largest
