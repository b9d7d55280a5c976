"""Every layer's two gradients against central finite differences, and what is special about each."""

import numpy as np
import pytest

from gpipe_edu import reference as ref
from tests.refusals import refusals

LAYERS = {
    "linear": lambda: ref.Linear(4, 3, seed=1),
    "relu": ref.ReLU,
    "tanh": ref.Tanh,
    "dropout": lambda: ref.Dropout(0.4, seed=2, first=3, step=5),
    "layer norm": lambda: ref.LayerNorm(4),
    "batch norm": lambda: ref.BatchNorm(4),
}


def finite_differences(value, array, h=1e-6):
    """The gradient of value() with respect to `array`, which is changed in place and put back."""
    gradient = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        kept = array[index]
        array[index] = kept + h
        above = value()
        array[index] = kept - h
        below = value()
        array[index] = kept
        gradient[index] = (above - below) / (2 * h)
    return gradient


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_equal_finite_differences(name):
    rng = np.random.default_rng(0)
    layer = LAYERS[name]()
    for value in layer.params.values():
        value += rng.normal(size=value.shape)
    x = rng.normal(size=(5, 4))
    weights = rng.normal(size=layer.forward(x)[0].shape)  # the loss is a weighted sum of the outputs

    def loss():
        return float((layer.forward(x)[0] * weights).sum())

    _, saved = layer.forward(x)
    dx, grads = layer.backward(weights, saved)
    np.testing.assert_allclose(dx, finite_differences(loss, x), rtol=1e-6, atol=1e-8)
    assert grads.keys() == layer.params.keys()
    for key, value in layer.params.items():
        np.testing.assert_allclose(grads[key], finite_differences(loss, value), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", LAYERS)
def test_the_two_gradients_apart_are_those_of_backward(name):
    rng = np.random.default_rng(1)
    layer = LAYERS[name]()
    y, saved = layer.forward(rng.normal(size=(6, 4)))
    dy = rng.normal(size=y.shape)
    dx, grads = layer.backward(dy, saved)
    np.testing.assert_array_equal(layer.input_gradient(dy, saved), dx)
    apart = layer.weight_gradient(dy, saved)
    assert apart.keys() == grads.keys()
    for key in grads:
        np.testing.assert_array_equal(apart[key], grads[key])


@pytest.mark.parametrize("name", LAYERS)
def test_forward_changes_neither_input_nor_layer(name):
    layer = LAYERS[name]()
    x = np.random.default_rng(2).normal(size=(5, 4))
    before, params = x.copy(), {key: value.copy() for key, value in layer.params.items()}
    first, _ = layer.forward(x)
    second, _ = layer.forward(x)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(first, second)
    for key, value in params.items():
        np.testing.assert_array_equal(layer.params[key], value)


def test_a_sample_meets_the_same_dropout_mask_however_the_batch_is_cut():
    layer, x = ref.Dropout(0.5, seed=7), np.ones((10, 3))
    whole, _ = layer.at(0, step=4).forward(x)
    cut = [layer.at(first, step=4).forward(x[first:end])[0] for first, end in ((0, 3), (3, 4), (4, 10))]
    np.testing.assert_array_equal(np.concatenate(cut), whole)
    assert set(np.unique(whole)) == {0.0, 2.0}


def test_dropout_draws_anew_in_every_step_and_for_every_seed():
    x = np.ones((20, 20))
    masks = [ref.Dropout(0.5, seed=seed).at(0, step).forward(x)[0] for seed, step in ((0, 0), (0, 1), (1, 0))]
    assert not np.array_equal(masks[0], masks[1])
    assert not np.array_equal(masks[0], masks[2])
    assert abs(np.mean(masks) - 1.0) < 0.1
    np.testing.assert_array_equal(ref.Dropout(0.5).evaluate(x), x)


def test_batch_norm_statistics_of_micro_batches_add_up_to_those_of_the_mini_batch():
    x = np.random.default_rng(3).normal(2.0, 3.0, size=(11, 4))
    layer, sums = ref.BatchNorm(4), {}
    for piece in np.split(x, [4, 8]):
        for key, value in layer.statistics(layer.forward(piece)[1]).items():
            sums[key] = sums.get(key, 0) + value
    layer.update_running(sums, momentum=1.0)
    np.testing.assert_allclose(layer.running["mean"], x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(layer.running["variance"], x.var(axis=0, ddof=1), rtol=1e-9)


def test_batch_norm_moves_its_averages_by_momentum_and_evaluates_with_them():
    layer = ref.BatchNorm(1)
    layer.update_running({"samples": np.array(3.0), "sum": np.array([6.0]), "sum_of_squares": np.array([14.0])}, 0.1)
    np.testing.assert_allclose(layer.running["mean"], [0.2])  # 0 + 0.1 * (2 - 0)
    np.testing.assert_allclose(layer.running["variance"], [1.0])  # 1 + 0.1 * (1 - 1)
    np.testing.assert_allclose(layer.evaluate(np.array([[0.2], [1.2]])), [[0.0], [1.0]], atol=1e-5)


test_bad_input_is_refused_with_what_was_given = refusals(
    (ValueError, r"Linear\(4, 3\).*\(n, 4\).*\(2, 5\)", lambda: ref.Linear(4, 3).forward(np.ones((2, 5)))),
    (ValueError, "at least 1", lambda: ref.Linear(0, 3)),
    (ValueError, r"LayerNorm\(4\).*\(2, 3\)", lambda: ref.LayerNorm(4).forward(np.ones((2, 3)))),
    (ValueError, "1 sample.*fewer micro-batches", lambda: ref.BatchNorm(4).forward(np.ones((1, 4)))),
    (ValueError, r"p is 1\.0", lambda: ref.Dropout(1.0)),
    (ValueError, r"p is -0\.1", lambda: ref.Dropout(-0.1)),
)
