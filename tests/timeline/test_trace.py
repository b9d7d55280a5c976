"""A saved trace read back: the same timeline, and one sentence for every file that is none."""

import json
import os

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu import Costs, Span, Timeline
from gpipe_edu import reference as ref
from gpipe_edu.timeline.trace import MOST_MEGABYTES
from tests.recipes import small_schedules


def back(timeline, tmp_path):
    return Timeline.load_trace(timeline.save_trace(tmp_path / "trace.json"))


def everything(timeline):
    return timeline.spans, timeline.devices, timeline.name, timeline.source, timeline.unit, timeline.send


def test_every_planned_timeline_comes_back_to_the_last_digit(tmp_path):
    for schedule in small_schedules(3, 3):
        planned = ge.simulate(schedule, Costs(F=1 / 3, B=0.7, send=0.1))
        read = back(planned, tmp_path)
        assert everything(read) == everything(planned)
        assert read.in_flight == planned.in_flight, "an end that comes back a digit later would hold memory longer"


def test_late_starts_no_sends_and_idle_devices_come_back(tmp_path):
    spans = [Span(2, ge.Op("F", 7, 5), 1e5 + 1 / 3, 1e5 + 1 / 3), Span(0, ge.Op("F", 8, 5), 1e5 + 0.1, 1e5 + 0.4)]
    for source in ("planned", "replayed", "measured", "drawn"):
        timeline = Timeline(spans, 4, name=f"“{source}” <ü>\n", source=source, unit="s")
        assert everything(back(timeline, tmp_path)) == everything(timeline)


@pytest.mark.parametrize("schedule", [ge.gpipe(2, 3, recompute="late"), ge.interleaved(2, 4, 2), ge.zero_bubble(2, 3)])
def test_a_numpy_run_comes_back(schedule, tmp_path):
    layers = ref.mlp([6] * 5, activation="relu", seed=0)
    x, y = np.ones((4, 6)), np.zeros(4, dtype=int)
    timeline = ref.train_pipeline(layers, x, y, schedule, loss="cross_entropy").timeline
    assert timeline.source == "replayed"
    assert everything(back(timeline, tmp_path)) == everything(timeline)


def test_a_pytorch_run_comes_back(tmp_path):
    torch = pytest.importorskip("torch")
    from gpipe_edu.pytorch import GPipe

    net = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(4)))
    pipe = GPipe(net, partitions=2, micro_batches=3, checkpoint="always")
    pipe.step(torch.ones(6, 4), torch.zeros(6, 4), torch.nn.functional.mse_loss)
    assert pipe.timeline.measured
    assert everything(back(pipe.timeline, tmp_path)) == everything(pipe.timeline)


def test_the_largest_explorer_is_below_the_limit(tmp_path):
    largest = ge.simulate(ge.gpipe(64, 256, recompute="early"), Costs(F=1 / 3, B=2 / 3, send=0.1))
    path = largest.save_trace(tmp_path / "large.json")
    assert path.stat().st_size < MOST_MEGABYTES * 1e6
    assert Timeline.load_trace(path) == largest


def test_a_file_that_is_too_large_is_not_even_read(tmp_path):
    path = tmp_path / "huge.json"
    path.touch()
    os.truncate(path, 50_000_000)
    with pytest.raises(ValueError, match=r"^huge\.json has 50 MB, and a trace at most 32; "):
        Timeline.load_trace(path)


def test_a_trace_of_pytorch_is_told_by_what_is_in_it(tmp_path):
    torch = pytest.importorskip("torch")
    with torch.profiler.profile() as profile:
        torch.ones(3) + 1
    path = tmp_path / "profile.json"
    profile.export_chrome_trace(str(path))
    with pytest.raises(ValueError, match=r"^profile\.json is a trace of another program: \d+ events, such as “"):
        Timeline.load_trace(path)


@pytest.mark.parametrize("length", range(1, 1500, 37))
def test_a_trace_that_was_cut_off_is_refused_wherever_it_was_cut(length, tmp_path):
    path = ge.simulate(ge.gpipe(1, 1)).save_trace(tmp_path / "cut.json")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * length // 1500])
    with pytest.raises(ValueError, match=r"^cut\.json "):
        Timeline.load_trace(path)


def test_a_trace_of_two_files_in_one_is_refused(tmp_path):
    path = ge.simulate(ge.gpipe(2, 2)).save_trace(tmp_path / "a.json")
    content = json.loads(path.read_text())
    content["traceEvents"] *= 2
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"^a\.json is damaged: F0@0 is in it twice; save it anew$"):
        Timeline.load_trace(path)


def test_no_file_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Timeline.load_trace(tmp_path / "none.json")
    with pytest.raises(TypeError):
        Timeline.load_trace(3)
