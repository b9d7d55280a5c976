"""A profile that a user takes of a pipe's step opens as the chart that the pipe has measured itself."""

from statistics import median

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity, _ExperimentalConfig, profile  # noqa: E402

import gpipe_edu as ge  # noqa: E402
from gpipe_edu.pytorch import GPipe  # noqa: E402

WIDTH, N = 256, 1024


def profiled(pipe, folder, way="step", **options):
    x, y = torch.randn(N, WIDTH), torch.randn(N, WIDTH)
    pipe.step(x, y, nn.MSELoss())  # the first one is slow
    with profile(activities=[ProfilerActivity.CPU], **options) as found:
        if way == "step":
            pipe.step(x, y, nn.MSELoss())
        else:
            nn.MSELoss()(pipe(x), y).backward()
    found.export_chrome_trace(str(folder / "trace.json"))
    return folder / "trace.json"


def net():
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(6)])


@pytest.mark.parametrize(
    ("recipe", "way"), [("gpipe", "step"), ("gpipe", "backward"), ("1f1b", "step"), ("zero_bubble", "step")]
)
def test_a_profile_of_all_threads_has_the_times_that_the_pipe_measures(recipe, way, tmp_path):
    pipe = GPipe(net(), partitions=3, micro_batches=4, schedule=recipe)
    file = profiled(pipe, tmp_path, way, experimental_config=_ExperimentalConfig(profile_all_threads=True))
    found, measured = ge.load(file), pipe.timeline
    assert found.devices == 3
    for device in range(3):
        assert [span.op for span in found.row(device)] == [span.op for span in measured.row(device)]
    pairs = [(mine, own) for k in range(3) for mine, own in zip(found.row(k), measured.row(k), strict=True)]
    # What the profile counts as an op is inside what the pipe does: no wait is in it. Their clocks may be apart and run
    # at rates that differ by a fraction of a per cent, so lengths are compared, and no two moments.
    lengths = [(mine.end - mine.start, own.end - own.start) for mine, own in pairs]
    assert all(mine < 1.01 * own + 1e-6 for mine, own in lengths)
    assert median(mine / own for mine, own in lengths) > 0.5
    assert not any("contradict" in note or "overlap" in note for note in found.notes)


def test_a_profile_of_one_thread_is_refused_with_the_lines_that_watch_all(tmp_path):
    pipe = GPipe(net(), partitions=2, micro_batches=2)
    file = profiled(pipe, tmp_path)
    told = (
        r"(?s)trace.json is a profile of a GPipe whose ops, such as “one by one PP:.*”, ran in one thread.*"
        r"_ExperimentalConfig\(profile_all_threads=True\).*`pipe.timeline`"
    )
    with pytest.raises(ValueError, match=told):
        ge.load(file)


def test_without_a_profiler_ops_are_not_named(monkeypatch):
    def never(name):
        raise AssertionError(name)

    monkeypatch.setattr("gpipe_edu.pytorch.interpreter.record_function", never)
    pipe = GPipe(net(), partitions=2, micro_batches=2)
    pipe.step(torch.randn(8, WIDTH), torch.randn(8, WIDTH), nn.MSELoss())
    with profile(), pytest.raises(AssertionError, match="PP:0F0"):
        pipe.step(torch.randn(8, WIDTH), torch.randn(8, WIDTH), nn.MSELoss())
