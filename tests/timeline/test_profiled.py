"""Profiles of real ranks become a timeline; files of something else are refused by name."""

import gzip
import json
from functools import partial

import pytest

import gpipe_edu as ge
from gpipe_edu.timeline import read_profiles


def work(folder, schedule):
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile

    from gpipe_edu.cluster import Pipeline

    from ..cluster import jobs

    (x, y), rank = jobs.data(), dist.get_rank()
    pipeline = Pipeline(jobs.network(), schedule, jobs.LOSS, x)
    with profile(activities=[ProfilerActivity.CPU]) as found:
        pipeline.step(x, y)
        pipeline.step(x, y)
    found.export_chrome_trace(f"{folder}/{rank}.json")


def test_profiles_of_two_ranks_are_one_timeline_in_the_order_of_the_schedule(tmp_path, preloaded_python):
    pytest.importorskip("torch", minversion="2.12", reason="this test profiles a real run of PyTorch")
    from gpipe_edu.distributed import Crew

    schedule = ge.one_f_one_b(2, 4)
    with Crew() as crew:
        crew.run([partial(work, str(tmp_path), schedule)] * 2, seconds=60)
    (tmp_path / "1.json.gz").write_bytes(gzip.compress((tmp_path / "1.json").read_bytes()))
    timeline = read_profiles([tmp_path / "0.json", tmp_path / "1.json.gz"])
    assert (timeline.source, timeline.unit) == ("measured", "s")
    for device, row in enumerate(schedule.rows):
        assert [span.op for span in timeline.row(device)] == list(row)
    span_of = {span.op: span for span in timeline.spans}
    for span in timeline.spans:  # the two share a machine, so a clock: nothing ends before what it waits for has ended
        assert all(span_of[need].end < span.end for need in timeline.needs(span.op))


def event(name, ts, **more):
    return {"ph": "X", "name": name, "ts": ts, "dur": 5, **more}


def test_the_last_step_counts_and_a_gpu_s_second_entry_does_not(tmp_path):
    events = [
        event("PP:0F0", 10),
        event("PP:0F0", 100),
        event("PP:0F0", 130, cat="gpu_user_annotation"),
        event("PP:0B0", 110),
        event("PP:0SEND_F0", 107),
        event("aten::mm", 101),
        {"ph": "M", "name": "process_name"},
    ]
    file = tmp_path / "one.json"
    file.write_text(json.dumps({"traceEvents": events, "baseTimeNanoseconds": 1000}))
    spans = read_profiles([file]).spans
    assert [(str(span.op), round(span.start * 1e6), round(span.end * 1e6)) for span in spans] == [
        ("F0@0", 0, 5),
        ("B0@0", 10, 15),
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("no json", "one.json is no trace that torch.profiler exported"),
        ("[]", "one.json is no trace"),
        ('{"traceEvents": 3}', "one.json is no trace"),
        ('{"traceEvents": [{"ph": "X", "name": "aten::mm", "ts": 1, "dur": 1}]}', "has no event such as “PP:0F0”"),
    ],
)
def test_another_file_is_refused_by_name(tmp_path, content, told):
    file = tmp_path / "one.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=told):
        read_profiles([file])


@pytest.mark.parametrize("files", [[], "one.json"])
def test_a_list_of_files_is_wanted(files):
    with pytest.raises(ValueError, match="give a list of files"):
        read_profiles(files)
