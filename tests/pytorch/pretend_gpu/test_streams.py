"""The streams of the user: a step runs behind what was queued there, and what it gives is safe to use there."""

from contextlib import ExitStack, contextmanager

import pytest
import torch
import torch.nn.functional as F

from gpipe_edu.pytorch import GPipe

from . import scenes

DEVICES = ("one GPU", "three GPUs", "CPU in front", "CPU behind")


@contextmanager
def side_streams():
    """Another stream than the default one is current on every GPU."""
    with ExitStack() as around:
        for device in ("gpu:2", "gpu:1", "gpu:0"):
            around.enter_context(torch.cuda.stream(torch.cuda.Stream(device)))
        yield


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("way", ["step", "transparent"])
def test_all_in_side_streams(devices, way):
    layers, (x, y) = scenes.net(), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    pipe = GPipe(layers, 3, 4, devices=scenes.DEVICE_SETS[devices])
    with side_streams():
        for _ in range(3):
            scenes.same(scenes.in_pipe(pipe, x, y, way), expected)
            with torch.no_grad():
                for weight in pipe.parameters():  # as an optimizer does: the next step sees it, and no worker reads it
                    weight.mul_(2.0).div_(2.0)


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("mode", ["always", "never"])
def test_forward_and_backward_in_different_streams(devices, mode):
    layers, (x, y) = scenes.net(), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    pipe = GPipe(layers, 3, 4, devices=scenes.DEVICE_SETS[devices], checkpoint=mode)
    x.requires_grad_()
    for _ in range(2):
        pipe.zero_grad()
        x.grad = None
        with side_streams():
            output = pipe(x)
            loss = F.mse_loss(output, y.to(output.device))
        with side_streams():
            loss.backward()
            found = [x.grad, *(weight.grad for weight in pipe.parameters())]
            scenes.same(found, expected[1:])


@pytest.mark.parametrize("sides", [True, False])
@pytest.mark.parametrize("devices", DEVICES)
def test_deferred_batch_norm_and_recompute(devices, sides):
    (x, y) = scenes.batch(8)
    found = []
    for chosen in (["cpu"], scenes.DEVICE_SETS[devices]):
        pipe = GPipe(scenes.net(batch_norm=True), 3, 4, devices=chosen, checkpoint="always", deferred_batch_norm=True)
        with side_streams() if sides else ExitStack():
            parts = scenes.in_pipe(pipe, x, y, "transparent")
            parts += scenes.in_pipe(pipe, x, y, "step")
            parts += [buffer for name, buffer in pipe.named_buffers() if "running" in name]
            found.append([part.cpu() for part in parts])
    scenes.same(found[1], found[0])
