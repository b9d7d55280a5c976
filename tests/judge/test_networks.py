"""The truth that PyTorch answers are held against."""

import numpy as np
import pytest

from gpipe_edu import reference as ref
from gpipe_edu.judge.guest.networks import build_network, layer_of
from gpipe_edu.judge.networks import items_of, one_device
from gpipe_edu.reference.twin import as_arrays

NETWORK = items_of(ref.mlp([5, 7, 3], activation="tanh", seed=1))


def test_a_network_is_the_same_in_numpy_and_in_pytorch():
    torch = pytest.importorskip("torch")
    x, dy = np.random.default_rng(0).normal(size=(4, 5)), np.random.default_rng(1).normal(size=(4, 3))
    net, given = build_network(NETWORK), torch.tensor(x, requires_grad=True)
    output = net(given)
    output.backward(torch.tensor(dy))
    truth = one_device(list(map(layer_of, NETWORK)), x, dy=dy)
    assert np.allclose(output.detach().numpy(), truth.output)
    assert ref.gradient_difference(as_arrays(weight.grad for weight in net.parameters()), truth.grads) < 1e-12
    assert np.allclose(given.grad.numpy(), truth.dx)


def test_a_known_mask_takes_the_place_of_dropout():
    x, mask = np.ones((2, 3)), np.array([[2.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
    truth = one_device([layer_of(0.5, mask)], x, dy=3 * x)
    assert np.array_equal(truth.output, mask)
    assert np.array_equal(truth.dx, 3 * mask)
    assert truth.grads == []
