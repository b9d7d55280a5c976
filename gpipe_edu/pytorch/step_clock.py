"""When each op started and ended, noted by the workers themselves: the measured timeline of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpipe_edu.schedule import Op
from gpipe_edu.timeline import Span, Timeline

from .place import Place


class StepClock:
    """The clock of one step. All places of a device count from one start, and all devices start at one moment, within
    the microseconds it takes to ask for it, so that their spans fit together."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places
        self._starts: dict[torch.device, Any] = {}
        for place in places:
            if place.device not in self._starts:
                self._starts[place.device] = place.zero()
        self._notes: list[tuple[int, Op, Any, Any]] = []

    def note(self, device: int, op: Op, start: Any) -> None:
        """Note that `op` ends now on `device`; `start` is what `now()` of its place gave when it started."""
        self._notes.append((device, op, start, self._places[device].now()))

    def timeline(self, name: str) -> Timeline:
        """The ops noted so far, in seconds from the start of the first one."""
        spans = []
        for device, op, start, end in self._notes:
            place = self._places[device]
            zero = self._starts[place.device]
            spans.append(Span(device, op, place.seconds(zero, start), place.seconds(zero, end)))
        first = min(span.start for span in spans)
        moved = [Span(span.device, span.op, span.start - first, span.end - first) for span in spans]
        return Timeline(moved, len(self._places), name=name, source="measured", unit="s")
