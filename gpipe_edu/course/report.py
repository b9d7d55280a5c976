"""What a learner reads after a check: the same sentences in a notebook, a terminal and a class's list of marks."""

from __future__ import annotations

import re
from typing import Any

from gpipe_edu.base.atomic_write import printable
from gpipe_edu.base.words import plural
from gpipe_edu.judge.findings import STOPPED, Chart, Finding, Report, Trouble
from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.timeline import Costs, Span, Timeline, simulate
from gpipe_edu.timeline.simulate import replay
from gpipe_edu.timeline.stuck_schedule import StuckSchedule, standstill

from . import how_to_ask

_PRINTED = 400
_GREEN, _AMBER, _RED = "#2E8B57", "#C77700", "#D1453B"
_CHANGES_WHAT_IS_GIVEN = {"input-changed", "overwritten", "spoilt", "updated"}
"""Promises whose breach makes later computations with the changed values go wrong, where the reason does not show."""
_SHARES = {0.25: "a quarter", 0.5: "half"}


def as_markdown(report: Report) -> str:
    """The report for a notebook: right, right except for a broken promise, or not right yet."""
    parts, finding = [f"**{headline(report)}**"], report.first
    if finding:
        parts[0] += f" {finding.because}"
        block = "\n".join(evidence(finding))
        if block:
            parts.append(_fence(block))
        if finding.trouble and finding.slip != "arguments" and (lines := _trouble(finding.trouble)):
            parts.append(_fence("\n".join(lines)))
    broken = _broken(report)
    if report.state == "passed":
        parts += [f"Besides: {one.because}" for one in broken[1:]]
    else:
        parts += [f"It may come from this: {one.because}" for one in broken if one.slip in _CHANGES_WHAT_IS_GIVEN]
    if report.success:
        parts.append(report.success.words)
    if report.printed.strip() and finding:
        parts.append(f"Your code printed:\n\n{_fence(_shorten(report.printed))}")
    if finding:
        parts.append(_again(report))
    return "\n\n".join(parts)


def dot(report: Report) -> str:
    """The verdict as a colour in front of its words: green, amber, red; each is seen on white and on black."""
    colour = _RED if report.state != "passed" else _AMBER if report.passed_over else _GREEN
    return f'<span style="color: {colour}">&#9679;</span> '


def cost(report: Report) -> str:
    """What the broken promises mean for the learner; "" where none is broken or the answer is wrong."""
    if report.state != "passed" or not report.passed_over:
        return ""
    share = _SHARES[report.exercise.cost(finding.slip for finding in report.passed_over)]
    return f"It counts as solved. In a class this costs {share} of the points."


def _broken(report: Report) -> list[Finding]:
    """What showed first of each broken promise."""
    found: dict[str, Finding] = {}
    for one in report.passed_over:
        found.setdefault(report.exercise.promises[one.slip], one)
    return list(found.values())


def _fence(text: str) -> str:
    """The text in a fence that nothing in it can close, without characters that a terminal would obey."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{printable(text)}\n{fence}"


def headline(report: Report) -> str:
    """One line: the task and how it stands."""
    if report.state == "passed":
        if broken := len(_broken(report)):
            return f"{report.key}: right, but for {'one promise' if broken == 1 else f'{broken} promises'}."
        return f"{report.key}: passed, {plural(report.calls, 'call')}."
    if report.state == "unwritten":
        stub = f"{report.key}: {report.exercise.function} is not written yet."
        return f"{stub} Put your code in the place of `raise NotImplementedError`."
    return f"{report.key}: not yet."


def drawings(charts: tuple[Chart, ...]) -> list[Timeline | StuckSchedule]:
    """The charts, as far as they can be drawn: a schedule that cannot run, up to where it stops."""
    return [drawing for chart in charts if (drawing := _drawing(chart)) is not None]


def _drawing(chart: Chart) -> Timeline | StuckSchedule | None:
    if chart.ticks is not None:
        spans = [Span(k, Op("F", m, k), t, t + 1) for t, tick in enumerate(chart.ticks) for m, k in tick]
        devices = 1 + max((span.device for span in spans), default=-1)
        return Timeline(spans, devices, name=chart.name) if spans else None
    schedule = Schedule.parse(chart.rows, name=chart.name)
    if schedule.problems():
        return standstill(schedule, _costs(chart, schedule.stages)) if schedule.stages else None
    if chart.sizes is not None:
        return replay(schedule, _durations(chart))
    return simulate(schedule, Costs(F=chart.F, B=chart.B))


def _costs(chart: Chart, stages: int) -> Costs:
    """The chart's costs; the default ones where an answer has another number of stages than costs were given for."""
    fits = all(len(cost) == stages for cost in (chart.F, chart.B) if isinstance(cost, list))
    return Costs(F=chart.F, B=chart.B) if fits else Costs()


def _durations(chart: Chart) -> Any:
    sizes, times = chart.sizes or [], {"F": chart.F, "B": chart.B}
    return lambda op: sizes[op.micro_batch] * times[op.kind]


def evidence(finding: Finding) -> list[str]:
    """The call, what was expected and what came, line by line."""
    lines = [finding.call] if finding.call else []
    for name, text in (
        ("expected", finding.expected),
        ("came", finding.came),
        ("first difference", finding.difference),
    ):
        if text:
            first, *rest = text.splitlines()
            lines += [f"  {name:16}  {first}", *(f"  {'':16}  {line}" for line in rest)]
    return lines


def _trouble(trouble: Trouble) -> list[str]:
    lines = []
    if trouble.kind not in STOPPED:
        lines.append(f"{trouble.kind}: {trouble.message}")
    elif trouble.kind == "stopped" and trouble.where:
        lines.append("it was here:")
    where = [f"  line {line.number} in {line.function}:  {line.text}" for line in trouble.where]
    lines += dict.fromkeys(where)  # a recursive function appears once
    return lines


def _again(report: Report) -> str:
    return f"The same inputs again: {how_to_ask.check(report.key, report.exercise.function, report.seed)}."


def _shorten(text: str) -> str:
    text = text.rstrip()
    return text if len(text) <= _PRINTED else text[:_PRINTED] + " ..."
