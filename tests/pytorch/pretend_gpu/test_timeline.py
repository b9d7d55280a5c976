"""Times of several GPUs stand on one axis, though a GPU knows only times of its own."""

import pytest
from torch import nn

import gpipe_edu as ge
from gpipe_edu.pytorch import GPipe

from . import cuda, scenes

pytestmark = pytest.mark.slow

MILLISECOND = 1e-3


class Busy(nn.Module):
    """Keeps its GPU busy for so many milliseconds, forward and backward."""

    def __init__(self, forward, backward):
        super().__init__()
        self.times = forward, backward

    def forward(self, x):
        forward, backward = self.times
        cuda.work(forward)
        x = x * 1.0
        x.register_hook(lambda gradient: cuda.work(backward))
        return x


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_spans_of_all_gpus_count_from_one_moment(schedule):
    x, y = scenes.batch(4)
    x = x.to("gpu:0").requires_grad_()
    y = y.to("gpu:2")
    pipe = GPipe(nn.Sequential(*(Busy(10, 20) for _ in range(3))), 3, 4, schedule=schedule, checkpoint="never")
    planned = {span.op: span for span in ge.simulate(pipe.schedule, ge.Costs(F=10, B=20)).spans}
    for before in range(3):  # so many steps are still in the queues, of one GPU for longer than of another
        for _ in range(before + 1):
            pipe.step(x, y, nn.functional.mse_loss)
        # A queue begins as soon as the one before is through: the first GPU then waits for the last.
        first = min(span.start for span in pipe.timeline.spans)
        assert first == 0
        for span in pipe.timeline.spans:
            for found, expected in ((span.start, planned[span.op].start), (span.end, planned[span.op].end)):
                assert found == pytest.approx(expected * MILLISECOND, abs=2 * MILLISECOND), span.op
