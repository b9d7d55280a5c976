"""The words and numbers of a picture, computed once so that every painter prints the same figures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from gpipe_edu.base.words import plural
from gpipe_edu.schedule.op import FINISHES
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.timeline.memory import peak_memory
from gpipe_edu.timeline.stuck_schedule import StuckSchedule

NOISE: Final = 1e-9
"""Gaps shorter than this share of the makespan are rounding, not idle time."""


class TimeUnit(NamedTuple):
    """The unit a timeline is shown in: shown time = time since the start * scale, in `unit`; "" for cost units."""

    scale: float
    unit: str

    def show(self, time: float) -> str:
        """A length of time in words: "33", or "1.24 ms"; three digits for measured times, plans are exact."""
        number, digits = time * self.scale, 3 if self.unit else 6
        return f"{number:.{max(digits, len(str(int(number))))}g} {self.unit}".strip()

    @property
    def words(self) -> str:
        """The unit in words."""
        return self.unit or "cost units"


def time_unit(unit: str, longest: float) -> TimeUnit:
    """Seconds shown as the unit in which `longest` is a number of at least 1; other units as they are."""
    if unit == "s":
        for scale, name in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
            if longest * scale >= 1 or name == "µs":
                return TimeUnit(scale, name)
    return TimeUnit(1, unit)


def recompute_time(timeline: Timeline) -> dict[Span, float]:
    """For every checkpointed backward, the time of its recompute part, at most its own duration.

    A span does not say where its recompute ends; running the forward again takes as long as the forward took, so that
    forward's duration stands for it.
    """
    checkpointed = [span for span in timeline.spans if span.op.kind == "C"]
    if not checkpointed:
        return {}
    forward = {span.op[1:]: span.end - span.start for span in timeline.spans if span.op.kind == "F"}
    return {span: min(forward.get(span.op[1:], 0.0), span.end - span.start) for span in checkpointed}


def useful_fraction(timeline: Timeline) -> float:
    """The share of all device time spent in F, B, I, W and the backward part of C; 0 for a makespan of 0.

    Recompute is busy but not useful: this share and the bubble fraction add up to 1 less the share of recompute.
    """
    total = timeline.devices * timeline.makespan
    worked = sum(span.end - span.start for span in timeline.spans if span.op.kind != "R")
    return (worked - sum(recompute_time(timeline).values())) / total if total else 0.0


def gaps(timeline: Timeline, device: int) -> Iterator[tuple[float, float]]:
    """The (start, end) of every time in which `device` waits, from the first op of the step to its last."""
    row = timeline.row(device)
    edges = [timeline.start, *(edge for span in row for edge in (span.start, span.end)), timeline.end]
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        if end - start > NOISE * timeline.makespan:
            yield start, end


def stages_of(timeline: Timeline | StuckSchedule) -> list[list[int]]:
    """Per device: the stages it holds, sorted."""
    return [sorted({span.op.stage for span in timeline.row(device)}) for device in range(timeline.devices)]


def chunked(timeline: Timeline) -> bool:
    """Whether a device holds several stages, so that a micro-batch there is more than one op of a kind."""
    return any(len(stages) > 1 for stages in stages_of(timeline))


def updates(timeline: Timeline) -> bool:
    """Whether an update ends the step: forward passes alone, as in inference, leave no gradients to update with."""
    return any(span.op.kind in FINISHES for span in timeline.spans)


def sizes(timeline: Timeline) -> list[str]:
    """How large the pipeline is, in words; stages only where they are not one per device."""
    stages = 1 + max(span.op.stage for span in timeline.spans)
    counts = [(timeline.devices, "device")]
    if stages != timeline.devices:
        counts.append((stages, "stage"))
    counts.append((1 + max(span.op.micro_batch for span in timeline.spans), "micro-batch"))
    return [plural(count, word) for count, word in counts]


def heading(timeline: Timeline, shown: TimeUnit, title: str | None = None) -> list[str]:
    """The title in pieces: name, where the times come from, unit, sizes. `title` replaces the name only."""
    name = timeline.name or "pipeline" if title is None else title
    return [name, f"{timeline.source}, time in {shown.words}", ", ".join(sizes(timeline))]


def figures(timeline: Timeline, shown: TimeUnit) -> list[str]:
    """The figures beside every chart, in pieces; a bubble alone misleads, so useful work goes with it."""
    pieces = [
        f"makespan {shown.show(timeline.makespan)}",
        f"bubble {timeline.bubble_fraction:.1%} (idle / total)",
        f"useful work {useful_fraction(timeline):.1%}",
    ]
    spent = 1 - timeline.bubble_fraction - useful_fraction(timeline)
    if spent > NOISE and timeline.makespan:
        pieces.append(f"recompute {spent:.1%}")
    return pieces


def amount(held: float) -> str:
    """What a device holds, in words: whole micro-batches exactly, fractions to three digits."""
    return f"{held:.{max(3, len(str(int(held))))}g}"


def fullest(timeline: Timeline, peak: float) -> str:
    """The memory of the fullest device, `peak` micro-batches; where stages recompute, also the inputs they store."""
    shown = amount(peak)
    words = f"{shown} {'micro-batch' if shown == '1' else 'micro-batches'}"
    if chunked(timeline):
        words += " (all stages of a device)"
    if any(span.op.kind in "RC" for span in timeline.spans):
        inputs = max(peak_memory(timeline, boundary=1, interior=0))
        words += f" + {plural(inputs, 'stage input')}"
    return words


def ticks(longest: float, most: int) -> list[float]:
    """Round times 0, step, 2 step, ... up to `longest`, at most `most` + 1 of them; step is 1, 2 or 5 times 10^n."""
    if longest <= 0:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(longest / most))
    step = next(step for factor in (1, 2, 5, 10, 20) if longest / (step := factor * power) <= most)
    return [step * index for index in range(math.floor(longest / step + NOISE) + 1)]
