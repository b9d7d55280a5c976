"""Handwritten digits: small enough for a pipeline in NumPy, real enough that learning shows."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_TEST_SAMPLES: Final = 360
"""A fifth of the 1,797 images."""


class Digits(NamedTuple):
    """Images as rows of 64 pixels from 0 to 1 (float64), labels from 0 to 9 (int64), split for training and test."""

    x_train: NDArray[np.float64]
    y_train: NDArray[np.int64]
    x_test: NDArray[np.float64]
    y_test: NDArray[np.int64]


def digits() -> Digits:
    """The handwritten digits: 1,437 samples for training and 360 for test, always the same ones."""
    with files("gpipe_edu.data").joinpath("digits.npz").open("rb") as file, np.load(file) as stored:
        # Stored in the order of the people who wrote them: unshuffled, the test set would be of other people.
        order = np.random.default_rng(0).permutation(len(stored["labels"]))
        x = stored["images"].reshape(-1, 64)[order] / 16.0
        y = stored["labels"].astype(np.int64)[order]
    train, test = slice(_TEST_SAMPLES, None), slice(_TEST_SAMPLES)
    return Digits(x[train], y[train], x[test], y[test])


def minibatches(
    x: NDArray[np.float64], y: NDArray[np.int64], size: int, seed: int = 0
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """One epoch of (x, y) with `size` samples each, in an order drawn from `seed`; the last one holds the rest.

    Raises ValueError for a size below 1 or x and y of different lengths.
    """
    if size < 1:
        raise ValueError(f"size is {size}; a mini-batch has at least 1 sample")
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} samples and y has {len(y)}; give the same number of both")
    order = np.random.default_rng(seed).permutation(len(x))
    for first in range(0, len(x), size):
        chosen = order[first : first + size]
        yield x[chosen], y[chosen]
