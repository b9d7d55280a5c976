"""Memory of a GPU: nothing of a failed step stays, and the peak is that of the step."""

import gc

import pytest
import torch
import torch.nn.functional as F

from gpipe_edu.pytorch import GPipe
from tests.processes import until

from . import cuda, scenes

pytestmark = pytest.mark.slow

BLOCK = 512
"""Bytes that the pretend GPU gives at a time; the tensors here need one each."""


@pytest.mark.parametrize("schedule", ["gpipe", "zero_bubble"])
@pytest.mark.parametrize("way", ["step", "transparent"])
def test_out_of_memory_and_again(schedule, way):
    layers, (x, y) = scenes.net(), scenes.batch()
    expected = scenes.on_one_device(layers, x, y)
    pipe = GPipe(layers, 3, 4, schedule=schedule, devices=scenes.DEVICE_SETS["three GPUs"], checkpoint="never")
    before = [cuda.allocated(device) for device in range(3)]
    gc.disable()
    for more in (1024, 4096, 7168):  # it fails later and later
        cuda.limit(1, more)
        with pytest.raises(torch.OutOfMemoryError) as caught:
            scenes.in_pipe(pipe, x, y, way)
        assert "stage 1" in caught.value.__notes__[0]
        assert cuda.allocated(0) <= before[0] + BLOCK, "the error holds a value that was sent there, and no more"
        del caught
        # Autograd's own thread lets go of what it ran a moment after the error is there.
        until(lambda: [cuda.allocated(device) for device in range(3)] == before)
    cuda.limit(1, 2**30)
    scenes.same(scenes.in_pipe(pipe, x, y, way), expected)


def test_what_comes_after_a_step_is_not_in_its_peak():
    x, y = scenes.batch()
    pipe = GPipe(scenes.net(), 3, 4, devices=["gpu:0", "gpu:1", "gpu:2"], measure_memory=True)
    pipe.step(x, y, F.mse_loss)
    first = pipe.peak_memory
    assert min(first) > 0
    later = torch.empty(2**20, device="gpu:1")
    assert pipe.peak_memory == first
    del later
    loss = F.mse_loss(pipe(x), y.to("gpu:2"))
    forward = pipe.peak_memory
    loss.backward()
    both = pipe.peak_memory
    assert all(a >= b for a, b in zip(both, forward, strict=True))
    assert both != forward, "the peak of the whole is in the backward"


def test_cpu_rows_of_a_mixed_pipe_are_counted():
    x, y = scenes.batch()
    peaks = []
    for devices in (["cpu"], ["cpu", "gpu:0", "cpu"]):
        pipe = GPipe(scenes.net(), 3, 4, devices=devices, measure_memory=True)
        pipe.step(x, y, F.mse_loss)
        peaks.append(pipe.peak_memory)
    alone, mixed = peaks
    assert (mixed[0], mixed[2]) == (alone[0], alone[2])
    assert min(mixed) > 0
