"""A schedule that cannot run, as far as it can be drawn: what has run, what never will, and arrows for the broken rule.

A deadlock described in a sentence is hard to follow: its ops are on several devices, and each link names four of them.
With arrows the circle is seen at once. Other broken rules get an arrow, too: from the op to the one it needs, or to
where it belongs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from gpipe_edu.schedule import Op, Problem, Schedule
from gpipe_edu.schedule.deadlock import circle, links

from .costs import Costs
from .simulate import DEFAULT, run
from .timeline import Span

_MOST: Final = 8
"""Problems that are drawn: the first ones have to be fixed first, and more arrows would be hard to read."""


class Arrow(NamedTuple):
    """From an op to the one it waits for; turn: only because that one comes before it on its own device."""

    start: Span
    end: Span
    turn: bool = False


class StuckSchedule(NamedTuple):
    """How far a schedule that cannot run gets; `problem` is its first.

    ran: ops with their planned times. stuck: ops that never run, side by side after those of their device. absent:
    ops that should be there and are not, after all others. wrong: those of all these that break the rule.
    """

    name: str
    devices: int
    problem: Problem
    ran: tuple[Span, ...]
    stuck: tuple[Span, ...]
    absent: tuple[Span, ...]
    wrong: tuple[Span, ...]
    arrows: tuple[Arrow, ...]

    def row(self, device: int) -> list[Span]:
        """All spans of one device, in order."""
        return [span for span in (*self.ran, *self.stuck, *self.absent) if span.device == device]

    @property
    def end(self) -> float:
        """Where the last of all these ops ends."""
        return max(span.end for span in (*self.ran, *self.stuck, *self.absent))


def standstill(schedule: Schedule, costs: Costs = DEFAULT) -> StuckSchedule:
    """Where `schedule` stops. Raises ValueError if it can run, or if it has no ops at all."""
    problems = schedule.problems()
    if not problems or not schedule.stages:
        raise ValueError("only a schedule that has ops and cannot run comes to a standstill; simulate one that can")
    duration = costs.durations(schedule)
    rows: list[list[Span]] = [[] for _ in schedule.rows]
    for span in run(schedule, duration, costs.send, costs.link, sizes=costs.sizes)[0]:
        rows[span.device].append(span)
    ran = [len(row) for row in rows]
    for device, ops in enumerate(schedule.rows):
        for op in ops[ran[device] :]:
            _append(rows, device, op, duration(op))
    stuck = tuple(span for row, count in zip(rows, ran, strict=True) for span in row[count:])
    before = [len(row) for row in rows]
    arrows, wrong = [], []
    for problem in problems[:_MOST]:
        for arrow in _arrows(schedule, problem, rows, duration):
            arrows.append(arrow)
            wrong += [arrow.start, *([] if arrow.turn else [arrow.end])]
        wrong += [span for row in rows for span in row if span.op == problem.op]
    return StuckSchedule(
        schedule.name,
        schedule.devices,
        problems[0],
        tuple(span for row, count in zip(rows, ran, strict=True) for span in row[:count]),
        stuck,
        tuple(span for row, count in zip(rows, before, strict=True) for span in row[count:]),
        tuple(dict.fromkeys(wrong)),
        tuple(arrows),
    )


def _append(rows: list[list[Span]], device: int, op: Op, cost: float) -> Span:
    """Add an op after those of `device`."""
    start = rows[device][-1].end if rows[device] else 0.0
    rows[device].append(Span(device, op, start, start + cost))
    return rows[device][-1]


def _arrows(
    schedule: Schedule, problem: Problem, rows: list[list[Span]], duration: Callable[[Op], float]
) -> Iterator[Arrow]:
    """The arrows of a broken rule; absent ops are added at the ends of their rows."""
    spans = [span for row in rows for span in row]
    of = {span.op: span for span in spans}
    op = problem.op
    if problem.code == "deadlock":
        yield from (Arrow(of[start], of[end], turn) for start, end, turn in links(circle(schedule)))
    elif op is None or problem.code == "out-of-range":
        return
    elif problem.code == "order":
        here = of[op]
        for need in schedule.needs(op):
            if of[need].device == here.device and of[need].start > here.start:
                yield Arrow(here, of[need])
    elif problem.code == "duplicate":
        first, *others = [span for span in spans if span.op == op]
        for again in others:
            yield Arrow(again, first)
    else:
        yield from _elsewhere(schedule, problem.code, op, spans, rows, duration)


def _elsewhere(
    schedule: Schedule,
    code: str,
    op: Op,
    spans: list[Span],
    rows: list[list[Span]],
    duration: Callable[[Op], float],
) -> Iterator[Arrow]:
    """From an op that is there to where it belongs, or to the op it lacks."""
    cell = [span for span in spans if span.op[1:] == op[1:] and span.op != op]
    if code == "mixed":
        yield from (Arrow(span, other) for span in spans if span.op == op for other in cell[-1:])
        return
    cost = duration(op)
    if code == "missing":
        absent = _append(rows, schedule.device_of_stage[op.stage], op, cost)
        yield from (Arrow(span, absent) for span in cell[-1:])
        return
    ((home, _),) = Counter(span.device for span in spans if span.op.stage == op.stage).most_common(1)
    for span in spans:
        if span.op == op and span.device != home:
            yield Arrow(span, _append(rows, home, op, cost))
