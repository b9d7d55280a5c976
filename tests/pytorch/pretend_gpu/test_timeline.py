"""Times of several GPUs stand on one axis, though a GPU knows only times of its own."""

import pytest
from torch import nn

import gpipe_edu as ge
from gpipe_edu.pytorch import GPipe

from . import cuda, scenes

MILLISECOND = 1e-3


class Busy(nn.Module):
    """Keeps its GPU busy for so many milliseconds."""

    def __init__(self, milliseconds):
        super().__init__()
        self.milliseconds = milliseconds

    def forward(self, x):
        cuda.work(self.milliseconds)
        return x * 1.0


def test_spans_of_all_gpus_count_from_one_moment():
    x, y = scenes.batch(4)
    pipe = GPipe(nn.Sequential(*(Busy(10.0) for _ in range(3))), 3, 4, checkpoint="never")
    for _ in range(3):  # the second and the third are queued while the GPUs are still busy, each in its own way
        pipe.step(x.requires_grad_(), y, nn.functional.mse_loss)
        timeline = pipe.timeline
        starts = {span.op: span.start for span in timeline.spans}
        planned = {span.op: span.start for span in ge.simulate(pipe.schedule, ge.Costs(F=10, B=0)).spans}
        for op, start in starts.items():
            if op.kind == "F":
                assert start == pytest.approx(planned[op] * MILLISECOND, abs=2 * MILLISECOND), op
        assert timeline.makespan == pytest.approx(60 * MILLISECOND, abs=3 * MILLISECOND)
        pipe.step(x, y, nn.functional.mse_loss)
