"""Which arrays are in a sum, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpipe_edu.judge.guest.networks import Array


def shares_in(value: Any, gradients: Sequence[Array]) -> Array | None:
    """How often the piece of each device is in `value`; None if something else is in it, too."""
    try:
        found = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return None
    if found.shape != gradients[0].shape or not np.isfinite(found).all():
        return None
    columns = np.transpose(gradients)
    shares = np.linalg.lstsq(columns, found, rcond=None)[0]
    return shares if np.allclose(columns @ shares, found, rtol=0, atol=1e-6) else None


def is_mixed(value: Any, pieces: Sequence[Array]) -> bool:
    """Whether `value` is put together from pieces of other numbers, too; never for pieces too short to tell."""
    alike = [piece for piece in pieces if np.shape(piece) == np.shape(value)]
    return len(alike) < np.size(value) and shares_in(value, alike) is not None


def is_all(shares: Array | None, value: float) -> bool:
    """Whether each device's share is `value`."""
    return shares is not None and bool(np.allclose(shares, value, rtol=0, atol=1e-6))


def shares_in_words(shares: Array | None) -> str:
    """What is in a piece, by device."""
    if shares is None:
        return "something that is no sum of the devices' pieces"
    return "the devices' pieces times " + ", ".join(f"{share:.3g}" for share in np.round(shares, 6) + 0.0)
