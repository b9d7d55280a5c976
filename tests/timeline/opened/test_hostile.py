"""Whatever a file holds, the answer is a sentence, and what it takes is counted before it is built."""

import gzip
import json
import tracemalloc
import zlib

import pytest

import gpipe_edu as ge
from gpipe_edu.base import bounded
from gpipe_edu.base.bounded import TooMuchError
from gpipe_edu.timeline import trace
from gpipe_edu.view.gantt.page import open_traces
from tests.each import each

EVENT = '{"ph":"X","name":"%s","ts":%s,"dur":2,"pid":1,"tid":1}'


def trace_of(*events, about=""):
    return "{" + about + '"traceEvents":[' + ",".join(events) + "]}"


def op(name="PP:0F0", ts=1, **more):
    return json.dumps({"ph": "X", "name": name, "ts": ts, "dur": 2, "pid": 1, "tid": 1} | more)


TIMER = "event_times_PP{}_VPP1_TPxCPxDP_rank_0_pp_rank_0_rank_0.json"
LONG = 10**400

HOSTILE = [
    ("a.json", trace_of(op("PP:99999999999F3")), r"has “PP:99999999999F3”, and what is opened here has at most 4096"),
    ("a.json", trace_of(op("PP:0F99999999999")), "at most 4096 stages and 65536 micro-batches"),
    ("a.json", trace_of(op(ts=LONG)), r"has “PP:0F0” without a time, or with one that no clock shows"),
    ("a.json", trace_of(op(), op("PP:0B0", LONG)), r"has “PP:0B0” without a time"),
    ("a.json", trace_of(EVENT % ("PP:0F0", "1" + "0" * 5000)), "a number of thousands of digits"),
    ("a.json", trace_of(EVENT % ("PP:0F0", "1e999")), "one that no clock shows"),
    ("a.json", trace_of(op(dur=-1)), "one that no clock shows"),
    ("a.json", trace_of(op("one by one <b>\x1b[31m" + "q" * 9000)), r"ops, such as “one by one <b>\\x1b\[31mq+\.\.\.”"),
    (
        "a.json",
        trace_of(op(), '{"args":' + "[" * 10_000 + "]" * 10_000 + "}"),
        "nested more than 64 deep, and no file of its kind is",
    ),
    ("a.json", '{"a":' * 10_000, "nested more than 64 deep"),
    ("a.json", '{"a":' * 10, "begins as JSON but cannot be read"),
    ("a.json", "[{" * 5000, "nested more than 64 deep"),
    ("a.json", trace_of(*["0"] * 1002), "more that is no event than any trace"),
    ("a.json", trace_of(*["{}"] * 100_002), "many events that say nothing"),
    ("a.json", trace_of(*[op(cat="cpu_op", pid=n) for n in range(20_002)]), "more processes or threads than any trace"),
    ("a.json", "{" + ",".join(f'"{n}":0' for n in range(200_002)) + "}", "more besides its events than any trace"),
    (TIMER.format(2**29), '{"forward-0-start":1,"forward-0-end":2}', "536870912 ranks by the names .* no file is of"),
    (TIMER.format(1), f'{{"forward-0-start":1,"forward-0-end":1{"0" * 400}}}', "it must be a time in milliseconds"),
    (TIMER.format(1), '{"forward-999999999-start":1,"forward-999999999-end":2}', "at most 4096 stages and 65536"),
    ("a.txt", "F0@999999999 B0@999999999", r"F0@999999999 is beyond the 4,096 stages and 65,536 micro-batches"),
    ("a.txt", "F0 " + "x" * 9000, r'cannot read "x+\.\.\."'),
    ("a.txt", "-1 " * 20_000 + "x", 'cannot read "-1"'),
    ("a.txt", "[[1, 2]" + " " * 20_000 + "x", "cannot read"),
    ("a.txt", "E" + "|" * 20_000 + "x", "cannot read"),
    ("a.txt", "Et*999999999|L", "999,999,999|letters long"),
    ("a.csv", "0F0,0F99999999999", "cannot read"),
]


@each("name, text, says", HOSTILE)
def test_a_hostile_file_is_refused_in_a_sentence(tmp_path, name, text, says):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=says) as caught:
        ge.load(tmp_path / name)
    told = str(caught.value).partition("\n")[0]
    assert len(told) <= 500
    assert told.isprintable()


