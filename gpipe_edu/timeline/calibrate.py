"""Costs from a measured timeline, so that a plan can be compared with the run it models."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean

from gpipe_edu.schedule import Op

from .costs import Costs
from .timeline import Timeline


def calibrate(timeline: Timeline) -> Costs:
    """For every kind of op and stage the mean duration in `timeline`; send is the mean delay of a transfer,
    and link is 0: one run does not tell a slow link from a busy one.

    A plan with them has the timeline's unit, so both share an axis. Raises ValueError if the timeline lacks a kind
    that `Costs` cannot derive, that is F, or all of B, C and I.
    """
    durations: dict[tuple[str, int], list[float]] = defaultdict(list)
    for span in timeline.spans:
        durations[span.op.kind, span.op.stage].append(span.end - span.start)
    stages = 1 + max(span.op.stage for span in timeline.spans)
    found = {
        kind: [fmean(durations[kind, k]) if durations[kind, k] else 0.0 for k in range(stages)]
        for kind in {kind for kind, _ in durations}
    }
    if "F" not in found or not found.keys() & set("BCI"):
        raise ValueError("costs can be taken only from a timeline that has forwards and backwards")
    if "B" not in found:
        # The schedule has no B, but Costs requires a number for it.
        found["B"] = found.get("C") or [i + w for i, w in zip(found["I"], found["W"], strict=True)]
    return Costs(**found, send=_send(timeline), link=0, unit=timeline.unit)


def _send(timeline: Timeline) -> float:
    """How long after its input's end an op starts, where that input came from elsewhere and was what it waited for."""
    span_of: dict[Op, tuple[float, int]] = {span.op: (span.end, span.device) for span in timeline.spans}
    delays = []
    for device in range(timeline.devices):
        free = timeline.start
        for span in timeline.row(device):
            needs = [span_of[need] for need in timeline.needs(span.op)]
            last, where = max(needs, default=(free, device))
            if where != device and last > free:
                delays.append(span.start - last)
            free = span.end
    return max(0.0, fmean(delays)) if delays else 0.0
