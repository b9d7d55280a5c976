"""The trainer that pipelines are compared with is itself compared with finite differences and PyTorch."""

import numpy as np
import pytest

from gpipe_edu import reference as ref

from .test_layers import finite_differences


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
def test_gradients_of_a_whole_model_equal_finite_differences(loss, reduction):
    rng = np.random.default_rng(0)
    # tanh: a ReLU has no derivative where a finite difference steps over its kink.
    layers = ref.mlp([3, 5, 4, 3], "tanh", seed=1, norm="layer", dropout=0.2)
    x = rng.normal(size=(6, 3))
    y = rng.integers(0, 3, 6) if loss == "cross_entropy" else rng.normal(size=(6, 3))

    def step():
        return ref.train_sequential(layers, x, y, loss, reduction=reduction, step=2)

    _, grads = step()
    largest = max(np.abs(value).max() for layer in grads for value in layer.values())
    for layer, grad in zip(layers, grads, strict=True):
        for name, value in layer.params.items():
            numeric = finite_differences(lambda: step()[0], value)
            np.testing.assert_allclose(grad[name], numeric, rtol=1e-5, atol=1e-8 * largest)


def test_loss_and_gradients_equal_pytorch_autograd():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    layers = ref.mlp([6, 8, 8, 4], seed=3)
    x, y = rng.normal(size=(10, 6)), rng.integers(0, 4, 10)
    value, grads = ref.train_sequential(layers, x, y)
    modules = []
    for layer in layers:
        if isinstance(layer, ref.Linear):
            module = torch.nn.Linear(*layer.params["weight"].shape, dtype=torch.float64)
            module.weight.data = torch.tensor(layer.params["weight"].T.copy())
            module.bias.data = torch.tensor(layer.params["bias"])
            modules.append(module)
        else:
            modules.append(torch.nn.ReLU())
    expected = torch.nn.functional.cross_entropy(torch.nn.Sequential(*modules)(torch.tensor(x)), torch.tensor(y))
    expected.backward()
    assert value == pytest.approx(expected.item(), rel=1e-13)
    for grad, module in zip(grads, modules, strict=True):
        if grad:
            np.testing.assert_allclose(grad["weight"], module.weight.grad.numpy().T, rtol=1e-11, atol=1e-14)
            np.testing.assert_allclose(grad["bias"], module.bias.grad.numpy(), rtol=1e-11, atol=1e-14)


def test_prediction_uses_no_dropout_and_the_moving_averages():
    layers = [ref.Dropout(0.9, seed=1), ref.BatchNorm(2)]
    x = np.array([[1.0, -2.0]])
    np.testing.assert_allclose(ref.predict(layers, x), x, rtol=1e-4)
