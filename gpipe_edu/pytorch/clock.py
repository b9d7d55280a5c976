"""When each op started and ended, noted by the workers themselves: the measured timeline of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpipe_edu.schedule import Op
from gpipe_edu.timeline import Span, Timeline

from .place import Place


class Clock:
    """The clock of one step. Every place counts from its own start, taken when all places stand still."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places
        self._starts = [place.now() for place in places]
        self._notes: list[tuple[int, Op, Any, Any]] = []

    def note(self, device: int, op: Op, start: Any) -> None:
        """`op` ends now on `device`; `start` is what `now()` of its place was at its start."""
        self._notes.append((device, op, start, self._places[device].now()))

    def timeline(self, name: str) -> Timeline:
        """What was noted so far, in seconds from the start of the first op."""
        spans = []
        for device, op, start, end in self._notes:
            place, zero = self._places[device], self._starts[device]
            spans.append(Span(device, op, place.seconds(zero, start), place.seconds(zero, end)))
        first = min(span.start for span in spans)
        moved = [Span(span.device, span.op, span.start - first, span.end - first) for span in spans]
        return Timeline(moved, len(self._places), name=name, source="measured", unit="s")
