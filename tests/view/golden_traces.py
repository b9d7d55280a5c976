"""What a saved trace must become, and why other files are refused: read by Python and by the page, and the same twice.

    python -m tests.view.golden_traces      writes tests/view/golden_traces.json anew, after a change that is meant

Python's tests hold the file against trace.py and spec.py, node's tests hold it against trace.js and trace_spec.js.
"""

from __future__ import annotations

import base64
import json
import random
import tempfile
from pathlib import Path

import gpipe_edu as ge
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.timeline.diagram import read_diagram
from gpipe_edu.timeline.trace import read
from gpipe_edu.view.gantt.spec import specs

FILE = Path(__file__).with_name("golden_traces.json")
UNEVEN = ge.Costs(F=[1 / 3, 2, 1.5, 0.7], B=[2, 3, 5, 1.4], send=0.1)


def noisy(timeline: Timeline, size: float, send: float = 0) -> Timeline:
    """The timeline as if it had been measured: later by nanoseconds here and there, which no plan is."""
    dice = random.Random(7)
    spans = []
    for device in range(timeline.devices):
        late = 0.0
        for span in timeline.row(device):
            late += dice.random() * 0.05
            spans.append(Span(device, span.op, 3.7 + (span.start + late) * size, 3.7 + (span.end + late) * size))
    return Timeline(spans, timeline.devices, name="a run", source="measured", unit="s", send=send)


CASES = {
    "gpipe": ge.simulate(ge.gpipe(4, 8)),
    "late": ge.simulate(ge.gpipe(3, 4, recompute="late"), ge.Costs(send=0.25)),
    "early, uneven": ge.simulate(ge.gpipe(4, 4, recompute="early"), UNEVEN),
    "1f1b, uneven": ge.simulate(ge.one_f_one_b(4, 6), UNEVEN),
    "zero bubble": ge.simulate(ge.zero_bubble(4, 6)),
    "interleaved": ge.simulate(ge.interleaved(2, 4, 3), ge.Costs(F=1 / 3, B=2 / 3)),
    "one sixteenth is bubble": ge.simulate(ge.gpipe(2, 15)),
    "no time at all": ge.simulate(ge.gpipe(2, 2), ge.Costs(F=0, B=0)),
    "measured": noisy(ge.simulate(ge.one_f_one_b(3, 5)), 1.7e-3),
    "measured, interleaved, recomputed": noisy(ge.simulate(ge.interleaved(2, 4, 2)), 2e-7),
    "replayed": Timeline(ge.simulate(ge.naive(2, 2)).spans, 2, name="<b>&\"'", source="replayed", unit="s", send=0.5),
    "drawn, impossible": read_diagram("F0 F1 B0 B1\nF0 B0 F1 . B1"),
    "forwards alone, an idle device": Timeline([Span(0, ge.Op("F", 0, 0), 0, 1), Span(2, ge.Op("F", 0, 1), 2, 4)], 3),
    "large numbers": Timeline([Span(0, ge.Op("F", 1199, 77), 0, 1e7 / 7), Span(0, ge.Op("B", 0, 1), 2e7, 1e8)], 1),
}

SHARES = [*(number / 1600 for number in range(200)), *(number / 7000 for number in range(100)), 1]
"""Python rounds halves to the even digit, as in 1 / 16, browsers up."""

EVENT = '{"ph":"X","name":"aten::mm","ts":1,"dur":2}'
ABOUT = '"otherData":{"program":"gpipe_edu","format":1,"name":"","source":"planned","unit":"","send":0,"devices":1}'
OP = '{"ph":"X","tid":0,"args":{"kind":"forward","micro_batch":0,"stage":0,"start":0,"end":1}}'
ONE = f'{{{ABOUT},"traceEvents":[{OP}]}}'
WRONG = {
    "kind": ('"forward"', '"sideways"', "5", "null", '"toString"'),
    "micro_batch": ('"micro_batch":0', '"micro_batch":-1', '"micro_batch":0.5', '"micro_batch":65536', '"m":0'),
    "stage": ('"stage":0', '"stage":"0"', '"stage":1e9', '"stage":true', '"s":0'),
    "tid": ('"tid":0', '"tid":1', '"tid":null', '"t":0'),
    "start": ('"start":0', '"start":2', '"start":1e999', '"start":null', f'"start":1{"0" * 400}'),
    "args": (OP, OP.replace('"args"', '"arg"'), '{"ph":"X","tid":0,"args":[]}'),
    "header": ('"format":1', '"format":2', '"f":1', '"format":1.5'),
    "name": ('"name":""', '"name":null', '"n":""'),
    "source": ('"planned"', '"dreamt"', "0"),
    "unit": ('"unit":""', '"unit":"ms"', '"unit":[]'),
    "send": ('"send":0', '"send":-1', '"send":"0"', '"send":false'),
    "devices": ('"devices":1', '"devices":0', '"devices":1025', '"devices":1.5', '"devices":true'),
}
REFUSED: list[bytes] = [
    b"",
    b" \n\t ",
    b"\xef\xbb\xbf",
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    b"F0 F1 B1 B0",
    b"nothing but {",
    ONE[:100].encode(),
    ONE[:-1].encode(),
    (ONE + "}").encode(),
    b'{"a":NaN}',
    b"[" * 2000,
    b"{}",
    b'{"traceEvents":{}}',
    b'{"cells":[],"metadata":{},"nbformat":4,"__proto__":1,"2":1,"10":1}',
    b'{"only":1}',
    b"[]",
    f"[{EVENT}]".encode(),
    b'[1,null,[],"x"]',
    f'{{"traceEvents":[{EVENT},{EVENT},{{"name":"cudaLaunch"}},{{"name":"third"}}]}}'.encode(),
    f'{{"traceEvents":[{{"name":"{"long" * 30}"}},{{"name":5}}],"otherData":{{"program":"another"}}}}'.encode(),
    f'{{"otherData":[],"traceEvents":[{OP}]}}'.encode(),
    f'{{{ABOUT},"traceEvents":[]}}'.encode(),
    f'{{{ABOUT},"traceEvents":[1,null,{OP},{OP}]}}'.encode(),
    *(ONE.replace(right, wrong).encode() for right, *wrongs in WRONG.values() for wrong in wrongs),
]


def current() -> dict[str, object]:
    """What Python makes of every case."""
    return {
        "cases": {name: {"text": saved(timeline), "spec": _spec(timeline)} for name, timeline in CASES.items()},
        "percents": [[share, f"{share:.1%}"] for share in SHARES],
        "refused": [[base64.b64encode(data).decode(), refusal(data)] for data in REFUSED],
    }


def saved(timeline: Timeline) -> str:
    """The file that `save_trace` writes, as text."""
    with tempfile.TemporaryDirectory() as folder:
        return timeline.save_trace(Path(folder) / "trace.json").read_text(encoding="utf-8")


def refusal(data: bytes) -> str:
    """Why `data` is no trace of ours."""
    try:
        return f"it was read: {read(data, 'a.json')!r}"
    except ValueError as error:
        return str(error)


def _spec(timeline: Timeline) -> dict[str, object]:
    (spec,) = specs([timeline], critical_path=True)
    # The version of what Python sends, and figures for tests: the page uses neither.
    return {key: value for key, value in spec.items() if key not in ("format", "stats")}


if __name__ == "__main__":
    FILE.write_text(json.dumps(current(), ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
