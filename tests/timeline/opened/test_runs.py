"""Real runs on two ranks: every schedule class of torch.distributed.pipelining, and the ways that a refusal offers."""

import csv
import gzip
import json
from functools import partial

import pytest

import gpipe_edu as ge
from gpipe_edu.timeline.opened import open_files
from tests.processes import PATIENCE

pytestmark = pytest.mark.slow


def profiled(work, folder):
    pytest.importorskip("torch", minversion="2.12", reason="this test profiles real runs of PyTorch")
    from gpipe_edu.distributed import LocalGroup

    with LocalGroup() as group:
        group.run([partial(work, str(folder))] * 2, PATIENCE)


def test_every_schedule_class_has_its_order_and_waits_are_no_work(tmp_path, preloaded_python):
    from . import runs

    late = {}
    for name in runs.CLASSES:
        (tmp_path / name).mkdir()
    profiled(runs.profile_all, tmp_path)
    for name in runs.CLASSES:
        if name == "Schedule1F1B":
            with pytest.raises(ValueError, match="Schedule1F1B names none"):
                ge.load(tmp_path / name)
            continue
        opened = open_files(tmp_path / name)
        assert len(opened.steps) == 2, name
        timeline = opened.found
        rows = [[span.op for span in timeline.row(device)] for device in range(2)]
        assert ge.Schedule(rows).problems() == [], name
        for device in range(2):
            assert {op.stage for op in rows[device]} == set(runs.stages_of(name, device, 2)), name
        assert ge.Schedule(rows).micro_batches == runs.MICRO_BATCHES
        span_of = {span.op: span for span in timeline.spans}
        clocks = 0.01 * timeline.makespan  # of one machine, but each profile has fitted it to its processor's by itself
        for span in timeline.spans:  # waits are outside of ops
            assert all(span_of[need].end <= span.start + clocks for need in timeline.needs(span.op)), (name, span)
        assert not any("overlap" in line or "contradict" in line for line in opened.said), opened.said
        for device in range(2):
            operations = _operations(tmp_path / name / f"rank{device}_trace.json")
            marks = sum(dur for named, _, dur in operations if named.startswith(("PP:", "Forward", "Backward")))
            assert 0 < sum(step.busy(device) for step in opened.steps) * 1e6 < marks
        if not opened.doubts:  # else clocks may be too far apart to compare ranks
            late[name] = str(ge.diagnose(opened.steps))
    found = ge.diagnose(opened.steps)
    assert found.steps == 2
    assert found.planned_bubble < found.bubble < 1
    assert late
    for name, told in late.items():
        assert "device 0 comes last, and takes 0.3" in told.replace(" 3", " 0.3"), (name, told)


def _operations(file):
    content = json.loads(file.read_text(encoding="utf-8"))
    return [(one["name"], one["ts"], one["dur"]) for one in content["traceEvents"] if one.get("ph") == "X"]


def test_the_ways_that_a_refusal_offers_work(tmp_path, preloaded_python):
    from . import runs

    rows = ge.one_f_one_b(2, runs.MICRO_BATCHES).rows
    for folder in ("csv", "own"):
        (tmp_path / folder).mkdir()
    with (tmp_path / "csv" / "1f1b.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[f"{op.stage}{op.kind}{op.micro_batch}" for op in row] for row in rows])
    profiled(runs.one_f_one_b_by_csv, tmp_path / "csv")
    profiled(runs.loops_of_ones_own, tmp_path / "own")
    found = ge.load(tmp_path / "csv")
    assert [[span.op for span in found.row(device)] for device in range(2)] == [list(row) for row in rows]
    file = tmp_path / "own" / "rank1_trace.json"
    (tmp_path / "own" / "rank1_trace.json.gz").write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    own = ge.load(tmp_path / "own")
    assert [[str(span.op) for span in own.row(device)] for device in range(2)] == [
        [f"F0@{k}", f"F1@{k}", f"B0@{k}", f"B1@{k}"] for k in range(2)
    ]
