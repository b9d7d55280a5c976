"""How close two sets of gradients are: shared by the tests of the engines."""

import numpy as np


def assert_same_grads(grads, expected, relative=1e-12):
    """Every parameter's gradient equals the expected one to `relative` of that gradient's own size.

    A gradient that is zero in exact arithmetic (a bias in front of a LayerNorm) is rounding noise on both sides, so
    noise at 1e-15 of the model's largest gradient passes.
    """
    largest = max((np.abs(value).max() for layer in expected for value in layer.values()), default=0.0)
    assert len(grads) == len(expected)
    for index, (got, want) in enumerate(zip(grads, expected, strict=True)):
        assert got.keys() == want.keys()
        for name in want:
            assert got[name].shape == want[name].shape
            difference = np.abs(got[name] - want[name]).max()
            allowed = relative * np.abs(want[name]).max() + 1e-15 * largest
            assert difference <= allowed, f"layer {index} {name}: {difference:.3e} apart, {allowed:.3e} allowed"
