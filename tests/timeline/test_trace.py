"""A saved trace read back: the same timeline, and one sentence for every file that is none."""

import json
import os
import re

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu import Costs, Span, Timeline
from gpipe_edu import reference as ref
from gpipe_edu.timeline.diagram import read_diagram
from gpipe_edu.timeline.trace import MOST_MEGABYTES, read
from tests.each import each
from tests.recipes import small_schedules


def back(timeline, tmp_path):
    return Timeline.load_trace(timeline.save_trace(tmp_path / "trace.json"))


def everything(timeline):
    return (
        timeline.spans,
        timeline.devices,
        timeline.name,
        timeline.source,
        timeline.unit,
        timeline.send,
        timeline.messages,
    )


def test_every_planned_timeline_comes_back_to_the_last_digit(tmp_path):
    for schedule in small_schedules(3, 3):
        planned = ge.simulate(schedule, Costs(F=1 / 3, B=0.7, send=0.1, link=schedule.micro_batches // 2 / 7))
        read = back(planned, tmp_path)
        assert everything(read) == everything(planned)
        assert read.in_flight == planned.in_flight, "an end that comes back a digit later would hold memory longer"


@pytest.mark.parametrize(
    ("field", "wrong", "allowed"),
    [
        ("target", 2, "a device, a whole number from 0 to 1"),
        ("there", 0, "a time after the end"),
        ("end", 0, "a time after the start"),
        ("micro_batch", -1, "a whole number from 0 to 65535"),
    ],
)
def test_a_damaged_message_is_named(field, wrong, allowed, tmp_path):
    path = ge.simulate(ge.gpipe(2, 1), Costs(link=1)).save_trace(tmp_path / "a.json")
    content = json.loads(path.read_text())
    number, event = next((n, e) for n, e in enumerate(content["traceEvents"]) if e["ph"] == "b")
    event["args"][field] = wrong
    with pytest.raises(ValueError, match=re.escape(f"the “{field}” of event {number} must be {allowed}")):
        read(json.dumps(content).encode(), "a.json")


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
    with torch.profiler.profile(acc_events=True) as profile:  # else PyTorch 2.11 warns
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


@pytest.mark.parametrize(
    "timeline",
    [
        read_diagram("F0 F1 B0 B1\nF0 B0 F1 . B1"),
        Timeline([Span(0, ge.Op("F", 0, 0), 0, 1), Span(2, ge.Op("F", 0, 1), 2, 4)], 3),
        Timeline([Span(0, ge.Op("F", 1199, 77), 0, 1e7 / 7), Span(0, ge.Op("B", 0, 1), 2e7, 1e8)], 1),
        ge.simulate(ge.gpipe(2, 2), Costs(F=0, B=0)),
    ],
    ids=["impossible", "an idle device", "large numbers", "no time at all"],
)
def test_what_no_pipeline_would_do_comes_back_too(timeline, tmp_path):
    assert everything(back(timeline, tmp_path)) == everything(timeline)


EVENT = '{"ph":"X","name":"aten::mm","ts":1,"dur":2}'
ABOUT = '"otherData":{"program":"gpipe_edu","format":1,"name":"","source":"planned","unit":"","send":0,"devices":1}'
OP = '{"ph":"X","tid":0,"args":{"kind":"forward","micro_batch":0,"stage":0,"start":0,"end":1}}'
ONE = f'{{{ABOUT},"traceEvents":[{OP}]}}'
OPEN = "; open what gpipe_edu saved as a Chrome trace"
KINDS = "forward, backward, recompute, checkpointed backward, input gradient, weight gradient"


def test_the_smallest_trace_is_read():
    assert read(ONE.encode(), "a.json").spans == (Span(0, ge.Op("F", 0, 0), 0, 1),)


@each(
    "says, files",
    [
        (f"is empty{OPEN}", [b"", b" \n\t ", b"\xef\xbb\xbf"]),
        (f"is no text{OPEN}", [b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"]),
        (f"is no JSON{OPEN}", [b"F0 F1 B1 B0", b"nothing but {"]),
        (
            "begins as JSON but cannot be read to its end: it was cut off or changed",
            [ONE[:100].encode(), ONE[:-1].encode(), (ONE + "}").encode(), b'{"a":NaN}', b"[" * 60],
        ),
        ("is nested more than 64 deep, and no file of its kind is", [b"[" * 2000, b"[" * 65 + b"]" * 65]),
        (f"is JSON of something else, an empty object{OPEN}", [b"{}"]),
        (f"is JSON of something else, an object with “traceEvents”{OPEN}", [b'{"traceEvents":{}}']),
        (f"is JSON of something else, an object with “only”{OPEN}", [b'{"only":1}']),
        (
            f"is JSON of something else, an object with “10”, “2”, “__proto__” and more{OPEN}",
            [b'{"cells":[],"metadata":{},"nbformat":4,"__proto__":1,"2":1,"10":1}'],
        ),
        (f"is a trace of another program: 0 events and none of gpipe_edu{OPEN}", [b"[]"]),
        (f"is a trace of another program: 4 events and none of gpipe_edu{OPEN}", [b'[1,null,[],"x"]']),
        (
            f"is a trace of another program: 1 event, such as “aten::mm”, and none of gpipe_edu{OPEN}",
            [f"[{EVENT}]".encode()],
        ),
        (
            f"is a trace of another program: 4 events, such as “aten::mm” and “third”, and none of gpipe_edu{OPEN}",
            [f'{{"traceEvents":[{EVENT},{EVENT},{{"name":"third"}},{{"name":"last"}}]}}'.encode()],
        ),
        (
            f"is a trace of another program: 2 events, such as “{('long' * 10)[:37]}...”, and none of gpipe_edu{OPEN}",
            [f'{{"traceEvents":[{{"name":"{"long" * 30}"}},{{"name":5}}],"otherData":{{"program":"x"}}}}'.encode()],
        ),
        (
            f"is a trace of another program: 1 event and none of gpipe_edu{OPEN}",
            [f'{{"otherData":[],"traceEvents":[{OP}]}}'.encode()],
        ),
        ("is damaged: it has no ops; save it anew", [f'{{{ABOUT},"traceEvents":[]}}'.encode()]),
        (
            "is damaged: F0@0 is in it twice; save it anew",
            [f'{{{ABOUT},"traceEvents":[1,null,{OP},{OP}]}}'.encode()],
        ),
    ],
)
def test_what_is_no_trace_is_refused_in_one_sentence(says, files):
    for data in files:
        with pytest.raises(ValueError, match=f"^{re.escape(f'a.json {says}')}$"):
            read(data, "a.json")


@each(
    "says, right, wrongs",
    [
        (
            f"is damaged: the “kind” of event 0 must be one of {KINDS}; save it anew",
            '"forward"',
            ['"sideways"', "5", "null", '"toString"'],
        ),
        (
            f"is damaged: the “kind” of event 0 must be one of {KINDS}; save it anew",
            OP,
            [OP.replace('"args"', '"arg"'), '{"ph":"X","tid":0,"args":[]}'],
        ),
        (
            "is damaged: the “micro_batch” of event 0 must be a whole number from 0 to 65535; save it anew",
            '"micro_batch":0',
            ['"micro_batch":-1', '"micro_batch":0.5', '"micro_batch":65536', '"m":0'],
        ),
        (
            "is damaged: the “stage” of event 0 must be a whole number from 0 to 4095; save it anew",
            '"stage":0',
            ['"stage":"0"', '"stage":1e9', '"stage":true', '"s":0'],
        ),
        (
            "is damaged: the “tid” of event 0 must be a device, a whole number from 0 to 0; save it anew",
            '"tid":0',
            ['"tid":1', '"tid":null', '"t":0'],
        ),
        (
            "is damaged: the “start” of event 0 must be a time; save it anew",
            '"start":0',
            ['"start":1e999', '"start":null', '"start":1e18'],
        ),
        (
            "is damaged: the “end” of event 0 must be a time after the start; save it anew",
            '"start":0',
            ['"start":2'],
        ),
        (
            "is a trace in a format that this gpipe_edu cannot read; update it, or save it anew",
            '"format":1',
            ['"format":2', '"f":1', '"format":1.5'],
        ),
        (
            "is damaged: its “name” must be a text of at most 500 printable characters; save it anew",
            '"name":""',
            ['"name":null', '"n":""', '"name":"\\u001b[31m"', f'"name":"{"q" * 501}"'],
        ),
        (
            "is damaged: its “source” must be one of planned, replayed, measured, drawn; save it anew",
            '"planned"',
            ['"dreamt"', "0"],
        ),
        ("is damaged: its “unit” must be “s” or empty; save it anew", '"unit":""', ['"unit":"ms"', '"unit":[]']),
        (
            "is damaged: its “send” must be a time; save it anew",
            '"send":0',
            ['"send":-1', '"send":"0"', '"send":false'],
        ),
        (
            "is damaged: its “devices” must be a number from 1 to 1024; save it anew",
            '"devices":1',
            ['"devices":0', '"devices":1025', '"devices":1.5', '"devices":true'],
        ),
    ],
)
def test_one_wrong_field_is_named_with_what_it_must_be(says, right, wrongs):
    assert right in ONE
    for wrong in wrongs:
        with pytest.raises(ValueError, match=f"^{re.escape(f'a.json {says}')}$"):
            read(ONE.replace(right, wrong).encode(), "a.json")
