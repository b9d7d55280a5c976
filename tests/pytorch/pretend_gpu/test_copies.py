"""Copies of a pipe on a GPU, which has streams, that cannot be copied."""

import copy
import pickle

import pytest
import torch.nn.functional as F

from gpipe_edu.pytorch import GPipe

from . import scenes


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


def test_a_place_can_be_saved():
    places = GPipe(scenes.net(), 3, 4)._places
    found = pickle.loads(pickle.dumps(places))
    assert [place.device for place in found] == [place.device for place in places]
    assert found[0].compute != places[0].compute
