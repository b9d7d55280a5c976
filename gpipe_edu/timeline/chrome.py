"""A timeline as a Chrome trace, to be opened in Perfetto or chrome://tracing beside traces of other tools.

The format is the JSON object form of the Trace Event Format: one complete event ("X") per op, one thread per device,
arrows ("s", "f") where an op waited for another device, a counter ("C") of the micro-batches in flight, and an
asynchronous event ("b", "e") per message on a link.

Trace viewers expect microseconds, and a duration instead of an end, which loses the last digits. So every op also has
its exact start and end, and "otherData" holds what a timeline has besides its spans: `trace.py` restores the timeline
exactly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from gpipe_edu.schedule.op import KINDS

from .timeline import Message, Timeline

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
