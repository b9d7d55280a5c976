"""What lessons do with pipes on the default devices, where there are GPUs."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import lessons
from gpipe_edu.pytorch.study import wait_for_gpus

from . import cuda, scenes

pytestmark = pytest.mark.slow

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
    torch.cuda.device_count = lambda: gpus
    instead = {"(2048, 8192)": "(16, 64)", "cuda:": "gpu:"}  # a CPU plays the GPU
    names = lessons.run_cells("06_pytorch_pipeline", lessons.APPENDIX, instead)
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
