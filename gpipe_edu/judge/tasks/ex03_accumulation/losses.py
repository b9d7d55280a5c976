"""Losses that the reference engine has not: so that a step takes the one that it is given, and no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.tasks.ex03_accumulation.perform import SMOOTHING
from gpipe_edu.reference.losses import Loss


def smoothed(logits: Array, labels: Any) -> tuple[float, Array]:
    """Cross-entropy with labels that are smoothed: a share of each belongs to all classes alike."""
    n, classes = logits.shape
    value, gradient = ref.cross_entropy(logits, labels)
    of_all = [ref.cross_entropy(logits, np.full(n, label)) for label in range(classes)]
    values, gradients = zip(*of_all, strict=True)
    share = SMOOTHING / classes
    return (1 - SMOOTHING) * value + share * sum(values), (1 - SMOOTHING) * gradient + share * sum(gradients)


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

WORDING: Final = {
    "mse": ", loss_fn the mean squared error",
    "smoothed": ", loss_fn the cross-entropy with smoothed labels",
    "lopsided": ", loss_fn a squared error that counts double where the output is too large",
}
"""In a call, for those that are not usual."""
