"""Gradients that a failed step leaves alone.

While a step runs, the weights' `.grad` are empty, so each worker fills them as autograd does by itself. What was there
before comes back afterwards: with the step's gradients added if it succeeded, as it was if it failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def all_or_nothing(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Around everything in a step that writes to `.grad`."""
    weights = list(parameters)
    before = [weight.grad for weight in weights]
    for weight in weights:
        weight.grad = None
    try:
        yield
    except BaseException:
        for weight, gradient in zip(weights, before, strict=True):
            weight.grad = gradient
        raise
    with torch.no_grad():
        for weight, gradient in zip(weights, before, strict=True):
            if gradient is not None:
                # Into the tensor that was there, as autograd does: others may hold it.
                weight.grad = gradient if weight.grad is None else gradient.add_(weight.grad)
