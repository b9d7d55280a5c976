"""A trace read piece by piece is what json reads at once, wherever a piece ends."""

import gzip
import json

import pytest

from gpipe_edu.base import bounded
from gpipe_edu.base.bounded import TooMuchError
from gpipe_edu.timeline.opened import trace_file
from gpipe_edu.timeline.opened.refusals import NoRunError
from gpipe_edu.timeline.opened.trace_file import BASE, CutOffError, TraceFile

ABOUT = {"schemaVersion": 1, BASE: 12345678, "distributedInfo": {"rank": 3, "x": [1, 2.5e3, None, "] }"]}, "empty": []}
EVENTS = [{"ph": "X", "name": f'a"b\\{{[,]}}é{n}', "ts": n + 0.125, "args": {"list": [n, [n]]}} for n in range(9)]


@pytest.fixture(params=[1, 7, 64, 1 << 20])
def pieces(request, monkeypatch):
    """How many characters are read at first."""
    monkeypatch.setattr(bounded, "_PIECE", request.param)


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
    monkeypatch.setattr(bounded, "_PIECE", 100)
    monkeypatch.setattr(trace_file, "_MOST", 1000)
    with pytest.raises(TooMuchError, match=r"^a\.json has a longer value than any trace"):
        read(tmp_path / "a.json", '{"a": "' + "x" * 5000 + '"}')
    with pytest.raises(TooMuchError, match=r"^a\.json has more blanks than any trace"):
        read(tmp_path / "a.json", '{"a": 1' + " " * 5000 + "}")
    assert read(tmp_path / "a.json", json.dumps({"traceEvents": EVENTS * 100}))[0] == EVENTS * 100


def test_a_list_of_long_traces_is_read_event_by_event(tmp_path, monkeypatch):
    """Each is then more than is held at once."""
    bases = [{BASE: base * 1000, "traceEvents": EVENTS * 50, "name": str(base)} for base in (4, 9)]
    path, text = tmp_path / "a.json", json.dumps([EVENTS[0], *bases])
    at_once, file = read(path, text)
    monkeypatch.setattr(bounded, "_PIECE", 1000)
    monkeypatch.setattr(trace_file, "_SHORT", 2000)
    monkeypatch.setattr(trace_file, "_MOST", 5000)
    events, again = read(path, text)
    assert events == at_once
    assert again.about == file.about == {BASE: 4000, "name": "4"}
    assert events[-1]["ts"] == EVENTS[-1]["ts"] + 5
    with pytest.raises(NoRunError, match="say only behind their events what their times are counted from"):
        read(path, json.dumps([bases[0], {"traceEvents": EVENTS * 50, BASE: 9000}]))
