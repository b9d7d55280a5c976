"""The figure by which engines are compared, on numbers one can check by eye."""

import numpy as np
import pytest

from gpipe_edu.reference import gradient_difference


def test_it_is_the_largest_difference_as_a_share_of_the_largest_expected_value():
    found = [np.array([1.0, 2.0]), np.array([[-8.5]])]
    expected = [np.array([1.0, 3.0]), np.array([[-8.0]])]
    assert gradient_difference(found, expected) == 1 / 8
    assert gradient_difference(expected, expected) == 0
    by_layer = [{"weight": found[0], "bias": found[1]}], [{"weight": expected[0], "bias": expected[1]}]
    assert gradient_difference(*by_layer) == 1 / 8


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([[1.0, 2.0]], [[1.0, 2.0]], 0.0),
        ([[1.0], [3.0]], [[1.0], [4.0]], 0.25),
        ([[1.0]], [[0.0]], np.inf),
        ([[0.0]], [[0.0]], 0.0),
        ([[np.nan]], [[1.0]], np.inf),
        ([[1.0, 1.0]], [[1.0]], np.inf),
    ],
)
def test_what_cannot_be_compared_is_infinitely_far(ours, theirs, expected):
    assert gradient_difference(list(map(np.array, ours)), list(map(np.array, theirs))) == expected


def test_what_is_missing_is_infinitely_far():
    assert gradient_difference([None], [np.ones(1)]) == np.inf
