"""When ops ran: every op once, in order, and those of different devices at the same time."""

import itertools

import pytest
from torch import nn

from gpipe_edu.pytorch import GPipe

from . import bench

SHORT = 0.02


@bench.every_way
@pytest.mark.parametrize("options", list(bench.variants(2, 4)))
def test_every_op_once_in_the_order_of_its_row(options, way):
    for N in (9, 2):
        pipe = GPipe(bench.mlp(), **options)
        bench.train(pipe, *bench.data(N), bench.mse, way)
        timeline = pipe.timeline
        assert timeline.measured
        assert timeline.unit == "s"
        assert timeline.devices == pipe.schedule.devices
        assert min(span.start for span in timeline.spans) == 0
        # With fewer samples than micro-batches, "all but the last" means the last one there is.
        fewer = options | {"micro_batches": min(N, 4)}
        ran_schedule = pipe.schedule.first(N) if "checkpoint" not in options else GPipe(bench.mlp(), **fewer).schedule
        for device, row in enumerate(ran_schedule.rows):
            spans = [span for span in timeline.spans if span.device == device]
            ran = [span.op for span in spans]
            row = list(row)
            if way == "transparent":
                row.sort(key=lambda op: op.kind != "F")
            assert ran == row
            assert all(span.end >= span.start for span in spans)
            assert all(a.end <= b.start for a, b in itertools.pairwise(spans))
        end = {span.op: span.end for span in timeline.spans}
        for span in timeline.spans:
            for need in timeline.needs(span.op):
                assert end[need] <= span.start, f"{span.op} starts before {need} ends"


def sleepy(K, schedule, M=4, way="step", **options):
    """Run K stages of equal sleeps, the second time measured."""
    net = nn.Sequential(*(bench.Sleep(SHORT) for _ in range(K)))
    pipe = GPipe(net, K, M, schedule=schedule, **options)
    bench.train(pipe, *bench.data(2 * M), bench.mse, way)
    return pipe.timeline


@bench.every_way
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero_bubble"])
def test_devices_of_a_pipeline_work_at_once(schedule, way):
    timeline = sleepy(2, schedule, way=way, checkpoint="never")
    for kinds in ("F", "BIW"):
        spans = [span for span in timeline.spans if span.op.kind in kinds]
        shared = sum(
            max(0.0, min(a.end, b.end) - max(a.start, b.start))
            for a in spans
            for b in spans
            if a.device == 0 and b.device == 1
        )
        if schedule == "gpipe" or way == "transparent":
            assert shared > 0, f"{kinds} of the two devices never overlap"


def test_naive_is_one_by_one():
    timeline = sleepy(2, "naive", checkpoint="never")
    assert timeline.makespan >= 2 * 4 * 2 * SHORT * 0.99


def test_early_recompute_starts_before_its_gradient_is_there_and_late_does_not():
    def ends_and_starts(**options):
        timeline = sleepy(2, M=2, **options)
        return {str(span.op): span for span in timeline.spans}

    at = ends_and_starts(schedule="gpipe", checkpoint="always")
    assert at["R1@0"].start < at["B1@1"].end
    assert at["B1@0"].start >= at["B1@1"].end
    at = ends_and_starts(schedule=bench.ge.gpipe(2, 2, recompute="late"))
    assert at["C1@0"].start >= at["C1@1"].end


def test_durations_are_those_of_the_work():
    durations = [span.end - span.start for span in sleepy(2, "gpipe", checkpoint="never").spans]
    assert SHORT * 0.9 < min(durations) < SHORT * 2.5


def test_each_step_has_a_timeline_of_its_own():
    pipe = GPipe(bench.mlp(), 2, 2)
    pipe.step(*bench.data(4), bench.mse)
    first = pipe.timeline
    pipe.step(*bench.data(4), bench.mse)
    assert pipe.timeline.spans != first.spans
    assert len(pipe.timeline.spans) == len(first.spans)


def test_evaluation_shows_forwards_only():
    pipe = GPipe(bench.mlp(), 2, 3).eval()
    pipe(bench.data(4)[0])
    assert [span.op.kind for span in pipe.timeline.spans] == ["F"] * 6


def test_it_draws_itself():
    pipe = GPipe(bench.mlp(), 2, 3)
    pipe.step(*bench.data(4), bench.mse)
    assert "<svg" in pipe.timeline.to_svg()
