"""Losses that the reference engine has not: so that a step takes the one that it is given, and no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.harness.ex03_accumulation import SMOOTHING
from gpipe_edu.harness.networks import Array
from gpipe_edu.reference.losses import Loss


def smoothed(logits: Array, labels: Any) -> tuple[float, Array]:
    """Cross-entropy with labels that are smoothed: a share of each belongs to all classes alike."""
    value, gradient = ref.cross_entropy(logits, labels)
    over = logits - logits.max(axis=1, keepdims=True)
    logs = over - np.log(np.exp(over).sum(axis=1, keepdims=True))
    alike = (np.exp(logs) - 1 / logits.shape[1]) / len(logits)
    mixed = (1 - SMOOTHING) * value - SMOOTHING * float(logs.mean())
    return mixed, (1 - SMOOTHING) * gradient + SMOOTHING * alike


def lopsided(output: Array, target: Any) -> tuple[float, Array]:
    """Squared error that counts double where the output is too large, averaged over all values."""
    error = output - target
    weight = 1.0 + (error > 0)
    return float((error * error * weight).mean()), 2 * error * weight / error.size


LOSSES: Final[Mapping[str, str | Loss]] = {
    "cross_entropy": "cross_entropy",
    "mse": "mse",
    "smoothed": smoothed,
    "lopsided": lopsided,
}
"""By the names in a `StepsQuestion`."""

TOLD: Final = {
    "mse": ", loss_fn the mean squared error",
    "smoothed": ", loss_fn the cross-entropy with smoothed labels",
    "lopsided": ", loss_fn a squared error that counts double where the output is too large",
}
"""In a call, for those that are not usual."""
