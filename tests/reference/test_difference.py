"""The figure by which engines are compared, on numbers one can check by eye."""

import numpy as np

from gpipe_edu.reference.difference import largest_difference


def test_it_is_the_largest_difference_as_a_share_of_the_largest_expected_value():
    found = [np.array([1.0, 2.0]), np.array([[-8.5]])]
    expected = [np.array([1.0, 3.0]), np.array([[-8.0]])]
    assert largest_difference(zip(found, expected, strict=True)) == 1 / 8
    assert largest_difference([(expected[0], expected[0])]) == 0
