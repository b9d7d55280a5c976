"""The Chrome trace: JSON that other tools open, with every op at its time."""

import json

import pytest

import gpipe_edu as ge
from gpipe_edu import Costs, Span, Timeline
from tests.recipes import small_schedules

MICROSECONDS = {"": 1e3, "s": 1e6}


def saved(timeline, tmp_path):
    return json.loads(timeline.save_trace(tmp_path / "trace.json").read_text())["traceEvents"]


def as_measured(timeline):
    spans = [Span(span.device, span.op, 7.25 + span.start / 8, 7.25 + span.end / 8) for span in timeline.spans]
    return Timeline(spans, timeline.devices, source="measured", unit="s")


def test_every_op_is_one_complete_event_at_its_time_on_its_thread(tmp_path):
    for schedule in small_schedules(3, 3):
        planned = ge.simulate(schedule, Costs(F=3, B=5, send=1))
        for timeline in (planned, as_measured(planned)):
            scale = MICROSECONDS[timeline.unit]
            found = [
                (e["tid"], e["args"]["kind"][:1], e["args"]["micro_batch"], e["args"]["stage"], e["ts"], e["dur"])
                for e in saved(timeline, tmp_path)
                if e["ph"] == "X"
            ]
            names = {"F": "f", "B": "b", "R": "r", "C": "c", "I": "i", "W": "w"}
            expected = [
                (s.device, names[s.op.kind], s.op.micro_batch, s.op.stage, s.start * scale, (s.end - s.start) * scale)
                for s in timeline.spans
            ]
            assert sorted(found) == sorted(expected)


def test_every_wait_for_another_device_is_an_arrow_from_its_end_to_the_start(tmp_path):
    schedule = ge.interleaved(2, 4, 2)
    timeline = ge.simulate(schedule, Costs(send=1))
    trace = saved(timeline, tmp_path)
    tails = {e["id"]: (e["tid"], e["ts"]) for e in trace if e["ph"] == "s"}
    tips = {e["id"]: (e["tid"], e["ts"]) for e in trace if e["ph"] == "f"}
    span_of = {span.op: span for span in timeline.spans}
    expected = sorted(
        ((span_of[need].device, span_of[need].end * 1e3), (span.device, span.start * 1e3))
        for span in timeline.spans
        for need in schedule.needs(span.op)
        if span_of[need].device != span.device
    )
    assert sorted((tails[number], tips[number]) for number in tails | tips) == expected
    assert len(expected) == 2 * 4 * 3


def test_every_message_is_on_its_link_from_start_to_end(tmp_path):
    timeline = ge.simulate(ge.gpipe(3, 4), Costs(link=2, send=1))
    trace = saved(timeline, tmp_path)
    begun, ended = ([(e["id"], e["name"], e["ts"]) for e in trace if e["ph"] == ph] for ph in "be")
    assert len(begun) == len(ended) == 2 * 2 * 4
    assert [(link, name) for link, name, _ in begun] == [(link, name) for link, name, _ in ended]
    assert all(end - start == 2e3 for (*_, start), (*_, end) in zip(begun, ended, strict=True))
    assert ("link 0 to 1", "F0 on link 0 to 1", 1e3) in begun


def test_devices_have_names_and_the_process_says_whether_it_is_planned(tmp_path):
    timeline = ge.simulate(ge.gpipe(3, 2))
    meta = [e for e in saved(timeline, tmp_path) if e["ph"] == "M"]
    assert [(e["tid"], e["args"]["name"]) for e in meta if e["name"] == "thread_name"] == [
        (0, "device 0"), (1, "device 1"), (2, "device 2")
    ]  # fmt: skip
    assert [e["args"]["name"] for e in meta if e["name"] == "process_name"] == ["gpipe (planned)"]
    (process,) = [e for e in saved(as_measured(timeline), tmp_path) if e["name"] == "process_name"]
    assert process["args"]["name"] == "pipeline (measured)"


def test_the_counters_are_the_micro_batches_in_flight(tmp_path):
    timeline = ge.simulate(ge.one_f_one_b(3, 4))
    trace = saved(timeline, tmp_path)
    for device in range(3):
        found = [
            (e["ts"], e["args"]["micro-batches"])
            for e in trace
            if e["ph"] == "C" and e["name"].endswith(f"device {device}")
        ]
        assert found == [(time * 1e3, count) for time, count in timeline.in_flight[device]]


def test_every_event_has_what_the_format_asks_for(tmp_path):
    for event in saved(ge.simulate(ge.zero_bubble(3, 4)), tmp_path):
        assert event["ph"] in "MCXsf"
        assert event["pid"] == 0
        assert event["name"]
        if event["ph"] != "M":
            assert event["ts"] >= 0
        if event["ph"] in "Xsf":
            assert event["tid"] in range(3)


def test_saving_takes_text_or_a_path_and_returns_the_path(tmp_path):
    timeline = ge.simulate(ge.gpipe(1, 1))
    path = timeline.save_trace(str(tmp_path / "a.json"))
    assert path == tmp_path / "a.json"
    assert path.exists()


@pytest.mark.parametrize("path", [None, 3, ["a.json"]])
def test_what_is_no_path_is_a_type_error(path):
    with pytest.raises(TypeError):
        ge.simulate(ge.gpipe(1, 1)).save_trace(path)
