"""A pipeline as torch.profiler saw it, one file for each rank, as a timeline.

PyTorch's pipelines write each op into a profile as "PP:" and what it is: "PP:1F3" is the forward of micro-batch 3 in
stage 1. What waits for a message waits inside its op there, so ops look longer than in a timeline of ours, and the
bubble smaller.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from gpipe_edu.schedule import Op

from .timeline import Span, Timeline

_OP: Final = re.compile(r"PP:(\d+)([FBIW])(\d+)")


def read_profiles(files: Sequence[Path | str], name: str = "profile") -> Timeline:
    """The last step in the traces that ranks 0, 1, ... exported, `.json` or `.json.gz`; a device for each file.

    Each machine's times are by its own clock: between machines they may differ by milliseconds. Raises ValueError for a
    file that is not a profile of a pipeline, OSError for one that cannot be read.
    """
    if isinstance(files, (str, Path)) or not files:
        raise ValueError("give a list of files, the profile of each rank in turn")
    spans = []
    for rank, file in enumerate(map(Path, files)):
        latest = {op: (start, end) for op, start, end in _ops(_content(file), file.name)}  # those of the last step
        if not latest:
            raise ValueError(
                f"{file.name} has no event such as “PP:0F0”: profile a step of a pipeline, "
                "with profile(activities=[ProfilerActivity.CPU]) around it"
            )
        spans += [Span(rank, op, start, end) for op, (start, end) in latest.items()]
    first = min(span.start for span in spans)
    moved = [span._replace(start=(span.start - first) / 1e6, end=(span.end - first) / 1e6) for span in spans]
    return Timeline(moved, len(files), name=name, source="measured", unit="s")


def _content(file: Path) -> dict[str, Any]:
    data = file.read_bytes()
    try:
        found = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        if isinstance(found["traceEvents"], list):
            return dict(found)
    except (ValueError, TypeError, KeyError, EOFError, gzip.BadGzipFile):
        pass
    raise ValueError(f"{file.name} is no trace that torch.profiler exported with export_chrome_trace")


def _ops(content: dict[str, Any], name: str) -> Iterator[tuple[Op, float, float]]:
    """Ops with start and end in microseconds, in order of their starts."""
    base = content.get("baseTimeNanoseconds", 0) / 1e3
    found = []
    for event in content["traceEvents"]:
        match = _OP.fullmatch(str(event.get("name"))) if isinstance(event, dict) and event.get("ph") == "X" else None
        # On a GPU each op is there twice: where the host launched it and where it ran.
        if match and event.get("cat") != "gpu_user_annotation":
            found.append((Op(match[2], int(match[3]), int(match[1])), base + event["ts"], event["dur"]))
    for op, start, length in sorted(found, key=lambda one: one[1]):
        yield op, start, start + length
