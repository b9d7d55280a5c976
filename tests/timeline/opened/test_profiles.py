"""Profiles of real ranks become a timeline; files of something else are refused by name."""

import gzip
import json
from functools import partial
from statistics import median

import pytest

import gpipe_edu as ge
from gpipe_edu.timeline import read_profiles
from gpipe_edu.timeline.faults import step_with_fault
from tests.processes import PATIENCE


def work(folder, schedule):
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile

    from gpipe_edu.cluster import Pipeline

    from ...cluster import jobs

    (x, y), rank = jobs.data(), dist.get_rank()
    pipeline = Pipeline(jobs.network(), schedule, jobs.LOSS, x)
    with profile(activities=[ProfilerActivity.CPU]) as found:
        pipeline.step(x, y)
        pipeline.step(x, y)
    found.export_chrome_trace(f"{folder}/{rank}.json")


def test_profiles_of_two_ranks_are_one_timeline_in_the_order_of_the_schedule(tmp_path, preloaded_python):
    pytest.importorskip("torch", minversion="2.12", reason="this test profiles a real run of PyTorch")
    from gpipe_edu.distributed import LocalGroup

    schedule = ge.one_f_one_b(2, 4)
    with LocalGroup() as group:
        group.run([partial(work, str(tmp_path), schedule)] * 2, PATIENCE)
    (tmp_path / "1.json.gz").write_bytes(gzip.compress((tmp_path / "1.json").read_bytes()))
    timeline = read_profiles([tmp_path / "0.json", tmp_path / "1.json.gz"])
    assert (timeline.source, timeline.unit) == ("measured", "s")
    for device, row in enumerate(schedule.rows):
        assert [span.op for span in timeline.row(device)] == list(row)
    span_of = {span.op: span for span in timeline.spans}
    clocks = 0.01 * timeline.makespan  # of one machine, but each profile has fitted it to its processor's by itself
    for span in timeline.spans:  # nothing starts before what it waits for has ended
        assert all(span_of[need].end < span.start + clocks for need in timeline.needs(span.op))


def event(name, ts, dur=5, cat="user_annotation", **more):
    return {"ph": "X", "name": name, "ts": ts, "dur": dur, "cat": cat, "pid": 1, "tid": 1, **more}


def op(name, ts, dur=5):
    """A mark, and the operation in it, which takes all of it."""
    return [event(name, ts, dur), event("aten::linear", ts, dur, "cpu_op")]


def saved(path, events, **about):
    path.write_text(json.dumps({"traceEvents": events, **about}))
    return path


def as_profiles(timeline, folder):
    """What the ranks of a timeline export: each op's mark begins when the rank is free, and holds its wait."""
    files = []
    for k in range(timeline.devices):
        free, events = 0.0, []
        for span in timeline.row(k):
            start, end = span.start * 1e6, span.end * 1e6
            name = f"PP:{span.op.stage}{span.op.kind}{span.op.micro_batch}"
            events += [event(name, free, end - free), event("c10d::recv_", free, 1, "cpu_op")]
            events += [
                event("aten::view", start, 1, "cpu_op"),
                event("aten::linear", start + 1, end - start - 1, "cpu_op"),
            ]
            events.append(event("aten::randperm", free, end - free, "cpu_op", tid=2))  # of the loader's thread
            free = end
        files.append(saved(folder / f"rank{k}_trace.json", events, distributedInfo={"rank": k, "backend": "gloo"}))
    return files


@pytest.mark.parametrize(
    "schedule", [ge.one_f_one_b(4, 8), ge.gpipe(4, 8), ge.interleaved(4, 8, V=2), ge.zero_bubble_v(4, 8)]
)
def test_an_op_lasts_as_long_as_its_work_and_the_bubble_is_the_step_s_own(tmp_path, schedule):
    step = ge.simulate(schedule)
    found = read_profiles(as_profiles(step, tmp_path))
    assert found.bubble_fraction == pytest.approx(step.bubble_fraction)
    for mine, true in zip(found.spans, step.spans, strict=True):
        assert mine[:2] == true[:2]
        assert mine[2:] == pytest.approx(true[2:])


def test_one_f_one_b_of_4_ranks_has_its_closed_form_s_bubble(tmp_path):
    found = read_profiles(as_profiles(ge.simulate(ge.one_f_one_b(4, 8)), tmp_path))
    assert found.bubble_fraction == pytest.approx(3 / 11)


