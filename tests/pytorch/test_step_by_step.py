"""What one step does and leaves behind: layer calls, tensors, threads, statistics, and stages that work at once."""

import gc
import threading
import time
import weakref

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")
from torch import nn  # noqa: E402

import gpipe_edu as ge  # noqa: E402
from gpipe_edu.pytorch import GPipe  # noqa: E402
from gpipe_edu.timeline import calibrate  # noqa: E402
from gpipe_edu.timeline.memory import peak_memory  # noqa: E402

from . import models  # noqa: E402
from .bench import Counter, Sleep  # noqa: E402
from .models import LOSS, batch  # noqa: E402


@pytest.mark.parametrize(("checkpoint", "calls"), [("never", 5), ("except_last", 9), ("always", 10)])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero_bubble"])
def test_a_layer_runs_once_a_micro_batch_and_once_more_where_it_is_recomputed(schedule, checkpoint, calls):
    counters = [Counter() for _ in range(3)]
    model = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), counter) for counter in counters)).double()
    pipe, (x, y) = GPipe(model, 3, 5, schedule=schedule, checkpoint=checkpoint), batch(10)
    for train in (lambda: pipe.step(x, y, LOSS), lambda: LOSS(pipe(x), y).backward()):
        for counter in counters:
            counter.calls = 0
        train()
        assert [counter.calls for counter in counters] == [calls] * 3


@pytest.mark.parametrize("checkpoint", ["never", "always"])
@pytest.mark.parametrize("schedule", ["gpipe", "zero_bubble"])
def test_no_tensor_of_a_step_outlives_it(schedule, checkpoint):
    seen = []

    class Watch(nn.Module):
        def forward(self, x):
            y = x * 1
            seen.extend([weakref.ref(x), weakref.ref(y)])
            return y

    model = nn.Sequential(nn.Linear(6, 6), Watch(), nn.Linear(6, 6), Watch(), nn.Linear(6, 3)).double()
    pipe = GPipe(model, 2, 4, schedule=schedule, checkpoint=checkpoint, measure_memory=True)

    def step():
        x, y = batch(8)
        seen.extend([weakref.ref(x), weakref.ref(y)])
        pipe.step(x, y, LOSS)

    def transparent():
        x, y = batch(8)
        seen.extend([weakref.ref(x), weakref.ref(y)])
        LOSS(pipe(x), y).backward()

    for train in (step, transparent):
        seen.clear()
        train()
        gc.collect()
        assert len(seen) >= 18
        assert [reference() for reference in seen if reference() is not None] == []


@pytest.mark.parametrize("checkpoint", ["never", "except_last", "always"])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_deferred_statistics_are_those_of_the_whole_batch(checkpoint, momentum):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4, momentum=momentum), nn.Tanh(), nn.Linear(4, 3)).double()
    plain = nn.BatchNorm1d(4, momentum=momentum).double()
    pipe = GPipe(model, 2, 4, checkpoint=checkpoint, deferred_batch_norm=True)
    for seed in range(3):
        x, y = batch(11, seed)
        plain(model[0](x))
        pipe.step(x, y, LOSS)
    assert torch.allclose(model[1].running_mean, plain.running_mean, rtol=1e-10, atol=1e-12)
    assert torch.allclose(model[1].running_var, plain.running_var, rtol=1e-10)
    assert model[1].num_batches_tracked == 3


def test_deferred_statistics_on_images_and_none_in_eval():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(48, 2)).double()
    plain, x = nn.BatchNorm2d(3).double(), torch.randn(7, 2, 6, 6, dtype=torch.float64)
    pipe = GPipe(model, 2, 3, deferred_batch_norm=True)
    plain(model[0](x))
    pipe(x)
    assert torch.allclose(model[1].running_var, plain.running_var, rtol=1e-10)
    pipe.eval()(x)
    assert model[1].num_batches_tracked == 1


@pytest.mark.parametrize("checkpoint", ["never", "always"])
def test_statistics_that_are_not_deferred_count_every_micro_batch_once(checkpoint):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double()
    plain, (x, y) = nn.BatchNorm1d(4).double(), batch(8)
    for piece in x.chunk(4):
        plain(model[0](piece))
    GPipe(model, 2, 4, checkpoint=checkpoint).step(x, y, LOSS)
    assert model[1].num_batches_tracked == 4
    assert torch.allclose(model[1].running_mean, plain.running_mean, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero_bubble"])
def test_dropout_under_recompute_gives_the_gradients_it_gives_without(schedule):
    x, y = batch(9)
    found = []
    for checkpoint in ("never", "except_last", "always"):
        torch.manual_seed(4)
        model = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5)) for _ in range(3))).double()
        GPipe(model, 3, 4, schedule=schedule, checkpoint=checkpoint).step(x, y, LOSS)
        found.append([weight.grad for weight in model.parameters()])
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


def test_stages_work_at_once_forward_and_backward():
    model = nn.Sequential(nn.Linear(6, 6), Sleep(0.02), nn.Linear(6, 6), Sleep(0.02))
    pipe, (x, _y) = GPipe(model, 2, 6, checkpoint="never"), batch(12)
    pipe.step(x.float(), x.float(), nn.MSELoss())
    timeline = pipe.timeline
    assert timeline.measured
    assert timeline.unit == "s"
    assert [tuple(span.op for span in timeline.row(device)) for device in range(2)] == list(pipe.schedule.rows)
    # Serial it is 24 ops of 20 ms; two stages side by side need 14.
    assert timeline.makespan < 0.95 * sum(timeline.busy(device) for device in range(2))
    for kind in "FB":
        first, second = ([span for span in timeline.row(device) if span.op.kind == kind] for device in range(2))
        assert any(a.start < b.end and b.start < a.end for a in first for b in second), kind
    plan = ge.simulate(pipe.schedule, calibrate(timeline))
    assert plan.makespan == pytest.approx(timeline.makespan, rel=0.5)


def test_an_early_recompute_starts_before_its_gradient_is_there():
    model = nn.Sequential(nn.Linear(6, 6), Sleep(0.02), nn.Linear(6, 6), Sleep(0.02))
    pipe, (x, _) = GPipe(model, 2, 2, schedule=ge.gpipe(2, 2, recompute="early")), batch(4)
    pipe.step(x.float(), x.float(), nn.MSELoss())
    span_of = {str(span.op): span for span in pipe.timeline.spans}
    assert span_of["R1@0"].start < span_of["B1@1"].end


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_saved_bytes_are_those_on_paper(schedule):
    for checkpoint in ("never", "except_last", "always"):
        model = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(8)))
        pipe = GPipe(model, 4, 8, schedule=schedule, checkpoint=checkpoint, measure_memory=True)
        pipe.step(torch.randn(64, 32), torch.randn(64, 32), nn.MSELoss())
        # A stage of two (Linear, Tanh) saves beyond its input, 8 x 32 floats, the two outputs of Tanh.
        paper = peak_memory(ge.simulate(pipe.schedule), boundary=1024, interior=2048)
        assert pipe.peak_memory[:3] == tuple(map(int, paper[:3]))
        assert paper[3] <= pipe.peak_memory[3] <= paper[3] + 8 * 1024  # the loss saves its difference


def test_workers_end_with_their_pipeline():
    before = threading.active_count()
    for _ in range(5):
        GPipe(models.mlp(), 3, 4).step(*batch(8), LOSS)
    gc.collect()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before
