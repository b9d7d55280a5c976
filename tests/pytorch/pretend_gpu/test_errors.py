"""What goes wrong on a GPU is told once, with its place, and nothing hangs."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gpipe_edu.pytorch import GPipe

from . import cuda, scenes

pytestmark = pytest.mark.slow


class Breaks(nn.Module):
    """An assert in a kernel fails: this and every later call of the GPU raises."""

    def forward(self, x):
        cuda.breaks()
        return x + 1


@pytest.mark.parametrize("way", ["step", "transparent"])
def test_an_error_of_the_gpu_keeps_its_note(way):
    x, y = scenes.batch()
    pipe = GPipe(nn.Sequential(*scenes.net()[:4], Breaks()), 2, 2)
    with pytest.raises(RuntimeError, match="device-side assert") as caught:
        scenes.in_pipe(pipe, x, y, way)
    # From then on every call of that GPU fails, so another worker may be the first to hear of it.
    assert re.search(r"stage \d, micro-batch \d", caught.value.__notes__[0])


@pytest.mark.parametrize("way", ["step", "transparent"])
def test_a_hook_may_run_a_pipe(way):
    """A hook runs in autograd's one thread of its GPU, which the workers of another pipe would wait for."""
    layers, (x, y) = scenes.net(), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    for devices in scenes.DEVICE_SETS.values():
        pipe, other = (GPipe(scenes.net(), 3, 4, devices=devices) for _ in range(2))
        found = []

        def hook(gradient, other=other, found=found):
            with torch.enable_grad():
                found.append(scenes.in_pipe(other, x, y, "step"))

        pipe[0].weight.register_hook(hook)
        scenes.same(scenes.in_pipe(pipe, x, y, way), expected)
        assert len(found) == 1
        scenes.same(found[0], expected)


def test_hooks_that_meet_in_one_pipe_are_refused():
    """While the first hook waits for a backward, autograd's thread calls the second one."""
    x, y = scenes.batch()
    pipe, other = GPipe(scenes.net(), 3, 4), GPipe(scenes.net(), 3, 4)

    def hook(gradient):
        with torch.enable_grad():
            other.step(x, y, F.mse_loss)

    for weight in pipe.parameters():
        weight.register_hook(hook)
    with pytest.raises(RuntimeError, match="while it was running already"):
        pipe.step(x, y, F.mse_loss)


def test_a_pipe_may_stand_in_front_of_another():
    layers, (x, y) = scenes.net(), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    first, second = (GPipe(scenes.net()[part], 2, 3) for part in (slice(0, 6), slice(6, 12)))
    F.mse_loss(second(first(x)), y.to("gpu:1")).backward()
    scenes.same([weight.grad for pipe in (first, second) for weight in pipe.parameters()], expected[2:])


def test_checkpoint_around_a_pipe():
    layers, (x, y) = scenes.net(), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    pipe = GPipe(scenes.net(), 3, 4)
    output = torch.utils.checkpoint.checkpoint(pipe, x.requires_grad_(), use_reentrant=False)
    F.mse_loss(output, y.to(output.device)).backward()
    scenes.same([x.grad, *(weight.grad for weight in pipe.parameters())], expected[1:])
