"""A timeline as a Chrome trace, to be opened in Perfetto or chrome://tracing beside traces of other tools.

The format is the JSON array form of the Trace Event Format: one complete event ("X") per op, one thread per device,
arrows ("s", "f") where an op waited for another device, and a counter ("C") of the micro-batches in flight.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpipe_edu.schedule.op import KINDS

from .timeline import Timeline

_MICROSECONDS = {"s": 1e6, "": 1e3}
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
                "args": {"kind": KINDS[kind], "micro_batch": micro_batch, "stage": stage},
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
    return trace


def save(timeline: Timeline, path: Path) -> Path:
    """Write the trace to `path`; returns the path."""
    path.write_text(json.dumps({"traceEvents": events(timeline), "displayTimeUnit": "ms"}))
    return path
