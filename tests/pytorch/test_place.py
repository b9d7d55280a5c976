"""Which devices a pipe takes, without any GPU; how it uses them is tested in pretend_gpu."""

import os

import pytest
import torch

from gpipe_edu.cli.train_torch import devices_called
from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.place import make_places

from . import bench


@pytest.fixture
def gpus(monkeypatch):
    """Tell PyTorch how many GPUs there are, and whether its driver is new enough for them."""

    def there_are(count, usable):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: usable)

    return there_are


def test_tests_see_no_gpu():
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert not torch.cuda.is_available()


def test_with_an_old_driver_a_pipe_runs_on_the_cpu(gpus):
    gpus(2, usable=False)
    assert [str(place.device) for place in make_places(None, 3)] == ["cpu"] * 3
    assert devices_called("auto") == ["cpu"]
    with pytest.raises(ValueError, match="finds no GPU here"):
        devices_called("cuda")


@pytest.mark.parametrize(
    ("devices", "count", "telling"),
    [
        (["cuda"], 0, "has 'cuda', and PyTorch finds no GPU here"),
        (["cpu", "cuda:0"], 0, "has 'cuda:0', and PyTorch finds no GPU here"),
        (["cuda:0", "cuda:1"], 1, "has 'cuda:1', and PyTorch finds only cuda:0 here"),
        ([torch.device("cuda", 8)], 8, "has 'cuda:8', and PyTorch finds cuda:0 to cuda:7 here"),
    ],
)
def test_a_gpu_that_is_not_there_is_refused(gpus, devices, count, telling):
    gpus(count, usable=count > 0)
    with pytest.raises(ValueError, match=telling):
        GPipe(bench.mlp(), 2, 2, devices=devices)


@pytest.mark.parametrize("way", ["step", "forward"])
def test_a_pipe_that_was_moved_is_refused(way):
    x, y = bench.data(4)
    pipe = GPipe(bench.mlp(), 2, 2)
    for layer in pipe.children():  # the pipe itself refuses to be moved
        layer.to("meta")
    with pytest.raises(ValueError, match="stage 0 is on meta, and the stage runs on cpu"):
        pipe.step(x, y, bench.mse) if way == "step" else pipe(x)