def test_a_slow_rank_is_the_slowest_per_layer_in_its_profile(tmp_path):
    for seed in range(10):
        for slow in range(4):
            step = step_with_fault(ge.one_f_one_b(4, 8), [4] * 4, slow_rank=slow, seed=seed)
            found = read_profiles(as_profiles(step, tmp_path))
            times = [median(span.end - span.start for span in found.row(k) if span.op.kind == "F") for k in range(4)]
            assert times.index(max(times)) == slow
            assert max(times) > 1.3 * median(times)


def test_ranks_stand_in_the_order_of_their_stages_whatever_order_their_names_have(tmp_path):
    files = sorted(as_profiles(ge.simulate(ge.gpipe(12, 2)), tmp_path))
    assert files[1].name == "rank10_trace.json"
    found = read_profiles(files)
    assert [found.row(k)[0].op.stage for k in range(12)] == list(range(12))


def test_only_the_last_step_counts(tmp_path):
    """The step before it had more micro-batches."""
    events = [*op("PP:0F0", 10), *op("PP:0F1", 20), *op("PP:0B0", 30), *op("PP:0B1", 40)]
    events += [*op("PP:0F0", 100), event("PP:0SEND_F0", 107), *op("PP:0B0", 110), {"ph": "M", "name": "process_name"}]
    spans = read_profiles([saved(tmp_path / "one.json", events, baseTimeNanoseconds=1000)]).spans
    assert [(str(span.op), round(span.start * 1e6), round(span.end * 1e6)) for span in spans] == [
        ("F0@0", 0, 5),
        ("B0@0", 10, 15),
    ]


def test_an_op_in_which_nothing_is_computed_takes_no_time(tmp_path):
    events = [*op("PP:0F0", 10), event("PP:0B0", 20, 30)]
    spans = read_profiles([saved(tmp_path / "one.json", events)]).spans
    assert [(str(span.op), span.end - span.start) for span in spans] == [("F0@0", pytest.approx(5e-6)), ("B0@0", 0)]


@pytest.mark.parametrize(
    ("events", "about", "told"),
    [
        (
            [*op("PP:0F0", 1), event("sgemm", 9, 5, "kernel")],
            {},
            "one.json is a trace of a GPU with ops such as “PP:0F0”",
        ),
        ([*op("PP:0F0", 1), event("cudaLaunchKernel", 1, 1, "cuda_runtime")], {}, "is a trace of a GPU"),
        ([*op("PP:0F0", 1), event("PP:0F0", 9, 5, "gpu_user_annotation")], {}, "is a trace of a GPU"),
        (op("PP:0F0", 1), {"distributedInfo": {"backend": "nccl"}}, "is a trace of a GPU"),
        (
            [*op("PP:0F0", 1), *op("PP:(0F3;7B3)OVERLAP_F_B", 9)],
            {},
            r"one.json is a trace of ops that run as pairs, such as “PP:\(0F3;7B3\)OVERLAP_F_B”, but without",
        ),
        ([event("PP:(0F3;7B3)OVERLAP_F_B", 1)], {}, "is a trace of ops that run as pairs"),
        (op("PP:1F0", 1), {}, "no file has stage 0: give the profiles of all ranks"),
    ],
)
def test_what_a_timeline_would_show_wrong_is_refused(tmp_path, events, about, told):
    with pytest.raises(ValueError, match=told):
        read_profiles([saved(tmp_path / "one.json", events, **about)])


def test_files_of_two_replicas_are_refused(tmp_path):
    files = [saved(tmp_path / name, op(f"PP:{stage}F0", 1)) for name, stage in (("a", 0), ("b", 1), ("c", 1))]
    with pytest.raises(ValueError, match=r"b and .*c both have stage 1, so they are of two replicas"):
        read_profiles(files)
    with pytest.raises(ValueError, match=r"a and .*a both have stage 0"):
        read_profiles([files[0], files[0]])
    assert read_profiles(files[:2]).devices == 2


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("no json", "one.json, a text read as an order of ops"),
        ("[]", "one.json is a trace of 0 events"),
        ('{"traceEvents": 3}', "one.json is JSON of something else"),
        ('{"traceEvents": [{"ph": "X", "name": "aten::mm", "ts": 1, "dur": 1}]}', "named as an op of a pipeline"),
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
