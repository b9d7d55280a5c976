"""A pipeline as torch.profiler saw it, one file for each rank, as a timeline.

PyTorch's pipelines write each op into a profile as "PP:" and what it is: "PP:1F3" is the forward of micro-batch 3 in
stage 1. That mark also holds the wait for the op's message. So here an op lasts from the start of the first operation
inside its mark, such as aten::linear, to the end of the last one.

On a GPU a mark tells when the host launched the work, and a pair of ops that run as one has one mark for both. What a
timeline would show of those is not what happened, so they are refused.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gpipe_edu.schedule import Op

from .timeline import Span, Timeline

_OP: Final = re.compile(r"PP:(\d+)([FBIW])(\d+)")
_PAIR: Final = re.compile(r"PP:\(.*\)OVERLAP_F_B")
_OF_A_GPU: Final = re.compile(r"kernel|gpu_.*|cuda_.*")
"""Categories of events that only the profile of a GPU has."""


def read_profiles(files: Sequence[Path | str], name: str = "profile") -> Timeline:
    """The last step in the traces that the ranks of one pipeline exported, `.json` or `.json.gz`, in any order.

    A device for each file, in the order of the ranks' first stages. An op lasts from its first operation to its last,
    without the wait for its message; one in which nothing was computed takes no time.
    Each machine's times are by its own clock: between machines they may differ by milliseconds.

    Raises ValueError for a file that is not a profile of a pipeline, was recorded with a GPU, has pairs of ops that run
    as one (DualPipeV), or lacks the operations inside ops; for files of several replicas and for a stage that no file
    has. Raises OSError for one that cannot be read.
    """
    if isinstance(files, (str, Path)) or not files:
        raise ValueError("give a list of files, the profile of each rank of a pipeline")
    steps = [(file, _last_step(_content(file), file.name)) for file in map(Path, files)]
    _expect_one_pipeline(steps)
    in_order = sorted((step for _, step in steps), key=lambda step: min(op.stage for op in step))
    first = min(start for step in in_order for start, _ in step.values())
    spans = [
        Span(device, op, (start - first) / 1e6, (end - first) / 1e6)
        for device, step in enumerate(in_order)
        for op, (start, end) in step.items()
    ]
    return Timeline(spans, len(in_order), name=name, source="measured", unit="s")


_Step = Mapping[Op, tuple[float, float]]
"""Start and end of each op, in microseconds."""


def _content(file: Path) -> dict[str, Any]:
    data = file.read_bytes()
    try:
        found = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        if isinstance(found["traceEvents"], list):
            return dict(found)
    except (ValueError, TypeError, KeyError, EOFError, gzip.BadGzipFile):
        pass
    raise ValueError(f"{file.name} is no trace that torch.profiler exported with export_chrome_trace")


def _last_step(content: dict[str, Any], name: str) -> _Step:
    events = [event for event in content["traceEvents"] if isinstance(event, dict) and event.get("ph") == "X"]
    backend = (content.get("distributedInfo") or {}).get("backend")
    if backend == "nccl" or any(_OF_A_GPU.fullmatch(str(event.get("cat"))) for event in events):
        raise ValueError(
            f"{name} was recorded with a GPU: its ops tell when the host launched work, not when the GPU did it. "
            "`pipeline.timeline()` asks the GPU itself; Perfetto shows the profile"
        )
    if pair := next((str(event["name"]) for event in events if _PAIR.fullmatch(str(event.get("name")))), None):
        raise ValueError(
            f"{name} has pairs of ops that run as one, such as “{pair}” (DualPipeV): "
            "nothing in it tells when each of the two ran. Perfetto shows the profile"
        )
    marks = [
        (Op(match[2], int(match[3]), int(match[1])), event)
        for event in events
        if (match := _OP.fullmatch(str(event.get("name"))))
    ]
    if not marks:
        raise ValueError(
            f"{name} has no event such as “PP:0F0”: profile a step of a pipeline, with "
            "profile(activities=[ProfilerActivity.CPU]) around it. PyTorch's ScheduleGPipe and Schedule1F1B write none"
        )
    operations = _Operations(events)
    if not any(operations.within(mark) for _, mark in marks):
        raise ValueError(
            f"{name} has ops such as “{marks[0][1]['name']}”, but no operation inside them, such as aten::linear: "
            "what was work and what was waiting for a message can't be told. Profile with ProfilerActivity.CPU"
        )
    base = content.get("baseTimeNanoseconds", 0) / 1e3
    step: dict[Op, tuple[float, float]] = {}
    for op, mark in sorted(marks, key=lambda one: one[1]["ts"]):
        start, end = operations.within(mark) or (mark["ts"] + mark["dur"],) * 2
        if op in step:  # the next step begins
            step = {}
        step[op] = base + start, base + end
    return step


class _Operations:
    """When the operations of a profile ran, by thread. Messages are none: they are what an op waits for."""

    def __init__(self, events: Sequence[dict[str, Any]]) -> None:
        self._of: dict[tuple[Any, Any], list[tuple[float, float]]] = defaultdict(list)
        for event in events:
            if event.get("cat") == "cpu_op" and not str(event.get("name")).startswith("c10d::"):
                self._of[event.get("pid"), event.get("tid")].append((event["ts"], event["ts"] + event["dur"]))
        for one in self._of.values():
            one.sort()

    def within(self, mark: dict[str, Any]) -> tuple[float, float] | None:
        """From the start of the first operation inside a mark to the end of the last; None if there is none."""
        ran = self._of[mark.get("pid"), mark.get("tid")]
        inside = ran[bisect_left(ran, (mark["ts"],)) : bisect_right(ran, (mark["ts"] + mark["dur"],))]
        return (inside[0][0], max(end for _, end in inside)) if inside else None


def _expect_one_pipeline(steps: Sequence[tuple[Path, _Step]]) -> None:
    file_of: dict[int, Path] = {}
    for file, step in steps:
        for stage in sorted({op.stage for op in step}):
            if stage in file_of:
                raise ValueError(
                    f"{file_of[stage]} and {file} both have stage {stage}, so they are of two replicas of a pipeline, "
                    "or of one tensor group: give one file for each rank of one pipeline"
                )
            file_of[stage] = file
    if missing := set(range(max(file_of))) - set(file_of):
        raise ValueError(f"no file has stage {min(missing)}: give the profiles of all ranks of the pipeline")
