"""Diagrams as people draw them: a grid with one time slot per column, checked against the rules.

    F0 F1 .  .  B1 B0      device 0
    .  F0 F1 B1 B0 .       device 1: a stage may start no micro-batch before the stage in front has finished it

A `Schedule` holds no times, so it cannot even express a box that is drawn too early. A drawing can, and many do. Here
a drawing becomes a timeline with the times it claims, and `contradictions` says which of them are impossible.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from gpipe_edu.schedule import Schedule, ScheduleError
from gpipe_edu.schedule.doctor import reason
from gpipe_edu.schedule.notation import parse_rows

from .stuck_schedule import Arrow, standstill
from .timeline import Span, Timeline

_IDLE, _LONGER = ".", "-"


def read_diagram(text: str, name: str = "") -> Timeline:
    """The timeline that a drawing claims: a line per device, a word per time slot.

    A word is an op as in `Schedule.parse`, "." for an idle slot, or "-" where the op on its left goes on. Blank lines
    and comments after "#" are skipped.

    Raises ScheduleError for a word that is none of these, ValueError for a "-" with no op on its left or a drawing
    without ops, TypeError for what is not text.
    """
    if not isinstance(text, str):
        raise TypeError(f'read_diagram takes text such as "F0 . B0", a line per device; got {text!r}')
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    try:
        ops = parse_rows("\n".join(_only_ops(words) for words in lines))
    except ScheduleError as error:
        hint = f'{error}; in a diagram, "{_IDLE}" is an idle slot and "{_LONGER}" continues the op on its left'
        raise ScheduleError([error.problems[0]._replace(message=hint)]) from None
    spans: list[Span] = []
    for device, (words, row) in enumerate(zip(filter(None, lines), ops, strict=True)):
        rest = iter(row)
        running = False
        for slot, word in enumerate(words):
            if word == _LONGER:
                if not running:
                    raise ValueError(f'device {device}, slot {slot}: "-" continues an op, but none is on its left')
                spans[-1] = spans[-1]._replace(end=slot + 1)
            elif word != _IDLE:
                spans.append(Span(device, next(rest), slot, slot + 1))
            running = word != _IDLE
    if not spans:
        raise ValueError('the diagram has no ops; write a line per device and a word per slot, such as "F0 . B0"')
    return Timeline(spans, len(ops), name=name, source="drawn")


def contradictions(timeline: Timeline) -> list[str]:
    """What is impossible in `timeline`, in sentences, earliest first; [] if it could happen as drawn.

    First comes what the schedule doctor says about the order of its ops. If that order can run: every op that starts
    before its device is free, or before an op that it needs has ended.
    """
    schedule = _schedule(timeline)
    if problems := schedule.problems():
        return [problem.message for problem in problems]
    return [
        f"{span.op} starts at {span.start:g}, but {need.op} ends at {need.end:g}: {why}"
        for span, need, why in _conflicts(timeline, schedule)
    ]


def contradiction_arrows(timeline: Timeline) -> list[Arrow]:
    """What is impossible in a drawing, as arrows from an op to the one it needs; [] where a rule has no second op."""
    schedule = _schedule(timeline)
    if not schedule.problems():
        return [Arrow(span, need) for span, need, _ in _conflicts(timeline, schedule)]
    # Each span starts where it was drawn, not where the schedule would run it.
    drawn = {(span.device, span.op): span for span in timeline.spans}
    return [
        Arrow(drawn[start.device, start.op], drawn[end.device, end.op], turn)
        for start, end, turn in standstill(schedule).arrows
        if (end.device, end.op) in drawn
    ]


def _schedule(timeline: Timeline) -> Schedule:
    """The order of its ops."""
    return Schedule([[span.op for span in timeline.row(device)] for device in range(timeline.devices)])


def _conflicts(timeline: Timeline, schedule: Schedule) -> Iterator[tuple[Span, Span, str]]:
    """Every op that starts before one that it needs has ended, that one, and why it is needed."""
    span_of = {span.op: span for span in timeline.spans}
    before = {after.op: span for device in range(timeline.devices) for span, after in pairwise(timeline.row(device))}
    for span in timeline.spans:
        reasons = {need: reason(span.op, need) for need in schedule.needs(span.op)}
        if span.op in before:
            reasons.setdefault(before[span.op].op, "a device runs one op at a time")
        for need, why in reasons.items():
            if span_of[need].end > span.start:
                yield span, span_of[need], why


def _only_ops(words: list[str]) -> str:
    """The line without its times, as `Schedule.parse` reads it, where "-" alone is a device without ops."""
    ops = [word for word in words if word not in (_IDLE, _LONGER)]
    return " ".join(ops) or ("-" if words else "")
