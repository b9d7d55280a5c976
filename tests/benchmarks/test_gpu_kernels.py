"""When ops ran on a GPU, from a trace made by hand: two stages whose ops overlap on the host."""

import copy

import pytest

from benchmarks.gpu.kernels import apart, kernel_timeline, sample
from gpipe_edu.schedule import Op
from gpipe_edu.timeline import Span, Timeline


def mark(name, start, length):
    return {"ph": "X", "cat": "user_annotation", "name": name, "tid": 1, "ts": start, "dur": length}


def kernel(number, launched, stream, start, length, kind="kernel", by="cuda_runtime"):
    return [
        {"ph": "X", "cat": by, "name": "launch", "ts": launched, "dur": 1, "args": {"correlation": number}},
        {
            "ph": "X", "cat": kind, "name": "sgemm", "ts": start, "dur": length,
            "args": {"correlation": number, "stream": stream},
        },
    ]  # fmt: skip


def trace():
    """Stage 0 on stream 13, stage 1 on 17. The host is in B of stage 0 while it launches F of stage 1."""
    return {
        "schemaVersion": 1,
        "distributedInfo": {"rank": 0},
        "traceEvents": [
            {"ph": "M", "name": "process_name", "args": {"name": "python"}},
            mark("stream of stage 0", 0, 10), *kernel(1, 5, 13, 6, 1),
            mark("stream of stage 1", 20, 10), *kernel(2, 25, 17, 26, 1),
            mark("PP:0F0", 100, 50), *kernel(3, 110, 13, 1000, 2000), *kernel(4, 120, 13, 3000, 1000, "gpu_memset"),
            mark("PP:1F0", 105, 100), *kernel(5, 115, 17, 4500, 500, by="cuda_driver"),
            mark("PP:1B0", 300, 100), *kernel(6, 310, 17, 5000, 1000),
            mark("PP:0B0", 305, 100), *kernel(7, 320, 13, 7000, 4000), *kernel(8, 330, 99, 9000, 90000),
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 110, "dur": 5, "args": {}},
        ],
    }  # fmt: skip


OURS = [(0, "F", 0.0, 3.0), (1, "F", 3.5, 4.0), (1, "B", 4.0, 5.0), (0, "B", 6.0, 10.0)]


def timeline(spans=OURS):
    found = [Span(k, Op(kind, 0, k), start / 1e3, end / 1e3) for k, kind, start, end in spans]
    return Timeline(found, 2, source="measured", unit="s")


def test_an_op_lasts_from_its_first_kernel_to_the_end_of_its_last():
    found = kernel_timeline(trace(), 2)
    assert [span.op for span in found.spans] == [span.op for span in timeline().spans]
    for span, expected in zip(found.spans, timeline().spans, strict=True):
        assert (span.device, span.start, span.end) == pytest.approx((expected.device, expected.start, expected.end))
    assert found.source == "measured"


def test_the_largest_difference_is_a_share_of_the_step():
    kernels = kernel_timeline(trace(), 2)
    assert apart(timeline(), kernels) == pytest.approx(0, abs=1e-9)
    late = [*OURS[:2], (1, "B", 4.0, 5.4), OURS[3]]
    assert apart(timeline(late), kernels) == pytest.approx(0.04)


def test_an_op_without_kernels_is_infinitely_far():
    short = trace()
    short["traceEvents"] = [event for event in short["traceEvents"] if event.get("args", {}).get("correlation") != 6]
    assert apart(timeline(), kernel_timeline(short, 2)) == float("inf")


def test_a_trace_without_kernels_gives_nothing_and_one_without_a_stage_s_stream_is_refused():
    host = trace()
    host["traceEvents"] = [event for event in host["traceEvents"] if event.get("cat") != "kernel"][:3]
    assert kernel_timeline(host, 2) is None
    lost = copy.deepcopy(trace())
    lost["traceEvents"] = [event for event in lost["traceEvents"] if event["name"] != "stream of stage 1"]
    with pytest.raises(ValueError, match=r"no stream is that of stage 1; it has \[13\]"):
        kernel_timeline(lost, 2)


def test_a_sample_has_all_that_is_read():
    small = sample(trace())
    assert kernel_timeline(small, 2).spans == kernel_timeline(trace(), 2).spans
    assert "distributedInfo" not in small
    assert not [event for event in small["traceEvents"] if event["cat"] == "cpu_op"]
