"""The streams of the user: a step runs behind what was queued there, and what it gives is safe to use there."""

from contextlib import ExitStack, contextmanager

import pytest
import torch
import torch.nn.functional as F

import gpipe_edu as ge
from gpipe_edu.pytorch import GPipe

from . import cuda, scenes

pytestmark = pytest.mark.slow

DEVICES = ("one GPU", "three GPUs", "CPU in front", "CPU behind")


@contextmanager
def side_streams():
    """Another stream than the default one is current on every GPU."""
    with ExitStack() as around:
        for device in ("gpu:2", "gpu:1", "gpu:0"):
            around.enter_context(torch.cuda.stream(torch.cuda.Stream(device)))
        yield


@pytest.mark.sweep
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


@pytest.mark.sweep
@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("mode", ["always", "never"])
def test_forward_and_backward_in_different_streams(devices, mode):
    layers, (x, y) = scenes.net(), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    pipe = GPipe(layers, 3, 4, devices=scenes.DEVICE_SETS[devices], checkpoint=mode)
    x, y, found, kept = x.to(pipe.devices[0]), y.to(pipe.devices[-1]), [], []
    for _ in range(3):  # nothing in here makes the host wait
        pipe.zero_grad()
        x = x.detach().requires_grad_()
        with side_streams():
            loss = F.mse_loss(pipe(x), y)
        with side_streams():
            loss.backward()
            gradients = [x.grad, *(weight.grad for weight in pipe.parameters())]
            found += [gradient.clone() for gradient in gradients]
            kept.append(gradients)  # they are not of this stream, so they may not be freed while it reads them
        del loss
    for device in range(cuda.DEVICES):
        torch.cuda.synchronize(device)
    scenes.same(found, 3 * expected[1:])


@pytest.mark.parametrize("devices", DEVICES)
def test_gradients_may_be_dropped_between_forward_and_backward(devices):
    """A recompute uses the memory of the gradients before at once, so it waits for who has read them."""
    layers, (x, y) = scenes.net(), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    schedule = ge.gpipe(3, 4, recompute="early")
    pipe = GPipe(layers, 3, 4, devices=scenes.DEVICE_SETS[devices], schedule=schedule)
    x, y, norms = x.to(pipe.devices[0]), y.to(pipe.devices[-1]), []
    for _ in range(3):
        loss = F.mse_loss(pipe(x), y)
        norms += [weight.grad.norm() for weight in pipe.parameters() if weight.grad is not None]
        pipe.zero_grad()
        loss.backward()
    scenes.same([weight.grad for weight in pipe.parameters()], expected[2:])
    assert len(norms) == 2 * len(expected[2:])


@pytest.mark.sweep
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
