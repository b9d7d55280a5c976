"""A trace read piece by piece is what json reads at once, wherever a piece ends."""

import gzip
import json

import pytest

from gpipe_edu.timeline.opened import trace_file
from gpipe_edu.timeline.opened.trace_file import BASE, CutOffError, TraceFile

ABOUT = {"schemaVersion": 1, BASE: 12345678, "distributedInfo": {"rank": 3, "x": [1, 2.5e3, None, "] }"]}, "empty": []}
EVENTS = [{"ph": "X", "name": f'a"b\\{{[,]}}é{n}', "ts": n + 0.125, "args": {"list": [n, [n]]}} for n in range(9)]


@pytest.fixture(params=[1, 7, 64, 1 << 20])
def pieces(request, monkeypatch):
    """How many characters are read at first."""
    monkeypatch.setattr(trace_file, "_CHUNK", request.param)


def read(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    file = TraceFile(path)
    return list(file), file


def test_events_and_what_stands_before_and_behind_them(tmp_path, pieces):
    for indent in (None, 2):
        for content in (
            {**ABOUT, "traceEvents": EVENTS},
            {"traceEvents": EVENTS, **ABOUT},
            {"traceEvents": [], **ABOUT, "last": 42},
            {**ABOUT, "last": -7},
        ):
            for name in ("a.json", "a.json.gz"):
                events, file = read(tmp_path / name, "\ufeff \n" + json.dumps(content, indent=indent))
                assert events == content.get("traceEvents", [])
                assert file.has_events == ("traceEvents" in content)
                assert file.about == {key: value for key, value in content.items() if key != "traceEvents"}


def test_a_list_of_events_and_a_list_of_traces(tmp_path, pieces):
    events, file = read(tmp_path / "a.json", json.dumps(EVENTS))
    assert (events, file.has_events, file.about) == (EVENTS, True, {})
    later = {BASE: ABOUT[BASE] + 5000, "traceEvents": [{"ph": "X", "ts": 1.0, "pid": 7}]}
    events, file = read(tmp_path / "a.json", json.dumps([{**ABOUT, "traceEvents": [EVENTS[0] | {"pid": 7}]}, later]))
    assert [event["pid"] for event in events] == [(0, 7), (1, 7)], "processes of two traces are two"
    assert [event["ts"] for event in events] == [0.125, 6.0], "counted from one base"
    assert file.about == ABOUT


def test_wherever_a_file_is_cut_off_it_is_told(tmp_path, pieces):
    text = json.dumps({**ABOUT, "traceEvents": EVENTS})
    for end in range(1, len(text), 5):
        with pytest.raises(CutOffError, match=r"a\.json begins as JSON but cannot be read to its end"):
            read(tmp_path / "a.json", text[:end])
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(text.encode())[:-20])
    with pytest.raises(CutOffError):
        list(TraceFile(tmp_path / "a.json.gz"))


def test_a_file_of_one_endless_value_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_file, "_CHUNK", 100)
    monkeypatch.setattr(trace_file, "_MOST", 1000)
    with pytest.raises(CutOffError):
        read(tmp_path / "a.json", '{"a": "' + "x" * 5000 + '"}')
    assert read(tmp_path / "a.json", json.dumps({"traceEvents": EVENTS * 100}))[0] == EVENTS * 100
