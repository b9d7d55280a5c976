"""Runs that were measured elsewhere are opened with their true times, whatever form their files have."""

import gzip
import json
import shutil
from pathlib import Path
from random import Random

import pytest

import gpipe_edu as ge
from gpipe_edu.timeline import Message, read_profiles, step_with_fault
from gpipe_edu.timeline.opened import open_files
from tests.each import each

from . import traces

FILES = Path(__file__).with_name("files")

SCHEDULES = [
    ge.one_f_one_b(4, 8),
    ge.gpipe(3, 4),
    ge.interleaved(2, 4, V=2),
    ge.zero_bubble(3, 6),
    ge.zero_bubble_v(2, 4),
    ge.one_f_one_b(12, 12),
    ge.breadth_first(2, 4, V=3),
]


def same(found, true, within=2e-6):
    """Whether two timelines have the same ops at the same times, which files have in microseconds."""
    assert found.devices == true.devices
    for device in range(true.devices):
        assert [span.op for span in found.row(device)] == [span.op for span in true.row(device)]
        for mine, other in zip(found.row(device), true.row(device), strict=True):
            assert mine.start - found.start == pytest.approx(other.start - true.start, abs=within)
            assert mine.end - found.start == pytest.approx(other.end - true.start, abs=within)


def test_samples_have_the_bubble_that_was_put_into_them():
    for name, bubble, devices in (
        ("kineto_cpu_slow_rank_2", 0.397, 4),
        ("kineto_gpu", 0.200, 2),
        ("kineto_cpu_2_replicas", 0.200, 2),
        ("kineto_cpu_12_ranks", 0.478, 12),
        ("megatron_pp_timer", 0.200, 2),
    ):
        found = ge.load(FILES / name)
        assert found.measured
        assert found.bubble_fraction == pytest.approx(bubble, abs=0.001)
        assert [found.row(k)[0].op.stage for k in range(found.devices)] == list(range(devices))
        files = list((FILES / name).iterdir())
        Random(1).shuffle(files)
        assert ge.load(files) == found
        assert ge.load(list(map(str, files))) == found
    assert ge.diagnose(ge.load(FILES / "kineto_cpu_slow_rank_2")).slowest_stage == 2


def test_true_times_come_back_from_a_cpu_and_a_gpu_in_any_order_of_files(tmp_path):
    """Waits inside ops, kernels launched by another thread, all-reduces meanwhile, bases that differ, odd names."""
    for number, schedule in enumerate(SCHEDULES):
        for gpu in (False, True):
            true = ge.simulate(schedule, ge.Costs(F=0.01, B=0.02, send=0.001, unit="s"))
            files = traces.save_all(tmp_path / f"{number}{gpu}", true, gpu=gpu, seed=number)
            found = ge.load(files)
            same(found, true)
            assert found.bubble_fraction == pytest.approx(true.bubble_fraction, abs=1e-3)
            assert ge.load(tmp_path / f"{number}{gpu}") == found
            assert ("GPU kernels" if gpu else "operations on the CPU") in found.name


