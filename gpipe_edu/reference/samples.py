"""What a mini-batch has to be before anything is done with it."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_samples(**arrays: Any) -> None:
    """Raises TypeError, with its name, for what has no first axis, along which samples could lie."""
    for name, given in arrays.items():
        if np.ndim(given) == 0:
            raise TypeError(f"{name} is {given!r}; it must be an array with samples along its first axis")
