"""When each op ran, or is planned to run, on which device: what every engine returns and every picture shows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpipe_edu.base.validate import whole
from gpipe_edu.schedule import Op
from gpipe_edu.schedule.needs import Needs, Pair
from gpipe_edu.schedule.op import FINISHES

from .costs import UNITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SOURCES: Final = {
    "planned": "every op takes the time that a cost model gives it",
    "replayed": "op times were measured one after another, then laid out as if every device ran by itself",
    "measured": "start and end of every op were measured while all devices ran",
    "drawn": "somebody drew it; nothing says that it can happen",
}
"""Where the times of a timeline can come from, and what that means."""


class Span(NamedTuple):
    """One op on one device, from start to end: seconds if measured, cost units if planned."""

    device: int
    op: Op
    start: float
    end: float


class Message(NamedTuple):
    """The output of `op`, on its way from device `source` to device `target`.

    It is on their link from `start` to `end`, and `there` a latency later.
    """

    op: Op
    source: int
    target: int
    start: float
    end: float
    there: float


class Pause(NamedTuple):
    """What came before a step, where the one before it was measured, too.

    idle: from the end of that one to this one's start, when no device runs an op. own: for each device, from its own
    last op until it turns to its first one, however long that then waits. ready: the same, from the end of the step
    before; negative if it turns to its first op sooner.
    """

    idle: float
    own: tuple[float, ...]
    ready: tuple[float, ...]


class Exchange(NamedTuple):
    """What an op's exchange of tokens took, among the devices that share its layers' experts.

    time: all of it. exposed: of it, while its device computed nothing, and did not wait for the device whose experts
    got most. uneven: how much shorter the op would be if all experts got equally much. mean, most: how many numbers a
    device got in the mean, and the one that got most of those measured; 0 if nothing tells.
    """

    time: float
    exposed: float
    uneven: float
    mean: float
    most: float


class Timeline:
    """`Timeline(spans, devices)`: the spans of one step on `devices` devices, in order of their start. Immutable.

    source is a key of `SOURCES`; unit is "s" for seconds or "" for cost units; send is the latency that was planned
    between devices; messages are those that kept a link busy, at most one for an op. notes say how it was measured
    elsewhere, and what makes it doubtful. pairs ran as one block, whose outputs left together. pause: what came before
    the step, None if that is not known. exchanges: those among experts, of each op that is known to have had one.

    Raises ValueError for no spans, an unknown source, a span of a device that does not exist, or one that ends before
    it starts.
    """

    def __init__(
        self,
        spans: Iterable[Span],
        devices: int,
        *,
        name: str = "",
        source: str = "planned",
        unit: str = "",
        send: float = 0,
        messages: Iterable[Message] = (),
        notes: Iterable[str] = (),
        pairs: Iterable[Pair] = (),
        pause: Pause | None = None,
        exchanges: Mapping[Op, Exchange] | None = None,
    ) -> None:
        spans = tuple(spans) if isinstance(spans, Iterable) else (spans,)
        if not all(isinstance(span, Span) for span in spans):
            raise TypeError("a Timeline is made of Span(device, op, start, end); got something else among its spans")
        # Ops of no duration share their start: a device's order then follows from their end and the order given.
        self.spans: tuple[Span, ...] = tuple(sorted(spans, key=lambda span: (span.start, span.end, span.device)))
        self.devices = whole("devices", devices, 1)
        self.name, self.source, self.unit, self.send = name, source, unit, send
        self.messages, self.notes, self.pairs = tuple(messages), tuple(notes), frozenset(pairs)
        self.pause, self.exchanges = pause, dict(exchanges or {})
        if source not in SOURCES:
            raise ValueError(f"Timeline source is {source!r}; it must be one of {', '.join(SOURCES)}")
        if unit not in UNITS:
            raise ValueError(f"Timeline unit is {unit!r}; it must be 's' for seconds or '' for cost units")
        if not self.spans:
            raise ValueError("a Timeline needs at least one span")
        for span in self.spans:
            if not (0 <= span.device < devices and span.start <= span.end):
                raise ValueError(f"{span} does not fit {devices} devices numbered from 0, or ends before it starts")

    def with_name(self, name: str, notes: Iterable[str] | None = None) -> Timeline:
        """The same timeline under another name, which is its title in a picture; notes: new ones, if given."""
        names = ("source", "unit", "send", "pairs", "pause", "exchanges")
        about: dict[str, Any] = {name: getattr(self, name) for name in names}
        kept = self.notes if notes is None else notes
        return Timeline(self.spans, self.devices, name=name, messages=self.messages, notes=kept, **about)

    @property
    def measured(self) -> bool:
        """True if starts and ends were measured while all devices ran."""
        return self.source == "measured"

    @cached_property
    def start(self) -> float:
        """When the first op starts."""
        return self.spans[0].start

    @cached_property
    def end(self) -> float:
        """When the last op ends."""
        return max(span.end for span in self.spans)

    @property
    def makespan(self) -> float:
        """Time from the start of the first op to the end of the last one."""
        return self.end - self.start

    def row(self, device: int) -> list[Span]:
        """The spans of one device in order. Raises ValueError for a device that does not exist."""
        if not 0 <= device < self.devices:
            raise ValueError(f"device is {device}; the devices are 0 to {self.devices - 1}")
        return list(self._rows[device])

    def busy(self, device: int) -> float:
        """Time in which `device` runs ops."""
        return sum(span.end - span.start for span in self.row(device))

    def idle(self, device: int) -> float:
        """Time in which `device` waits: the makespan less its busy time."""
        return self.makespan - self.busy(device)

    @property
    def bubble_fraction(self) -> float:
        """The share of all device time that is idle: sum of idle / (devices * makespan); 0 for a makespan of 0."""
        total = self.devices * self.makespan
        return sum(self.idle(device) for device in range(self.devices)) / total if total else 0.0

    @cached_property
    def imbalances(self) -> dict[int, float]:
        """For each stage whose exchanges tell: how many times the mean the device got whose experts got most."""
        got: dict[int, tuple[float, float]] = {}
        for op, one in self.exchanges.items():
            most, mean = got.get(op.stage, (0.0, 0.0))
            got[op.stage] = most + one.most, mean + one.mean
        return {stage: most / mean for stage, (most, mean) in sorted(got.items()) if mean}

    @cached_property
    def in_flight(self) -> list[list[tuple[float, int]]]:
        """Per device: (time, how many micro-batches it holds from then on), from the first forward on.

        A micro-batch is held from the start of its forward to the end of the op that finishes it (B, C or W). A
        device with several stages counts a micro-batch once for every stage that holds it.
        """
        levels = []
        for spans in self._rows:
            # At one time, what was held before is freed, what starts is taken, and what takes no time is freed again.
            starts = {span.op[1:]: span.start for span in spans if span.op.kind == "F"}
            changes = [(start, 1, 1) for start in starts.values()]
            changes += [
                (span.end, 0 if starts.get(span.op[1:], span.end) < span.end else 2, -1)
                for span in spans
                if span.op.kind in FINISHES
            ]
            held, level = 0, []
            for time, _, change in sorted(changes):
                held += change
                level.append((time, held))
            levels.append(level)
        return levels

    @property
    def peak_in_flight(self) -> tuple[int, ...]:
        """Per device: the largest number of micro-batches whose activations it holds at one time."""
        return tuple(max((held for _, held in level), default=0) for level in self.in_flight)

    @cached_property
    def needs(self) -> Needs:
        """What each op waited for, besides its turn on its device."""
        return Needs((span.op for span in self.spans), self.pairs)

    @cached_property
    def message_of(self) -> dict[Op, Message]:
        """The message that carries an op's output to another device, for every op that has one."""
        return {message.op: message for message in self.messages}

    @cached_property
    def links(self) -> list[dict[int, list[Message]]]:
        """Per device, by the device where it goes: the messages that keep that link busy, in the order of sending."""
        found: list[dict[int, list[Message]]] = [{} for _ in range(self.devices)]
        for message in self.messages:
            found[message.source].setdefault(message.target, []).append(message)
        return [dict(sorted(mine.items())) for mine in found]

    def arrival(self, span: Span, device: int) -> float:
        """When the output of `span` is on `device`: once it has ended and, if it comes from elsewhere, was sent."""
        message = self.message_of.get(span.op)
        if span.device != device and message:
            return message.there
        return self.whole(span).end + (self.send if span.device != device else 0)

    def whole(self, span: Span) -> Span:
        """The span at whose end the output of `span` leaves: for a forward in a pair, its backward's."""
        return self._backward_of.get(span.op, span)

    @cached_property
    def _backward_of(self) -> dict[Op, Span]:
        span_of = {span.op: span for span in self.spans}
        return {forward: span_of[backward] for forward, backward in self.pairs}

    def critical_path(self) -> list[Span]:
        """The chain of ops that sets the makespan: each one is what its successor waited for longest.

        In a planned timeline every op of the chain starts the moment the one before it has ended (and was sent).
        """
        span_of = {span.op: span for span in self.spans}
        before = {
            after.op: span for row in self._rows for span, after in itertools.pairwise(row)
        }  # the span before it on the same device

        path = [max(self.spans, key=lambda span: span.end)]
        passed: set[Op] = set()
        while True:
            here = path[-1]
            passed.add(here.op)
            causes = [span_of[need] for need in self.needs(here.op)]
            if here.op in before:
                causes.append(before[here.op])
            # Drawn spans may contradict the rules, but a chain must not go forward in time or in a circle.
            causes = [cause for cause in causes if cause.start <= here.start and cause.op not in passed]
            if not causes:
                return path[::-1]
            last = max(causes, key=lambda span: self.arrival(span, here.device))
            path.append(last if self.whole(last) is here else self.whole(last))

    @cached_property
    def _rows(self) -> Sequence[Sequence[Span]]:
        rows: list[list[Span]] = [[] for _ in range(self.devices)]
        for span in self.spans:
            rows[span.device].append(span)
        return rows

    def to_svg(self, **options: Any) -> str:
        """The Gantt chart as a self-contained SVG; options as in `gpipe_edu.view.svg.render`."""
        # `view` imports `timeline`, so it is loaded only when one is drawn.
        from gpipe_edu.view.svg import render

        return render(self, **options)

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the Gantt chart with matplotlib, on `ax` or a new figure; options as in `matplotlib_painter.draw`."""
        from gpipe_edu.view.matplotlib_painter import draw

        return draw(self, ax, **options)

    def save_trace(self, path: str | Path) -> Path:
        """Write the timeline as a Chrome trace, which chrome://tracing and Perfetto open; returns the path."""
        from .trace import save

        return save(self, Path(path))

    @staticmethod
    def load_trace(path: str | Path) -> Timeline:
        """The timeline that `save_trace`, or a chart's "save as", has written to `path`; or a run that another program
        has measured, if this one file holds all of it (`gpipe_edu.load` opens more).

        Raises ValueError for a file that is neither or is cut off; OSError if there is no such file.
        """
        from .opened import load_trace

        return load_trace(Path(path))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        from gpipe_edu.view.notebook import timeline_bundle

        return timeline_bundle(self)

    def __repr__(self) -> str:
        name = f"{self.name}, " if self.name else ""
        return f"Timeline({name}{self.source}, devices={self.devices}, makespan={self.makespan:g}{self.unit})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timeline):
            return NotImplemented
        return (self.spans, self.devices, self.source) == (other.spans, other.devices, other.source)

    def __hash__(self) -> int:
        return hash((self.spans, self.devices, self.source))
