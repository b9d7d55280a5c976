"""A weight of two stages that run on two devices: it travels there in each step, and its gradient comes back."""

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch import GPipe

from . import scenes
from .test_streams import side_streams

pytestmark = pytest.mark.slow


def tied():
    layers = scenes.net()
    layers[6].weight = layers[10].weight = layers[0].weight
    return layers


@pytest.mark.sweep
@pytest.mark.parametrize("devices", scenes.DEVICE_SETS)
@pytest.mark.parametrize("way", ["step", "transparent"])
def test_gradients_are_those_of_one_device(devices, way):
    layers, (x, y) = tied(), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    pipe = GPipe(layers, 3, 4, devices=scenes.DEVICE_SETS[devices])
    assert layers[10].weight is layers[0].weight
    assert layers[0].weight.device == pipe.devices[0]
    with side_streams():
        for _ in range(3):
            scenes.same(scenes.in_pipe(pipe, x, y, way), expected)
            with torch.no_grad():
                for weight in pipe.parameters():
                    weight.mul_(2.0).div_(2.0)


def test_one_layer_in_two_stages_needs_one_place():
    shared = nn.Linear(4, 4).double()
    layers, (x, y) = nn.Sequential(shared, nn.Tanh(), shared), scenes.batch()
    with pytest.raises(ValueError, match=r"one Linear .* stage 0 on gpu:0 .* stage 2 on gpu:2.*weight = layer\.weight"):
        GPipe(layers, 3, 4, devices=scenes.DEVICE_SETS["three GPUs"])
    with pytest.raises(ValueError, match="one Linear"):  # each row of a schedule has a stream of its own
        GPipe(layers, 3, 4, devices=scenes.DEVICE_SETS["one GPU"])
    expected = scenes.on_one_device(layers, x, y)
    pipe = GPipe(layers, 3, 4, devices=["cpu"])
    scenes.same(scenes.in_pipe(pipe, x, y, "step"), expected)
