"""Losses: a number, and its gradient with respect to the predictions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .layers import Array

Loss = Callable[[Array, Any], tuple[float, Array]]
"""(predictions (n, ...), targets (n, ...)) -> (loss, gradient with the predictions' shape)."""

REDUCTIONS: Final = ("mean", "sum")


def cross_entropy(logits: Array, labels: NDArray[np.integer], reduction: str = "mean") -> tuple[float, Array]:
    """Softmax cross-entropy of logits (n, classes) and integer labels (n,), averaged or summed over the samples.

    Raises ValueError if the shapes do not fit or a label is not the number of a class.
    """
    labels = np.asarray(labels)
    if logits.ndim != 2 or labels.shape != logits.shape[:1] or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"cross_entropy takes logits of shape (n, classes) and n integer labels; got logits {logits.shape} "
            f"and labels {labels.shape} of type {labels.dtype}"
        )
    classes = logits.shape[1]
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise ValueError(
            f"labels run from {labels.min()} to {labels.max()}; with {classes} classes: 0 to {classes - 1}"
        )
    rows = np.arange(len(labels))
    # exp of the largest logit overflows from 710 on; the softmax does not change if all logits are shifted.
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sums = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    gradient = np.exp(shifted - log_sums)
    gradient[rows, labels] -= 1.0
    scale = _scale(reduction, len(labels))
    return float((log_sums[:, 0] - shifted[rows, labels]).sum() * scale), gradient * scale


def mse(predictions: Array, targets: Array, reduction: str = "mean") -> tuple[float, Array]:
    """Squared error of predictions and targets of one shape, averaged or summed over all values, as in PyTorch.

    Raises ValueError if the shapes differ.
    """
    targets = np.asarray(targets)
    if predictions.shape != targets.shape:
        raise ValueError(
            f"mse takes two arrays of one shape; got predictions {predictions.shape}, targets {targets.shape}"
        )
    error = predictions - targets
    scale = _scale(reduction, error.size)
    return float((error * error).sum() * scale), 2.0 * scale * error


LOSSES: Final[dict[str, Callable[..., tuple[float, Array]]]] = {"cross_entropy": cross_entropy, "mse": mse}


def find_loss(loss: str | Loss, reduction: str) -> Loss:
    """The loss with that name and reduction; a function of your own is taken as it is.

    Raises ValueError for an unknown name or reduction.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction is {reduction!r}; it must be one of {', '.join(REDUCTIONS)}")
    if callable(loss):
        return loss
    if loss not in LOSSES:
        raise ValueError(
            f"loss is {loss!r}; it must be one of {', '.join(LOSSES)}, or a function that takes predictions and "
            f"targets and returns the loss and its gradient"
        )
    return partial(LOSSES[loss], reduction=reduction)


def _scale(reduction: str, count: int) -> float:
    return 1.0 / count if reduction == "mean" else 1.0
