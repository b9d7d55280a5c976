"""A release of PyTorch that changes what we need of its private names is told by those names."""

import importlib
from types import SimpleNamespace

import pytest
import torch
from torch.distributed.pipelining import schedules

from gpipe_edu.cluster import torch_private


def as_in_a_release(**changed):
    """PyTorch's module with `changed` in it; None for what is gone."""
    found = {name: getattr(schedules, name) for name in ("_Action", "_PipelineScheduleRuntime")} | changed
    return SimpleNamespace(**{name: value for name, value in found.items() if value is not None})


def test_this_release_has_all():
    assert torch_private.missing() == []
    assert ".".join(torch.__version__.split(".")[:2]) in torch_private.TESTED


class Renamed(schedules._PipelineScheduleRuntime):
    def _maybe_compute_loss(self, stage, mb_index, output, target_mbs):
        """Other arguments than before."""


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"_Action": None}, ["_Action"]),
        (
            {"_PipelineScheduleRuntime": Renamed},
            ["_PipelineScheduleRuntime._maybe_compute_loss(stage, output, target_mbs, mb_index)"],
        ),
        ({"_Action": object}, ["_Action.from_str"]),
    ],
)
def test_what_a_release_changed_is_named(changed, told):
    assert torch_private.missing(as_in_a_release(**changed)) == told


def test_then_it_is_an_error_that_says_what_to_do(monkeypatch):
    monkeypatch.delattr(schedules, "_PipelineScheduleRuntime")
    with pytest.raises(ImportError, match=r"has changed .*: _PipelineScheduleRuntime\. Tested are 2\.12, 2\.13"):
        importlib.reload(torch_private)
    monkeypatch.undo()
    importlib.reload(torch_private)
