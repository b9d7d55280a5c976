"""The truth that PyTorch answers are held against."""

import numpy as np
import pytest
from gpipe_edu.course.checks.networks import as_numpy, distance, in_numpy, in_torch, items_of, train

from gpipe_edu import reference as ref

NETWORK = items_of(ref.mlp([5, 7, 3], activation="tanh", seed=1))


def test_a_network_is_the_same_in_numpy_and_in_pytorch():
    torch = pytest.importorskip("torch")
    x, dy = np.random.default_rng(0).normal(size=(4, 5)), np.random.default_rng(1).normal(size=(4, 3))
    net, given = in_torch(NETWORK), torch.tensor(x, requires_grad=True)
    output = net(given)
    output.backward(torch.tensor(dy))
    ours, grads, dx = train([in_numpy(item) for item in NETWORK], x, dy)
    assert np.allclose(output.detach().numpy(), ours)
    assert distance([as_numpy(weight.grad) for weight in net.parameters()], grads) < 1e-12
    assert np.allclose(given.grad.numpy(), dx)


def test_a_known_mask_takes_the_place_of_dropout():
    x, mask = np.ones((2, 3)), np.array([[2.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
    output, grads, dx = train([in_numpy(0.5, mask)], x, 3 * x)
    assert np.array_equal(output, mask)
    assert np.array_equal(dx, 3 * mask)
    assert grads == []


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
def test_distance_is_a_share_of_the_largest_number(ours, theirs, expected):
    assert distance(list(map(np.array, ours)), list(map(np.array, theirs))) == expected
