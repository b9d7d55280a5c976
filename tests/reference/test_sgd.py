"""One update per mini-batch, against the formula written out."""

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.data import digits, minibatches


def test_momentum_keeps_a_share_of_the_last_velocity():
    layer = ref.Linear(1, 1)
    layer.params["weight"][:] = 1.0
    optimizer = ref.SGD([layer], learning_rate=0.1, momentum=0.5)
    gradient = [{"weight": np.array([[2.0]]), "bias": np.array([0.0])}]
    optimizer.step(gradient)
    np.testing.assert_allclose(layer.params["weight"], 1.0 - 0.1 * 2.0)
    optimizer.step(gradient)
    np.testing.assert_allclose(layer.params["weight"], 0.8 - 0.1 * (0.5 * 2.0 + 2.0))


def test_whole_training_runs_stay_equal_on_one_device_and_in_the_pipeline():
    data, losses = digits(), {}
    epochs = [batch for seed in range(3) for batch in minibatches(data.x_train, data.y_train, 100, seed)]
    for engine in ("one device", "pipeline"):
        layers = ref.mlp([64, 32, 32, 10], seed=0, dropout=0.1)
        optimizer = ref.SGD(layers, 0.1, momentum=0.9)
        losses[engine] = []
        for step, (x, y) in enumerate(epochs):
            if engine == "pipeline":
                result = ref.train_pipeline(layers, x, y, ge.gpipe(3, 7, "early"), step=step)
                loss, grads = result.loss, result.grads
            else:
                loss, grads = ref.train_sequential(layers, x, y, step=step)
            optimizer.step(grads)
            losses[engine].append(loss)
    np.testing.assert_allclose(losses["pipeline"], losses["one device"], rtol=1e-7)
    assert losses["pipeline"][-1] < 0.5 * losses["pipeline"][0]


@pytest.mark.parametrize(("rate", "momentum", "says"), [(0, 0, "learning_rate is 0"), (0.1, 1, "momentum is 1")])
def test_bad_settings_are_refused(rate, momentum, says):
    with pytest.raises(ValueError, match=says):
        ref.SGD([], rate, momentum)
