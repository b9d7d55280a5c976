"""Every schedule, mode and way on every set of devices: the numbers of one device, and no race."""

from itertools import product

import pytest
import torch.nn.functional as F
from torch import nn

from gpipe_edu.pytorch import GPipe

from . import cuda, scenes

pytestmark = pytest.mark.slow

SCHEDULES = ("naive", "gpipe", "1f1b", "zero_bubble")
MODES = ("always", "except_last", "never")


@pytest.mark.sweep
@pytest.mark.parametrize("devices", scenes.DEVICE_SETS)
@pytest.mark.parametrize("way", ["step", "transparent"])
def test_gradients_are_those_of_one_device(devices, way):
    layers, (x, y) = scenes.net(), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    for schedule in SCHEDULES:
        for mode in MODES:
            pipe = GPipe(layers, 3, 4, devices=scenes.DEVICE_SETS[devices], schedule=schedule, checkpoint=mode)
            for _ in range(2):
                scenes.same(scenes.in_pipe(pipe, x, y, way), expected)


@pytest.mark.sweep
@pytest.mark.parametrize("devices", ["three GPUs", "CPU in front", "CPU behind"])
def test_a_mini_batch_may_be_anywhere(devices):
    layers, (x, y) = scenes.net(), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    pipe = GPipe(layers, 3, 4, devices=scenes.DEVICE_SETS[devices])
    for x_on, y_on, way in product(("cpu", "gpu:0", "gpu:2"), ("cpu", "gpu:1"), ("step", "transparent")):
        # The kernel that makes x may still be queued.
        scenes.same(scenes.in_pipe(pipe, x.to(x_on) * 1.0, y.to(y_on) * 1.0, way), expected)


@pytest.mark.sweep
@pytest.mark.parametrize("places", [("gpu:0", "gpu:2"), ("gpu:2", "gpu:0"), ("gpu:1", "gpu:2"), ("cpu", "gpu:1")])
@pytest.mark.parametrize("devices", ["three GPUs", "CPU in front"])
def test_parts_of_a_mini_batch_may_be_in_different_places(devices, places):
    layers, (x, y) = nn.Sequential(scenes.Joined(), *scenes.net()), scenes.batch()
    z = x.flip(0)
    loss, gradient, *weights = scenes.on_one_device(layers[1:], x + 3 * z, y)
    pipe = GPipe(layers, 3, 4, devices=scenes.DEVICE_SETS[devices])
    for way in ("step", "transparent"):
        # The kernels that make both may still be queued, each on its own GPU.
        parts = tuple((part.to(place) * 1.0).requires_grad_() for part, place in zip((x, z), places, strict=True))
        pipe.zero_grad()
        if way == "step":
            found = pipe.step(parts, y, F.mse_loss)
        else:
            found = F.mse_loss(pipe(parts), y.to(pipe.devices[-1]))
            found.backward()
        assert [part.grad.device for part in parts] == [part.device for part in parts]
        found = [found.detach(), *(part.grad for part in parts), *(weight.grad for weight in pipe.parameters())]
        scenes.same(found, [loss, gradient, 3 * gradient, *weights])


@pytest.mark.sweep
@pytest.mark.parametrize("devices", ["one GPU", "three GPUs", "CPU between"])
@pytest.mark.parametrize("way", ["step", "transparent"])
def test_16_bit_gradients_are_added_up_where_they_are(devices, way):
    """In fp32, and without a race: the same as on the CPU, whose sums tests/pytorch/test_accumulation.py looks at."""
    (x, y), found = (part.bfloat16() for part in scenes.batch(8)), []
    for chosen in (["cpu"], scenes.DEVICE_SETS[devices]):
        pipe = GPipe(scenes.net().bfloat16(), 3, 4, devices=chosen, schedule="zero_bubble")
        found.append([part.cpu() for part in scenes.in_pipe(pipe, x, y, way)])
    scenes.same(found[1], found[0])


@pytest.mark.parametrize("peers", [True, False])
def test_boundary_values_need_not_be_dense(peers):
    cuda.peer_access(peers)
    layers, (x, y) = scenes.net(dense=False), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    pipe = GPipe(layers, 3, 4, devices=scenes.DEVICE_SETS["three GPUs"])
    for way in ("step", "transparent"):
        scenes.same(scenes.in_pipe(pipe, x, y, way), expected)
