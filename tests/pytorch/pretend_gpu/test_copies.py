"""Copies of a pipe on a GPU, which has streams, that cannot be copied."""

import copy

import pytest
import torch
import torch.nn.functional as F

from gpipe_edu.pytorch import GPipe

from . import scenes

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("devices", ["one GPU", "three GPUs", "CPU between"])
def test_a_deep_copy_trains_like_the_first(devices):
    layers, (x, y) = scenes.net(), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    pipe = GPipe(layers, 3, 4, devices=scenes.DEVICE_SETS[devices])
    pipe.step(x, y, F.mse_loss)
    other = copy.deepcopy(pipe)
    for either in (other, pipe):
        scenes.same(scenes.in_pipe(either, x, y, "step"), expected)
    assert other.devices == pipe.devices
    assert not {id(place) for place in other._places} & {id(place) for place in pipe._places}


def test_a_pipe_can_be_saved(tmp_path):
    layers, (x, y) = scenes.net(), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    pipe = GPipe(layers, 3, 4, devices=scenes.DEVICE_SETS["CPU between"])
    pipe.step(x, y, F.mse_loss)
    torch.save(pipe, tmp_path / "pipe.pt")
    found = torch.load(tmp_path / "pipe.pt", weights_only=False)
    assert found.devices == pipe.devices
    scenes.same(scenes.in_pipe(found, x, y, "step"), expected)