@each("name, text, says", [row for row in HOSTILE if row[0] == "a.json"])
def test_so_is_one_that_a_page_opens(name, text, says):
    with pytest.raises(ValueError, match=r"a\.json") as caught:  # what is no run is told as a trace of another program
        open_traces([(name, text.encode())], [])
    assert len(str(caught.value).partition("\n")[0]) <= 500


@each("name", ["../../x.json", "a/b.json", "x" * 300 + ".json", "a\0b.json", "", "..", "\x1b[31m<b>.json", "文" * 200])
def test_a_page_may_call_a_file_as_it_likes(name):
    content = trace_of(op(), op("PP:0B0", 5)).encode()
    assert open_traces([(name, content)], [])["source"] == "measured"
    with pytest.raises(ValueError, match="begins as JSON") as caught:
        open_traces([(name, b"{")], [])
    assert "\x1b" not in str(caught.value)


def test_what_an_odd_field_holds_does_not_matter(tmp_path):
    about = f'"baseTimeNanoseconds":{LONG},"distributedInfo":{{"rank":1e9,"world_size":{LONG},"backend":[[1]],'
    about += '"pg_config":[{"pg_desc":[1],"ranks":3},{"pg_desc":"mesh_pp","ranks":[{},1]}]},'
    events = (
        op(),
        op("PP:0B0", 5),
        op("aten::mm", 1, cat=[1]),
        op("x", 1, pid=[1]),
        op(3, 1),
        op(tid={}),
        op(args=[1]),
    )
    (tmp_path / "a.json").write_text(trace_of(*events[:3], *events[4:5], about=about))
    assert len(ge.load(tmp_path / "a.json").spans) == 2


def test_few_ops_with_large_numbers_lack_only_so_many_others():
    """60,000 micro-batches of one stage and one of 4,000 stages lack 240 million ops."""
    text = " ".join(f"F{m}" for m in range(60_000)) + "\n" + "\n".join(f"F0@{k}" for k in range(1, 4000))
    assert len(ge.Schedule.parse(text).problems()) == 10_000


def packed(unit, times, before=b""):
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    return squeeze.compress(before + unit * times) + squeeze.flush()


def test_what_unpacks_to_more_than_its_size_explains_is_given_up_before_it_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded, "_FREELY", 1 << 20)
    file = tmp_path / "a.json.gz"
    for content, says in (
        (packed(b" ", 30_000_000, b"{"), "more blanks|unpacks to much more"),
        (packed(b"a", 30_000_000, b'{"a":"'), "a longer value|unpacks to much more"),
        (packed(EVENT.encode() % (b"x", b"1") + b",", 100_000, b'{"traceEvents":['), "unpacks to much more"),
        (gzip.compress(b'{"traceEvents":[') + gzip.compress(b" ") * 1100, "in more parts"),
    ):
        file.write_bytes(content)
        tracemalloc.start()
        with pytest.raises(TooMuchError, match=says):
            ge.load(file)
        assert tracemalloc.get_traced_memory()[1] < 20e6
        tracemalloc.stop()


def test_an_honest_file_in_several_packed_parts_is_read(tmp_path):
    text = trace_of(op(), op("PP:0B0", 5)).encode()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(text[:50]) + gzip.compress(text[50:]) + b"\0\0")
    assert len(ge.load(tmp_path / "a.json.gz").spans) == 2


def test_own_traces_hold_what_they_must(tmp_path):
    path = ge.simulate(ge.gpipe(2, 2)).save_trace(tmp_path / "a.json")
    content = path.read_text()
    for old, new, says in (
        ('"start":0.0', '"start":1' + "0" * 400, "a number of 401 digits"),
        ('"start":0.0', '"start":1e300', "“start” of event \\d+ must be a time"),
        ('"name":"gpipe"', '"name":"\\u001b[31m"', "its “name” must be a text of at most 500 printable characters"),
        ('"name":"gpipe"', '"name":' + "[" * 100 + "]" * 100, "nested more than 64 deep"),
    ):
        assert old in content
        path.write_text(content.replace(old, new, 1))
        with pytest.raises(ValueError, match=says):
            ge.Timeline.load_trace(path)
    with pytest.raises(TooMuchError, match="more values than any file of its kind"):
        trace.read(b"[" + b'{"":0},' * 900_000 + b"0]", "a.json")


def test_a_device_or_a_pipe_is_no_file(tmp_path):
    with pytest.raises(ValueError, match="zero is a device or a pipe, and no file"):
        bounded.read_text(bounded.Path("/dev/zero"))
