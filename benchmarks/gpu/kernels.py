"""From a trace of torch.profiler to when each op's kernels ran on the GPU.

A kernel's launch has its correlation number. It belongs to the op in whose time the host launched it: a worker waits
until its backward is launched, by whatever thread. Ops of several stages overlap on the host, but each stage has a
stream of its own; which one is told by a kernel that was launched for nothing else, inside `STREAM` and the stage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpipe_edu.schedule import Op
from gpipe_edu.timeline import Span, Timeline

STREAM = "stream of stage "
_OP = re.compile(r"PP:(\d+)([FBIWRC])(\d+)")
_LAUNCHES = ("cuda_runtime", "cuda_driver")
_RUNS = ("kernel", "gpu_memcpy", "gpu_memset")


def kernel_timeline(trace: Mapping[str, Any], stages: int) -> Timeline | None:
    """Each op from the start of its first kernel to the end of its last, from the first of all on; None for a trace
    without kernels. Raises ValueError for one in which a stage has no stream."""
    launched = {_number(event): event["ts"] for event in _events(trace, *_LAUNCHES)}
    ran = [event for event in _events(trace, *_RUNS) if _number(event) in launched]
    if not ran:
        return None
    marks = [(event["name"], event["ts"], event["ts"] + event["dur"]) for event in _events(trace, "user_annotation")]
    stages_of = {}
    for name, start, end in marks:
        if name.startswith(STREAM):
            for event in ran:
                if start <= launched[_number(event)] <= end:
                    stages_of[event["args"].get("stream")] = int(name.removeprefix(STREAM))
    missing = set(range(stages)) - set(stages_of.values())
    if missing:
        raise ValueError(f"in this trace no stream is that of stage {min(missing)}; it has {sorted(stages_of)}")
    spans = []
    for name, start, end in marks:
        match = _OP.fullmatch(name)
        if not match:
            continue
        op = Op(match[2], int(match[3]), int(match[1]))
        mine = [
            event
            for event in ran
            if stages_of.get(event["args"].get("stream")) == op.stage and start <= launched[_number(event)] <= end
        ]
        if mine:
            ends = (event["ts"] + event["dur"] for event in mine)
            spans.append(Span(op.stage, op, min(event["ts"] for event in mine) / 1e6, max(ends) / 1e6))
    first = min(span.start for span in spans)
    moved = [span._replace(start=span.start - first, end=span.end - first) for span in spans]
    return Timeline(moved, stages, name="the same streams, by torch.profiler's kernels", source="measured", unit="s")


def apart(ours: Timeline, kernels: Timeline) -> float:
    """The largest difference of a start or an end, as a share of the step; infinite where an op has no kernel."""
    theirs = {span.op: span for span in kernels.spans}
    if set(theirs) != {span.op for span in ours.spans}:
        return float("inf")
    pairs = [(span, theirs[span.op]) for span in ours.spans]
    return max(max(abs(a.start - b.start), abs(a.end - b.end)) for a, b in pairs) / ours.makespan


def sample(trace: Mapping[str, Any]) -> dict[str, Any]:
    """The trace without what no reader here looks at."""
    kinds = (*_LAUNCHES, *_RUNS, "user_annotation", "gpu_user_annotation")
    about = {name: value for name, value in trace.items() if name in ("schemaVersion", "baseTimeNanoseconds")}
    return {**about, "traceEvents": list(_events(trace, *kinds))}


def _events(trace: Mapping[str, Any], *kinds: str) -> Iterator[dict[str, Any]]:
    return (event for event in trace["traceEvents"] if event.get("ph") == "X" and event.get("cat") in kinds)


def _number(event: Mapping[str, Any]) -> Any:
    return event.get("args", {}).get("correlation")
