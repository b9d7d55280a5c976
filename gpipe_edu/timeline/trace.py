"""A timeline as a Chrome trace, to be opened in Perfetto or chrome://tracing beside traces of other tools, and read
back: the timeline of a run can be kept, mailed, and compared with another one.

The format is the JSON object form of the Trace Event Format: one complete event ("X") per op, one thread per device,
arrows ("s", "f") where an op waited for another device, a counter ("C") of the micro-batches in flight, and an
asynchronous event ("b", "e") per message on a link.

Trace viewers expect microseconds, and a duration instead of an end, which loses the last digits. So every op also has
its exact start and end, and "otherData" holds what a timeline has besides its spans: the timeline is restored exactly.

A file may come from anywhere, so everything in it is checked. Every error is one sentence that says what was found and,
for a wrong field, what it must be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Never

from gpipe_edu.base.bounded import TooMuchError, name_of, parse_json, read_bytes
from gpipe_edu.base.words import plural, shown
from gpipe_edu.schedule import Op
from gpipe_edu.schedule.op import KINDS, MOST_MICRO_BATCHES, MOST_STAGES

from .costs import UNITS
from .timeline import SOURCES, Message, Span, Timeline

PROGRAM: Final = "gpipe_edu"
"""This word tells our traces from those of other programs."""

FORMAT: Final = 1
"""Raised when a reader of an older version could no longer read what is saved."""

MESSAGE: Final = "message"
"""The category of events that are messages on a link."""

_MICROSECONDS: Final = {"s": 1e6, "": 1e3}
"""Trace times are in microseconds; a planned step has no unit, so one cost unit is shown as a millisecond."""


def events(timeline: Timeline) -> list[dict[str, Any]]:
    """The trace events of `timeline`, times in microseconds."""
    scale = _MICROSECONDS[timeline.unit]
    name = f"{timeline.name or 'pipeline'} ({timeline.source})"
    trace: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": name}}]
    span_of = {span.op: span for span in timeline.spans}
    for device in range(timeline.devices):
        label = {"name": f"device {device}"}
        trace.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": device, "args": label})
        trace.extend(
            {
                "ph": "C",
                "name": f"in flight on device {device}",
                "pid": 0,
                "ts": time * scale,
                "args": {"micro-batches": held},
            }
            for time, held in timeline.in_flight[device]
        )
    arrows = 0
    for span in timeline.spans:
        kind, micro_batch, stage = span.op
        place = {"pid": 0, "tid": span.device}
        trace.append(
            {
                "ph": "X",
                "name": span.op.label,
                "cat": KINDS[kind],
                "ts": span.start * scale,
                "dur": (span.end - span.start) * scale,
                "args": {
                    "kind": KINDS[kind],
                    "micro_batch": micro_batch,
                    "stage": stage,
                    "start": span.start,
                    "end": span.end,
                },
                **place,
            }
        )
        for need in timeline.needs(span.op):
            cause = span_of[need]
            if cause.device != span.device:
                link = {"name": "sends", "cat": "dependency", "id": arrows, "pid": 0}
                trace.append({"ph": "s", "ts": cause.end * scale, "tid": cause.device, **link})
                trace.append({"ph": "f", "bp": "e", "ts": span.start * scale, "tid": span.device, **link})
                arrows += 1
    trace.extend(event for message in timeline.messages for event in _on_link(message, scale))
    return trace


def _on_link(message: Message, scale: float) -> list[dict[str, Any]]:
    op, source, target, start, end, there = message
    kind, micro_batch, stage = op
    link = f"link {source} to {target}"
    about = {"name": f"{op.label} on {link}", "cat": MESSAGE, "id": link, "pid": 0, "tid": source}
    of = {"kind": KINDS[kind], "micro_batch": micro_batch, "stage": stage}
    when = {"target": target, "start": start, "end": end, "there": there}
    return [about | {"ph": "b", "ts": start * scale, "args": of | when}, about | {"ph": "e", "ts": end * scale}]


def save(timeline: Timeline, path: Path) -> Path:
    """Write the trace to `path`; returns the path."""
    content = {"displayTimeUnit": "ms", "otherData": _about(timeline), "traceEvents": events(timeline)}
    path.write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")
    return path


def _about(timeline: Timeline) -> dict[str, Any]:
    return {
        "program": PROGRAM,
        "format": FORMAT,
        "name": timeline.name,
        "source": timeline.source,
        "unit": timeline.unit,
        "send": timeline.send,
        "devices": timeline.devices,
    }


MOST_MEGABYTES: Final = 32
"""The largest step that the explorer draws, 64 devices and 256 micro-batches, is a file of 20 MB."""

MOST: Final = {"devices": 1024, "stage": MOST_STAGES, "micro_batch": MOST_MICRO_BATCHES}
"""Larger counts are errors, and would fill the memory before that was noticed."""

_ENDLESS: Final = 1e18
_LONGEST_NAME: Final = 500
_LETTERS: Final = {name: letter for letter, name in KINDS.items()}
_SAVE: Final = "open what gpipe_edu saved as a Chrome trace"


def load(path: Path) -> Timeline:
    """The timeline in the file `path`. Raises ValueError for what is not a trace of ours, OSError without a file."""
    size = path.stat().st_size
    if size > MOST_MEGABYTES * 10**6:
        raise ValueError(f"{name_of(path)} has {-(-size // 10**6)} MB, and a trace at most {MOST_MEGABYTES}; {_SAVE}")
    return read(read_bytes(path, MOST_MEGABYTES * 10**6), name_of(path))


def read(data: bytes, name: str) -> Timeline:
    """The timeline in the content of the file `name`. Raises ValueError for what is not a trace of ours."""
    content = _parse(data, name)
    about, events = _ours(content, name)
    found = [(number, event) for number, event in enumerate(events) if _is_op(event)]
    devices = _header(about, name)
    spans = [_span(event, number, devices, name) for number, event in found]
    if not spans:
        _damaged(name, "it has no ops")
    seen: set[Op] = set()
    for span in spans:
        if span.op in seen:
            _damaged(name, f"{span.op} is in it twice")
        seen.add(span.op)
    sent = [_message(event, number, devices, name) for number, event in enumerate(events) if _is_message(event)]
    keep = {key: about[key] for key in ("name", "source", "unit", "send")}
    return Timeline(spans, devices, messages=sent, **keep)


def _parse(data: bytes, name: str) -> Any:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is no text; {_SAVE}") from None
    text = text.strip()
    if not text:
        raise ValueError(f"{name} is empty; {_SAVE}")
    if text[0] not in "{[":
        raise ValueError(f"{name} is no JSON; {_SAVE}")
    try:
        return parse_json(text, name)
    except TooMuchError:
        raise
    except ValueError:
        raise ValueError(f"{name} begins as JSON but cannot be read to its end: it was cut off or changed") from None


def _ours(content: Any, name: str) -> tuple[Mapping[str, Any], list[Any]]:
    """What the file says about itself, and its events."""
    events = content.get("traceEvents") if isinstance(content, dict) else content
    if not isinstance(events, list):
        keys = sorted(content)
        listed = ", ".join(f"“{shown(key)}”" for key in keys[:3]) + (" and more" if len(keys) > 3 else "")
        found = f"an object with {listed}" if keys else "an empty object"
        raise ValueError(f"{name} is JSON of something else, {found}; {_SAVE}")
    about = content.get("otherData") if isinstance(content, dict) else None
    if not (isinstance(about, dict) and about.get("program") == PROGRAM):
        named = (event.get("name") for event in events if isinstance(event, dict))
        some = [f"“{shown(each)}”" for each in dict.fromkeys(each for each in named if isinstance(each, str))][:2]
        such = f", such as {' and '.join(some)}," if some else ""
        count = plural(len(events), "event")
        raise ValueError(f"{name} is a trace of another program: {count}{such} and none of gpipe_edu; {_SAVE}")
    if about.get("format") != FORMAT:
        raise ValueError(f"{name} is a trace in a format that this gpipe_edu cannot read; update it, or save it anew")
    return about, events


def _header(about: Mapping[str, Any], name: str) -> int:
    """The number of devices, if all that the file says about itself is valid."""
    good = {
        "name": (
            isinstance(about.get("name"), str)
            and len(about["name"]) <= _LONGEST_NAME
            and about["name"].replace("\n", "").isprintable(),
            f"a text of at most {_LONGEST_NAME} printable characters",
        ),
        "source": (_is_one_of(about.get("source"), SOURCES), f"one of {', '.join(SOURCES)}"),
        "unit": (_is_one_of(about.get("unit"), UNITS), "“s” or empty"),
        "send": (_is_time(about.get("send")) and about["send"] >= 0, "a time"),
        "devices": (
            _is_whole(about.get("devices"), MOST["devices"] + 1) and about["devices"] > 0,
            f"a number from 1 to {MOST['devices']}",
        ),
    }
    for field, (fits, allowed) in good.items():
        if not fits:
            _damaged(name, f"its “{field}” must be {allowed}")
    return int(about["devices"])


def _is_op(event: Any) -> bool:
    return isinstance(event, dict) and event.get("ph") == "X"


def _is_message(event: Any) -> bool:
    return isinstance(event, dict) and event.get("ph") == "b" and event.get("cat") == MESSAGE


def _span(event: Mapping[str, Any], number: int, devices: int, name: str) -> Span:
    args = _args(event)
    op, start, end = _read_times(event, args, number, devices, name)
    return Span(int(event["tid"]), op, start, end)


def _message(event: Mapping[str, Any], number: int, devices: int, name: str) -> Message:
    args = _args(event)
    op, start, end = _read_times(event, args, number, devices, name)
    good = {
        "target": (_is_whole(args.get("target"), devices), f"a device, {_below(devices)}"),
        "there": (_is_time(args.get("there")) and args["there"] >= end, "a time after the end"),
    }
    _require(good, number, name)
    return Message(op, int(event["tid"]), int(args["target"]), start, end, args["there"])


def _args(event: Mapping[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _read_times(
    event: Mapping[str, Any], args: Mapping[str, Any], number: int, devices: int, name: str
) -> tuple[Op, float, float]:
    """The op of an event, with its start and end."""
    start: Any = args.get("start")
    end: Any = args.get("end")
    good = {
        "kind": (_is_one_of(args.get("kind"), _LETTERS), f"one of {', '.join(_LETTERS)}"),
        "micro_batch": (_is_whole(args.get("micro_batch"), MOST["micro_batch"]), _below(MOST["micro_batch"])),
        "stage": (_is_whole(args.get("stage"), MOST["stage"]), _below(MOST["stage"])),
        "tid": (_is_whole(event.get("tid"), devices), f"a device, {_below(devices)}"),
        "start": (_is_time(start), "a time"),
        "end": (_is_time(start) and _is_time(end) and start <= end, "a time after the start"),
    }
    _require(good, number, name)
    return Op(_LETTERS[args["kind"]], int(args["micro_batch"]), int(args["stage"])), start, end


def _require(good: Mapping[str, tuple[bool, str]], number: int, name: str) -> None:
    """Raise ValueError for the first field that is not valid."""
    for field, (fits, allowed) in good.items():
        if not fits:
            _damaged(name, f"the “{field}” of event {number} must be {allowed}")


def _below(limit: int) -> str:
    return f"a whole number from 0 to {limit - 1}"


def _is_one_of(value: Any, known: Iterable[str]) -> bool:
    return isinstance(value, str) and value in known


def _is_whole(value: Any, below: int) -> bool:
    return _is_time(value) and 0 <= value < below and value == int(value)


def _is_time(value: Any) -> bool:
    """Whether it is a finite number; True is not one here, although Python says so."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -_ENDLESS < value < _ENDLESS


def _damaged(name: str, what: str) -> Never:
    raise ValueError(f"{name} is damaged: {what}; save it anew")
