"""Losses against finite differences, PyTorch and numbers done by hand."""

import numpy as np
import pytest

from gpipe_edu.reference.losses import cross_entropy, find_loss, mse
from tests.refusals import refusals

from .test_layers import finite_differences


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", ["cross_entropy", "mse"])
def test_loss_and_gradient_equal_pytorch_and_finite_differences(name, reduction):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    predictions = rng.normal(size=(5, 4)) * 3
    targets = rng.integers(0, 4, 5) if name == "cross_entropy" else rng.normal(size=(5, 4))
    loss = find_loss(name, reduction)
    value, gradient = loss(predictions, targets)
    tensor = torch.tensor(predictions, requires_grad=True)
    function = {"cross_entropy": torch.nn.functional.cross_entropy, "mse": torch.nn.functional.mse_loss}[name]
    expected = function(tensor, torch.tensor(targets), reduction=reduction)
    expected.backward()
    assert value == pytest.approx(expected.item(), rel=1e-13)
    np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=1e-12, atol=1e-15)
    numeric = finite_differences(lambda: loss(predictions, targets)[0], predictions)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-8)


def test_cross_entropy_of_even_logits_is_the_log_of_the_number_of_classes():
    assert cross_entropy(np.zeros((3, 10)), np.array([0, 4, 9]))[0] == pytest.approx(np.log(10))


def test_huge_logits_do_not_overflow():
    value, gradient = cross_entropy(np.array([[1e4, 0.0], [0.0, 1e4]]), np.array([0, 0]))
    assert value == pytest.approx(5e3)
    assert np.isfinite(gradient).all()


LOGITS = np.zeros((2, 3))

test_bad_input_is_refused_with_what_was_given = refusals(
    (
        ValueError,
        "labels run from 0 to 3; with 3 classes: 0 to 2",
        lambda: cross_entropy(LOGITS, np.array([0, 3])),
    ),
    (ValueError, "labels run from -1", lambda: cross_entropy(LOGITS, np.array([-1, 0]))),
    (ValueError, "integer labels.*float64", lambda: cross_entropy(LOGITS, np.array([0.0, 1.0]))),
    (ValueError, r"labels \(1,\)", lambda: cross_entropy(LOGITS, np.array([0]))),
    (ValueError, r"predictions \(2, 1\), targets \(2,\)", lambda: mse(np.zeros((2, 1)), np.zeros(2))),
    (ValueError, "reduction is 'average'.*mean, sum", lambda: find_loss("mse", "average")),
    (ValueError, "loss is 'l1'.*cross_entropy, mse", lambda: find_loss("l1", "mean")),
)
