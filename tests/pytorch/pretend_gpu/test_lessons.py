"""What lessons and benchmarks do with pipes on the default devices, where there are GPUs."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks.cuda_checks import CHECKS, check_equality, check_several_gpus
from gpipe_edu.pytorch.study import wait_for_gpus

from . import cuda, scenes

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"


def test_lesson_06_runs_its_pipes_on_the_gpus():
    cells = json.loads((NOTEBOOKS / "06_pytorch_pipeline.ipynb").read_text())["cells"]
    names = {"loss_fn": torch.nn.CrossEntropyLoss()}
    for cell in cells:
        code = "".join(cell["source"])
        slow = "pipe.timeline" in code  # a large net, for the picture of its times
        if cell["cell_type"] == "code" and "predict(" not in code and not slow:
            exec(code, names)
        if "called.state_dict()" in code:
            break
    for pipe in (names["exact"], names["called"]):
        assert [str(device) for device in pipe.devices] == ["gpu:0", "gpu:1"]
    scenes.no_race()


@pytest.mark.parametrize("gpus", [1, 2])
def test_the_appendix_of_lesson_06_lays_its_stages_on_the_gpus_it_finds(gpus):
    cells = json.loads((NOTEBOOKS / "06_pytorch_pipeline.ipynb").read_text())["cells"]
    codes = {cell["id"]: "".join(cell["source"]) for cell in cells}
    names = {"loss_fn": torch.nn.CrossEntropyLoss()}
    torch.cuda.device_count, torch.cuda.get_device_name = lambda: gpus, str
    for key in ("setup", "setup-torch", "network", "difference", "gpu-find", "gpu-same", "gpu-run"):
        small = codes[key].replace("(2048, 8192)", "(16, 64)")  # a CPU plays the GPU
        assert (small != codes[key]) == (key == "gpu-run")
        exec(small.replace("cuda:", "gpu:"), names)
    stages = [str(device) for device in names["pipe"].devices]
    assert stages == (["gpu:0"] * 4 if gpus == 1 else ["gpu:0", "gpu:0", "gpu:1", "gpu:1"])
    assert names["held"][0][0] == names["held"][0][1], "a figure of the whole GPU"
    assert [run.source for run in names["runs"]] == ["measured"] * 2
    scenes.no_race()


def test_waiting_for_gpus_waits_for_all():
    there = [torch.ones(4, device=f"gpu:{index}") * index for index in range(cuda.DEVICES)]
    here = [tensor.to("cpu", non_blocking=True) for tensor in there]
    assert here[1].isnan().all(), "it must not be here yet, or this shows nothing"
    wait_for_gpus()
    for index, tensor in enumerate(here):
        assert tensor.tolist() == pytest.approx([index] * 4)


LONG = {check_equality, check_several_gpus}
"""They ask for nothing that test_order does not ask for here."""


@pytest.mark.sweep
@pytest.mark.parametrize("check", [each for each in CHECKS if each not in LONG], ids=lambda check: check.__name__)
def test_the_checks_for_a_real_gpu_hold_on_this_one(check):
    """Whether they could fail only a real one can tell; that they run, and find nothing here, shows before."""
    assert check()
    scenes.no_race()