def test_of_several_steps_the_last_whole_one_is_shown_and_step_chooses(tmp_path):
    for number, schedule in enumerate(SCHEDULES):
        true = ge.simulate(schedule, ge.Costs(F=0.01, B=0.02, unit="s"))
        fewest = min(map(len, schedule.rows))
        for first, last in ((0, 0), (fewest // 2, 0), (1, 2), (0, fewest - 1), (fewest - 1, 1)):
            folder = tmp_path / f"{number}_{first}_{last}"
            traces.save_all(folder, true, steps=4, cut=(first, last), seed=number)
            opened = open_files(folder)
            whole = 4 - (first > 0) - (last > 0)
            assert len(opened.steps) == whole, (schedule.name, first, last)
            for step in opened.steps:
                same(step, true)
            assert opened.found is opened.steps[-1]
            assert any(f"{whole} whole steps; this is step {whole - 1}" in line for line in opened.said)
            assert any(line.startswith("left out ") for line in opened.said) == bool(first or last)
            assert ge.load(folder, step=0) == opened.steps[0]
            assert whole == 1 or f"{whole} whole steps; this is step 0" in opened.steps[0].notes
    with pytest.raises(ValueError, match=r"step is 9; the files have 2 steps, from 0 to 1"):
        ge.load(folder, step=9)


def test_a_step_that_is_not_whole_is_no_step(tmp_path):
    true = ge.simulate(ge.one_f_one_b(2, 4), ge.Costs(F=0.01, B=0.02, unit="s"))
    traces.save_all(tmp_path / "cut", true, cut=(0, 2))
    with pytest.raises(ValueError, match=r"has no whole step: F\d@\d has no backward"):
        ge.load(tmp_path / "cut")
    for device in range(2):  # a rank has one micro-batch fewer than the other
        trace = traces.Trace(device, 2, [])
        spans = [span for span in traces.later(true.row(device), 0) if device == 0 or span.op.micro_batch < 3]
        traces.on_cpu(trace, spans)
        trace.save(tmp_path / f"{device}.json")
    with pytest.raises(ValueError, match=r"have no whole step in common: .*3"):
        ge.load([tmp_path / "0.json", tmp_path / "1.json"])


def test_steps_in_files_of_their_own_are_joined_and_a_file_given_twice_is_refused(tmp_path):
    true = ge.simulate(ge.one_f_one_b(2, 4), ge.Costs(F=0.01, B=0.02, unit="s"))
    for device in range(2):
        for step in range(2):
            trace = traces.Trace(device, 2, [("mesh_pp", [0, 1])])
            traces.on_cpu(trace, traces.later(true.row(device), step * 1e6))
            trace.save(tmp_path / f"host_{device}.{step}.pt.trace.json")
    assert len(open_files(tmp_path).steps) == 2
    shutil.copy(tmp_path / "host_1.0.pt.trace.json", tmp_path / "again.json")
    with pytest.raises(ValueError, match=r"again.json, .* are of the same rank, 1, and of the same time"):
        ge.load(tmp_path)


def test_of_replicas_one_is_drawn_and_replica_chooses(tmp_path):
    steps = [step_with_fault(ge.one_f_one_b(3, 4), [4] * 3, seed=seed) for seed in range(2)]
    for number, step in enumerate(steps):
        for k in range(3):
            trace = traces.Trace(number + 2 * k, 6, [("mesh_pp", [number, number + 2, number + 4])])
            traces.on_cpu(trace, traces.later(step.row(k), 0))
            trace.save(tmp_path / f"{'abc'[k]}{number}.json")
    for number, step in enumerate(steps):
        same(ge.load(tmp_path, replica=number), step)
    assert "of ranks 0, 2, 4, replica 0 of 2; ops by" in open_files(tmp_path).said[0]
    assert "replica 1 of 2" in ge.load(tmp_path, replica=1).name
    with pytest.raises(ValueError, match="replica is 2; the files have 2 replicas"):
        ge.load(tmp_path, replica=2)
    (tmp_path / "a0.json").unlink()
    same(ge.load(tmp_path), steps[1])  # the one that is there
    with pytest.raises(ValueError, match=r"the pipeline has ranks 0, 2, 4, and no file is of rank 0"):
        ge.load(tmp_path, replica=0)


def test_ranks_that_share_stages_need_to_say_which_are_a_pipeline(tmp_path):
    true = ge.simulate(ge.one_f_one_b(2, 2))
    for rank in range(4):
        trace = traces.Trace(rank, 4, [("mesh_dp", [rank])])
        traces.on_cpu(trace, traces.later(true.row(rank // 2), 0))
        trace.save(tmp_path / f"{rank}.json")
    with pytest.raises(ValueError, match=r"both have stage 0.*\n.*mesh_dim_names"):
        ge.load(tmp_path)
    found = ge.load([tmp_path / "1.json", tmp_path / "3.json"])
    same(found, true)
    assert found.name.endswith("; ranks may be missing")
    assert "of 4 that ran 2 are here, and no process group called mesh_pp says" in found.notes[-1]
    with pytest.raises(ValueError, match="no file has stage 0"):
        ge.load(tmp_path / "3.json")


def test_a_file_that_was_merged_of_several_is_one_pipeline(tmp_path):
    for number, schedule in enumerate(SCHEDULES[:4]):
        true = ge.simulate(schedule, ge.Costs(F=0.01, B=0.02, unit="s"))
        for gpu in (False, True):
            of_ranks = []
            for k in range(true.devices):
                trace = traces.Trace(k, true.devices, [], pid=10 * k)
                rows = traces.later(true.row(k), 0)
                traces.on_gpu(trace, rows, schedule.stages) if gpu else traces.on_cpu(trace, rows)
                of_ranks.append({**trace.about, "traceEvents": trace.events})
            file = tmp_path / f"{number}{gpu}.json"
            file.write_text(json.dumps({"traceEvents": [one for each in of_ranks for one in each["traceEvents"]]}))
            same(ge.load(file), true)
            file.write_text(json.dumps([one for each in of_ranks for one in each["traceEvents"]]))
            same(ge.load(file), true)
            file.write_text(json.dumps(of_ranks))  # a list of whole traces
            same(ge.load(file), true)


def test_kernels_of_a_merged_file_that_could_be_of_either_rank_are_refused(tmp_path):
    true = ge.simulate(ge.one_f_one_b(2, 4), ge.Costs(F=0.01, B=0.02, unit="s"))
    events = []
    for k in range(2):
        trace = traces.Trace(k, 2, [])
        traces.on_gpu(trace, traces.later(true.row(k), 0), 2)
        events += trace.events
    events.sort(key=lambda event: event.get("ts", 0))
    (tmp_path / "merged.json").write_text(json.dumps({"traceEvents": events}))
    with pytest.raises(ValueError, match=r"merged.json is a trace merged of 2 processes of GPUs"):
        ge.load(tmp_path)


def test_messages_of_a_gpu_are_on_their_links(tmp_path):
    true = ge.simulate(ge.one_f_one_b(3, 4), ge.Costs(F=0.01, B=0.02, send=0.002, unit="s"))
    found = ge.load(traces.save_all(tmp_path, true, gpu=True))
    assert len(found.messages) == 2 * 2 * 4
    ends = {span.op: span.end for span in found.spans}
    starts = {(span.op, span.device): span.start for span in found.spans}
    for message in found.messages:
        assert abs(message.source - message.target) == 1
        assert ends[message.op] - 1e-6 <= message.start <= message.end <= message.there
        assert isinstance(message, Message)
        after = message.op._replace(stage=message.op.stage + message.target - message.source)
        begun = starts[after, message.target] - 30e-6  # the receiver's kernel begins, behind the sender's
        assert message.start == pytest.approx(begun, abs=1e-6)


def test_clocks_that_contradict_the_order_are_moved_and_told(tmp_path):
    true = ge.simulate(ge.one_f_one_b(2, 4), ge.Costs(F=0.01, B=0.02, unit="s"))
    for number, off in enumerate((0, 5e3, -5e3, 3.6e9, -3.6e9)):  # up to an hour
        for k in range(2):
            trace = traces.Trace(k, 2, [])
            traces.on_cpu(trace, traces.later(true.row(k), off * k))
            (tmp_path / f"{number}").mkdir(exist_ok=True)
            trace.save(tmp_path / f"{number}" / f"{k}.json")
        opened = open_files(tmp_path / f"{number}")
        told = [line for line in opened.doubts if line.startswith("clocks contradict the order: by them")]
        assert bool(told) == bool(off) == opened.found.name.endswith("; clocks contradict the order")
        assert set(told) <= set(opened.found.notes)
        same(opened.found, true)
        assert not told or "before" in told[0]


def save_with_clocks_apart(folder, true, steps, off=3e6):
    """Each rank's clock is later by so many microseconds; steps: which of them each rank was profiled in."""
    for k, of in enumerate(steps):
        trace = traces.Trace(k, len(steps), [])
        for step in of:
            spans = [one._replace(start=one.start * (1 + step), end=one.end * (1 + step)) for one in true.row(k)]
            traces.on_cpu(trace, traces.later(spans, step * 1e6 + off * k))
        trace.save(folder / f"{k}.json")
    return folder


@each("schedule", [ge.zero_bubble_v(4, 8), ge.gpipe(4, 8), ge.one_f_one_b(3, 6)])
def test_of_ranks_whose_clocks_are_apart_the_steps_are_paired_by_number(tmp_path, schedule):
    """Off by a step and more, each overlaps another rank's next one."""
    true = ge.simulate(schedule, ge.Costs(F=0.02, B=0.04, unit="s"))
    for off in (1e6, 1.1e6, 3.6e9, -1.1e6):
        (folder := tmp_path / f"{schedule.name}{off}").mkdir()
        opened = open_files(save_with_clocks_apart(folder, true, [range(2)] * schedule.devices, off))
        for step, times in zip(opened.steps, (1, 2), strict=True):
            assert step.makespan == pytest.approx(times * true.makespan, rel=1e-3)
            assert step.bubble_fraction == pytest.approx(true.bubble_fraction, abs=1e-3)
        assert any("clocks contradict the order" in line for line in opened.doubts)


def test_of_ranks_whose_clocks_are_apart_and_whose_steps_are_not_as_many_nothing_is_shown(tmp_path):
    true = ge.simulate(ge.one_f_one_b(2, 4), ge.Costs(F=0.01, B=0.02, unit="s"))
    save_with_clocks_apart(tmp_path, true, [range(3), range(1, 3)], off=3.6e9)
    with pytest.raises(ValueError, match=r"0\.json, 1\.json have 2 to 3 whole steps, .* nothing tells which belong"):
        open_files(tmp_path)
    save_with_clocks_apart(tmp_path, true, [range(3), range(1, 3)], off=0)  # by clocks that agree, it is plain
    assert [step.makespan for step in open_files(tmp_path).steps] == pytest.approx(
        [2 * true.makespan, 3 * true.makespan], abs=1e-5
    )


def test_a_rank_that_is_missing_is_named_with_what_is_wrong_with_its_file(tmp_path):
    true = ge.simulate(ge.one_f_one_b(3, 4), ge.Costs(F=0.01, B=0.02, unit="s"))
    for k in range(3):
        trace = traces.Trace(k, 3, [])
        traces.on_cpu(trace, traces.later(true.row(k), 0))
        trace.save(tmp_path / f"rank{k}_trace.json")
    one = tmp_path / "rank1_trace.json"
    whole = one.read_bytes()
    for content, wrong in (
        (b"", "is empty"),
        (b" \n", "is empty"),
        (whole.decode().encode("utf-16"), "is a text in UTF-16"),
        (b"\0" * 5000, "is no text"),
    ):
        one.write_bytes(content)
        with pytest.raises(ValueError, match=rf"no file has stage 1: .* Of the files there, rank1_trace\.json {wrong}"):
            ge.load(tmp_path)
    one.write_bytes(whole[:-30])
    with pytest.raises(ValueError, match=r"^rank1_trace\.json begins as JSON but cannot be read to its end"):
        ge.load(tmp_path)
    one.write_bytes(whole)
    (tmp_path / "rank2_trace.json").write_bytes(b"")  # the last: what is there is a pipeline, too
    opened = open_files(tmp_path)
    assert "ranks may be missing: rank2_trace.json is empty" in opened.doubts
    assert "ranks may be missing" in opened.found.name


def test_times_that_no_clock_explains_are_told_and_left_as_they_are(tmp_path):
    true = ge.simulate(ge.one_f_one_b(2, 4), ge.Costs(F=0.01, B=0.02, unit="s"))
    for k in range(2):
        trace = traces.Trace(k, 2, [])
        spans = traces.later(true.row(k), 0)
        if k == 1:  # all at once, before anything has arrived, and then late
            spans = [span._replace(start=span.start - (4e4 if n == 0 else -4e4)) for n, span in enumerate(spans)]
            spans = [span._replace(end=span.start + 1e3) for span in spans]
        traces.on_cpu(trace, spans)
        trace.save(tmp_path / f"{k}.json")
    assert any("times contradict the order" in line for line in open_files(tmp_path).doubts)


def test_ops_that_overlap_on_a_rank_are_told(tmp_path):
    trace = traces.Trace(0, 1, [], "nccl")
    for number, kind in enumerate("FB"):
        trace.add("user_annotation", f"PP:0{kind}0", number * 10, 9)
        trace.launch(number * 10 + 1, 1, "gemm", 100 + number * 50, 200 + number * 50)
    trace.save(tmp_path / "one.json")
    found = ge.load(tmp_path)
    assert found.name.endswith("; ops of a rank overlap")
    assert found.notes[-1].startswith("ops of a rank overlap: for 33.3% of the step")


def test_an_op_that_is_there_twice_is_told(tmp_path):
    true = ge.simulate(ge.one_f_one_b(2, 4), ge.Costs(F=0.01, B=0.02, unit="s"))
    spans = traces.later(true.row(0), 0)
    for place, told in ((1, r"F1@0 comes twice in one step"), (3, r"F2@0 comes twice in one step")):
        again = spans[place]._replace(start=spans[place].end, end=spans[place].end + 10)
        rows = [[*spans[: place + 1], again, *spans[place + 1 :]], traces.later(true.row(1), 0)]
        for k, row in enumerate(rows):
            trace = traces.Trace(k, 2, [])
            traces.on_cpu(trace, row)
            trace.save(tmp_path / f"{k}.json")
        with pytest.raises(ValueError, match=told):
            ge.load(tmp_path)
    trace.events += trace.events[:3]
    trace.save(tmp_path / "1.json")
    with pytest.raises(ValueError, match=r"1.json has “PP:1F0” twice, at the same time"):
        ge.load(tmp_path)


def test_a_rank_that_is_missing_shows_in_the_messages_of_its_neighbours(tmp_path):
    true = ge.simulate(ge.one_f_one_b(3, 4), ge.Costs(F=0.01, B=0.02, unit="s"))
    for k in range(2):
        trace = traces.Trace(k, 3, [])
        traces.on_gpu(trace, traces.later(true.row(k), 0), 3)
        trace.save(tmp_path / f"{k}.json")
    with pytest.raises(ValueError, match="no file has stage 2: give the profiles of all ranks of the pipeline"):
        ge.load(tmp_path)


def test_what_an_op_does_before_it_asks_for_its_message_is_no_work(tmp_path):
    trace = traces.Trace(0, 1, [])
    trace.add("user_annotation", "Forward 0", 0, 100)
    for name, start in (("aten::empty", 1), ("c10d::recv_", 5), ("aten::linear", 80)):
        trace.add("cpu_op", name, start, 10)
    [span] = ge.load(trace.save(tmp_path / "rank0.json")).spans
    assert span.end - span.start == pytest.approx(10e-6)


def test_work_without_operations_is_work_where_a_profile_tells_when_each_wait_ended(tmp_path):
    true = step_with_fault(ge.one_f_one_b(4, 8), [4] * 4, slow_rank=2)
    same(ge.load(traces.save_all(tmp_path / "known", true, quiet=0.3)), true)
    found = ge.load(traces.save_all(tmp_path / "unknown", true, quiet=0.3, transfers=False))
    assert found.bubble_fraction > true.bubble_fraction + 0.3


def test_a_send_that_waits_within_its_op_is_no_work_of_it(tmp_path):
    trace = traces.Trace(0, 1, [])
    trace.add("user_annotation", "PP:0F0", 0, 1000)
    trace.add("cpu_op", "aten::linear", 10, 300)
    trace.add("cpu_op", "c10d::send", 400, 5)
    trace.add("user_annotation", "gloo:send", 405, 590)
    trace.add("user_annotation", "PP:0B0", 2000, 1000)
    trace.add("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 2400, 300)
    trace.add("user_annotation", "gloo:recv", 1500, 600)
    found = ge.load(trace.save(tmp_path / "one.json"))
    assert [(round(span.start * 1e6), round(span.end * 1e6)) for span in found.spans] == [(0, 400), (2100, 3000)]


def test_a_kernel_that_makes_room_for_a_message_is_no_work_of_its_op(tmp_path):
    for name, start in (("ncclDevKernel_SendRecv", 600), ("ncclDevKernel_AllReduce_Sum", 0)):
        trace = traces.Trace(0, 1, [], "nccl")
        trace.add("user_annotation", "PP:0F0", 0, 100)
        trace.launch(1, 1, "fill", 0, 5)
        trace.launch(2, 1, name, 6, 599, stream=20)
        trace.launch(3, 1, "sgemm", 600, 900)
        trace.launch(4, 1, name, 700, 1200, stream=20)
        trace.launch(5, 1, "sgemm", 1201, 1300)
        trace.add("user_annotation", "PP:0B0", 200, 100)
        trace.launch(201, 1, "sgemm", 1400, 1500)
        found = ge.load(trace.save(tmp_path / "one.json"))
        times = [(round(span.start * 1e6), round(span.end * 1e6)) for span in found.spans]
        assert times == [(0, 1300 - start), (1400 - start, 1500 - start)], name


def test_of_a_gpu_marks_alone_are_refused_however_its_backend_is_called(tmp_path):
    for backend, refused in (("nccl", True), ("cpu:gloo,cuda:nccl", True), ("gloo", False)):
        trace = traces.Trace(0, 1, [], backend)
        for number, name in enumerate(["F0", "B0"]):
            trace.add("user_annotation", f"PP:0{name}", 10 * number, 5)
            trace.add("cpu_op", "aten::linear", 10 * number, 5)
        if refused:
            with pytest.raises(ValueError, match="is a trace of a GPU with ops such as"):
                ge.load(trace.save(tmp_path / "one.json"))
        trace.add("user_annotation", "gloo:recv", 0, 0)
        found = open_files(trace.save(tmp_path / "one.json"))
        assert "ops by operations on the CPU" in found.said[0]


def test_marks_without_anything_inside_stand_as_they_are_and_it_is_said(tmp_path):
    trace = traces.Trace(0, 1, [])
    for number, name in enumerate(("PP:0F0", "PP:0B0")):
        trace.add("user_annotation", name, number * 10, 9)
    trace.save(tmp_path / "one.json")
    opened = open_files(tmp_path / "one.json")
    assert [round((span.end - span.start) * 1e6) for span in opened.found.spans] == [9, 9]
    assert any("the bubble is larger than shown" in line for line in opened.said)
    assert "marks as they stand, waits included" in opened.found.name


def test_ops_without_a_stage_in_their_name_have_that_of_their_rank(tmp_path):
    """As ScheduleGPipe names them."""
    true = ge.simulate(ge.gpipe(4, 3), ge.Costs(F=0.01, B=0.02, unit="s"))
    words = {"F": "Forward", "B": "Backward"}
    files = traces.save_all(tmp_path / "a", true, replicas=2, name=lambda op: f"{words[op.kind]} {op.micro_batch}")
    same(ge.load(files), true)
    same(ge.load(files, replica=1), true)
    for file in files:
        about = json.loads(gzip.decompress(file.read_bytes()))
        rank = about.pop("distributedInfo")["rank"]
        if rank % 2 == 0:
            (tmp_path / f"rank{rank}.json").write_text(json.dumps(about))
            (tmp_path / f"{'dcba'[rank // 2]}.json").write_text(json.dumps(about))
    same(ge.load(list(tmp_path.glob("rank*.json"))), true)
    with pytest.raises(ValueError, match="no file says which rank it is of"):
        ge.load(list(tmp_path.glob("?.json")))


def test_pairs_that_run_as_one_are_cut_where_the_backward_begins(tmp_path):
    for gpu in (False, True):
        trace = traces.Trace(0, 1, [], "nccl" if gpu else "gloo")
        times = {"PP:0F0": (0, 10), "PP:(0F1;0B0)OVERLAP_F_B": (10, 50), "PP:0B1": (50, 60)}
        for name, (start, end) in times.items():
            trace.add("user_annotation", name, start, end - start)
        for at, name in ((1, "aten::mm"), (12, "aten::mm"), (35, "autograd::engine::evaluate_function: x"), (51, "y")):
            trace.add("cpu_op", name, at, 8, tid=2 if gpu and at == 35 else 1)
            if gpu:
                trace.launch(at + 1, 2 if at == 35 else 1, "gemm", 1000 + at, 1008 + at)
        file = trace.save(tmp_path / f"{gpu}.json")
        found = [(str(span.op), round(span.start * 1e6), round(span.end * 1e6)) for span in ge.load(file).spans]
        assert found == [("F0@0", 0, 8), ("F1@0", 11, 19), ("B0@0", 34, 42), ("B1@0", 50, 58)]


def test_workers_of_one_process_are_devices_and_a_kernel_s_stream_tells_whose_it_is(tmp_path):
    trace = traces.Trace(0, 1, [], "nccl")
    for tid in (1, 2):
        trace.add("user_annotation", f"PP:{tid - 1}F0", 0, 20, tid)
        trace.launch(5, tid, "gemm", 100 * tid, 100 * tid + 50, stream=tid)
        trace.launch(6, 3, "by autograd's thread", 100 * tid + 50, 100 * tid + 70, stream=tid)
    found = ge.load(trace.save(tmp_path / "one.json"))
    assert [(span.device, str(span.op), round(span.start * 1e6), round(span.end * 1e6)) for span in found.spans] == [
        (0, "F0@0", 0, 70),
        (1, "F0@1", 100, 170),
    ]
    trace.launch(5, 3, "gemm", 100, 150)
    with pytest.raises(ValueError, match="“PP:0F0” and “PP:1F0” ran at once, and which of them launched a kernel"):
        ge.load(trace.save(tmp_path / "one.json"))


def test_a_rank_whose_backwards_run_in_another_thread_is_one_device(tmp_path):
    trace = traces.Trace(0, 1, [])
    for tid, (name, at) in enumerate((("PP:0F0", 0), ("PP:0B0", 50))):
        trace.add("user_annotation", name, at, 20, tid)
        trace.add("cpu_op", "aten::mm", at + 1, 10, tid)
    assert ge.load(trace.save(tmp_path / "one.json")).devices == 1


def test_a_step_that_only_evaluates_is_shown_if_there_is_no_other(tmp_path):
    rows = [[op for op in row if op.kind == "F"] for row in ge.gpipe(2, 3).rows]
    true = ge.gpipe(2, 3)
    spans = [[span for span in ge.simulate(true).row(k) if span.op in rows[k]] for k in range(2)]
    for k in range(2):
        trace = traces.Trace(k, 2, [])
        traces.on_cpu(trace, traces.later(spans[k], 0))
        trace.save(tmp_path / f"{k}.json")
    assert [span.op.kind for span in ge.load(tmp_path).spans] == ["F"] * 6
    for k in range(2):
        trace = traces.Trace(k, 2, [])
        traces.on_cpu(trace, traces.later(ge.simulate(true).row(k), 0) + traces.later(spans[k], 1e9))
        trace.save(tmp_path / f"{k}.json")
    same(ge.load(tmp_path), ge.simulate(true))
    assert open_files(tmp_path).said[-1] == "left out 1 step that is not whole: it only evaluates"


def test_load_trace_takes_one_file_of_another_program_and_refuses_the_rest_as_ever(tmp_path):
    trace = traces.Trace(0, 1, [])
    step = ge.simulate(ge.gpipe(1, 2))
    traces.on_cpu(trace, traces.later(step.row(0), 0))
    same(ge.Timeline.load_trace(trace.save(tmp_path / "one.json.gz")), step)
    trace.about["distributedInfo"]["pg_config"].append({"pg_desc": "mesh_pp", "ranks": [0, 1]})
    with pytest.raises(ValueError, match="no file is of rank 1"):
        ge.Timeline.load_trace(trace.save(tmp_path / "one.json"))
    (tmp_path / "other.json").write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]}')
    with pytest.raises(ValueError, match="is a trace of another program: 1 event"):
        ge.Timeline.load_trace(tmp_path / "other.json")


def test_an_order_of_ops_is_a_schedule_and_our_own_trace_a_timeline(tmp_path):
    schedule = ge.one_f_one_b(2, 4)
    (tmp_path / "mine.txt").write_text(str(schedule))
    assert ge.load(tmp_path / "mine.txt") == schedule
    timeline = ge.simulate(schedule)
    assert ge.load(timeline.save_trace(tmp_path / "plan.json")) == timeline
    for what in ("mine.txt", "plan.json"):
        with pytest.raises(ValueError, match=r"step is 0, and .* has no steps to choose from"):
            ge.load(tmp_path / what, step=0)
    with pytest.raises(ValueError, match=r"mine.txt is an order of ops, .* plan.json is a trace that gpipe_edu saved"):
        ge.load([tmp_path / "mine.txt", tmp_path / "plan.json"])
    with pytest.raises(ValueError, match=r"mine.txt is an order of ops, and no trace"):
        read_profiles([tmp_path / "mine.txt"])


def test_every_refusal_says_what_the_file_is(tmp_path):
    zipped = gzip.compress(b'{"traceEvents": []}')
    for name, content, told in (
        ("a.json", b"", "a.json is empty"),
        ("a.json", b"  \n", "a.json is empty"),
        ("a.json", b'{"a": 1}', "a.json is JSON of something else, an object with “a”"),
        ("a.json", b"{}", "an object with nothing"),
        ("a.json", b'{"traceEvents": [', "a.json begins as JSON but cannot be read to its end"),
        ("a.json", b'{"traceEvents": [{"ph": "X", "na', "was cut off or changed"),
        ("a.csv", "0F0,0B0".encode("utf-16"), r"a.csv is a text in UTF-16 \(save it as UTF-8\)"),
        ("a.json", b'{"traceEvents": 3}', "an object with “traceEvents”"),
        ("a.json", b'[{"a": 1}]', "a.json is a trace of 0 events, and none of them is named as an op"),
        ("a.json.gz", zipped[:-12], "a.json.gz"),
        ("a.json.gz", zipped, "a.json.gz is a trace of 0 events"),
        ("a.pt", b"PK\x03\x04\0\0", "a.pt is a zip archive, as torch.save writes, and nothing that can be opened"),
        ("a.sqlite", b"SQLite format 3\0", "a database of Nsight Systems"),
        ("a.bin", b"\x00\xff\x00", "a.bin is no text"),
        ("a.txt", "naïve".encode("latin-1"), "a.txt is no text"),
        ("a.txt", b"hello there", "a.txt, a text read as an order of ops: line 1"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="^" + told.replace(".", r"\.") if told.startswith("a.") else told):
            ge.load(tmp_path / name)
    with pytest.raises(ValueError, match="no file was given"):
        ge.load([])
    with pytest.raises(OSError, match="none"):
        ge.load(tmp_path / "none.json")
    with pytest.raises(ValueError, match="is a folder, among other files"):
        ge.load([tmp_path, tmp_path / "a.json"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty is an empty folder"):
        ge.load(tmp_path / "empty")


def test_what_is_refused_comes_with_the_lines_that_put_it_there(tmp_path):
    trace = traces.Trace(0, 1, [])
    trace.add("cpu_op", "aten::mm", 1, 1)
    with pytest.raises(ValueError, match=r"(?s)Schedule1F1B names none.*record_function\(f\"PP:.*_load_csv"):
        ge.load(trace.save(tmp_path / "one.json"))
    trace.add("user_annotation", "PP:0F0", 1, 1)
    trace.about["distributedInfo"]["backend"] = "nccl"
    with pytest.raises(ValueError, match=r"(?s)when the host launched work.*\n.*ProfilerActivity.CUDA"):
        ge.load(trace.save(tmp_path / "one.json"))


def test_a_folder_may_hold_other_files_and_folders(tmp_path):
    true = ge.simulate(ge.one_f_one_b(2, 4), ge.Costs(F=0.01, B=0.02, unit="s"))
    for iteration in (9, 10):
        traces.save_all(tmp_path / "profile" / f"iteration_{iteration}", true, steps=iteration - 8)
    (tmp_path / "profile" / "iteration_10" / "config.json").write_text('{"layers": 3}')
    (tmp_path / "profile" / "iteration_10" / "log.txt").write_text("step 1")
    opened = open_files(tmp_path / "profile")
    assert len(opened.steps) == 2
    assert opened.said[0] == "of the 2 folders in profile this is the last, iteration_10"
    assert opened.said[1].startswith("left out: config.json is JSON of something else")


def test_in_a_folder_texts_without_ops_are_left_out_and_said(tmp_path):
    for name, text in (("readme.txt", "how it was measured"), ("notes.txt", "step 1")):
        (tmp_path / name).write_text(text)
    with pytest.raises(
        ValueError, match=r"holds no file that can be opened, left out: notes\.txt is a text without ops"
    ):
        open_files(tmp_path)
    (tmp_path / "rows.txt").write_text("F0 B0\nF0 B0")
    opened = open_files(tmp_path)
    assert opened.said[:2] == tuple(f"left out: {name}.txt is a text without ops" for name in ("notes", "readme"))
    assert len(opened.found.rows) == 2
    (tmp_path / "more.txt").write_text("F0 B0")
    with pytest.raises(ValueError, match=r"more\.txt is an order of ops, .*, rows\.txt is an order of ops"):
        open_files(tmp_path)


def test_beside_traces_what_is_none_is_left_out_and_said(tmp_path):
    true = ge.simulate(ge.one_f_one_b(2, 4))
    traces.save_all(tmp_path, true)
    for name, content in (("events", "[]"), ("text", "no trace"), ("list", "[1, 2]")):
        (tmp_path / f"{name}.json").write_text(content)
    opened = open_files(tmp_path)
    same(opened.found, true)
    assert opened.said[:3] == (
        "left out: events.json is a trace without ops of a pipeline",
        "left out: list.json is no trace",
        "left out: text.json is no trace",
    )
    with pytest.raises(ValueError, match="none of them is named as an op"):
        ge.load(tmp_path / "events.json")
    for file in [*tmp_path.glob("*.gz"), tmp_path / "text.json", tmp_path / "list.json"]:
        file.unlink()
    with pytest.raises(ValueError, match="none of them is named as an op"):
        ge.load(tmp_path)


def test_of_a_step_with_an_op_twice_that_is_said_and_not_what_follows(tmp_path):
    trace = traces.Trace(0, 1, [])
    ops = ["F0", "F1", "B0", "B1"]
    for number, name in enumerate([*ops, *ops, "F0", "F1", "F1", "B0", "B1"]):
        trace.add("user_annotation", f"PP:0{name}", 10 * number, 5)
        trace.add("cpu_op", "aten::linear", 10 * number, 5)
    opened = open_files(trace.save(tmp_path / "one.json"))
    assert len(opened.steps) == 2
    assert opened.said[-1] == "left out 2 steps that are not whole: on one.json F1@0 comes twice in one step"


def test_megatrons_timer_with_several_chunks_and_replicas(tmp_path):
    true = ge.simulate(ge.interleaved(2, 4, V=2), ge.Costs(F=0.01, B=0.02, unit="s"))
    words = {"F": "forward", "B": "backward"}

    def write(folder, replica, k, drop=None):
        times = {}
        for _, op, start, end in true.row(k):
            key = f"{words[op.kind]}-{op.stage // 2}-{op.micro_batch}"
            times |= {f"{key}-start": start * 1e3, f"{key}-end": end * 1e3}
        times.pop(drop, None)
        folder.mkdir(exist_ok=True)
        name = f"event_times_PP2_VPP2_TPxCPxDP_rank_{replica}_pp_rank_{k}_rank_{replica * 2 + k}.json"
        (folder / name).write_text(json.dumps(times))

    for replica in range(2):
        for k in range(2):
            write(tmp_path / "all", replica, k)
    same(ge.load(tmp_path / "all"), true)
    same(ge.load(tmp_path / "all", replica=1), true)
    write(tmp_path / "one", 0, 0)
    with pytest.raises(ValueError, match=r"has 2 ranks by the names of the files, and no file is of pipeline rank 1"):
        ge.load(tmp_path / "one")
    write(tmp_path / "one", 0, 1, drop="backward-1-3-end")
    with pytest.raises(ValueError, match="B3@3 has no end; the step was cut off there"):
        ge.load(tmp_path / "one")
    (tmp_path / "times.json").write_text('{"forward-0-start": 1, "forward-0-end": 2}')
    with pytest.raises(ValueError, match="its name does not say of which rank"):
        ge.load(tmp_path / "times.json")
