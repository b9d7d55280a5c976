"""A pipeline as torch.profiler saw it, one file for each rank, as a timeline; and steps with one fault, to practise on.

PyTorch's pipelines write each op into a profile as "PP:" and what it is: "PP:1F3" is the forward of micro-batch 3 in
stage 1. That mark also holds the wait for the op's message. So here an op lasts from the start of the first operation
inside its mark, such as aten::linear, to the end of the last one.

On a GPU a mark tells when the host launched the work, and a pair of ops that run as one has one mark for both. What a
timeline would show of those is not what happened, so they are refused.

A step in which one thing is wrong is simulated, with what profiles have besides: every op takes a little more or less
time than its like, and one takes much more, once, for no reason that a trace could tell.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from gpipe_edu.schedule import Op, Schedule

from .timeline import Message, Span, Timeline

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


_FORWARD, _BACKWARD, _LINK = 1.0, 2.0, 0.5
"""A layer's forward and backward, and how long a message keeps its link busy."""

SLOWER: Final = 1.6
"""By what factor a slow rank's ops are longer than they should be."""

_LATER: Final = 8
"""By what factor a slow link's messages are."""


def step_with_fault(
    schedule: Schedule,
    layers: Sequence[int],
    *,
    slow_rank: int | None = None,
    slow_link: int | None = None,
    waits_for_sends: int | None = None,
    stumbles: Op | None = None,
    seed: int = 0,
) -> Timeline:
    """A step of a schedule with one stage on each rank, `layers[k]` layers on rank k.

    slow_rank: its ops take 1.6 times as long. slow_link: messages between this rank and the next do, 8 times, in both
    directions. waits_for_sends: this rank begins nothing before its own message has arrived. stumbles: the op that
    takes three times as long, once; by chance if it is not said.
    """
    draw = Random(seed)
    all_ops = [op for row in schedule.rows for op in row]
    by_chance = draw.choice(all_ops)
    spans: dict[Op, Span] = {}
    arrivals: dict[tuple[Op, int], float] = {}
    links: dict[tuple[int, int], float] = {}
    free, messages = [0.0] * schedule.devices, []
    for device, op, _ in schedule.steps:
        cost = {"F": _FORWARD, "B": _BACKWARD}[op.kind] * layers[device] * draw.uniform(0.97, 1.03)
        cost *= (SLOWER if device == slow_rank else 1) * (3 if op == (stumbles or by_chance) else 1)
        start = max([free[device], *(arrivals.get((need, device), spans[need].end) for need in schedule.needs(op))])
        spans[op] = Span(device, op, start, start + cost)
        free[device] = start + cost
        goal = device + (1 if op.kind == "F" else -1)
        if 0 <= goal < schedule.devices:
            late = _LATER if slow_link == min(device, goal) else 1
            sent = max(start + cost, links.get((device, goal), 0.0))
            there = sent + _LINK * late * draw.uniform(0.97, 1.03)
            links[device, goal] = arrivals[op, goal] = there
            messages.append(Message(op, device, goal, sent, there, there))
            if device == waits_for_sends:
                free[device] = there
    return Timeline(spans.values(), schedule.devices, name="a profile, simulated", messages=messages)
