"""What is said of one mark where only text can be shown."""

from __future__ import annotations

from gpipe_edu.course.page import plain
from gpipe_edu.course.report import as_markdown

from .marks import Mark, points
from .tables import number


def worth(mark: Mark) -> str:
    """The points, and out of how many."""
    return "no mark" if mark.points is None else f"{number(mark.points)} of {points(mark.key)}"


def as_text(mark: Mark) -> str:
    """What a student reads of one task."""
    report = mark.report
    if report is None:
        body = mark.why
    elif report.state == "passed" and report.passed_over:
        body = plain(as_markdown(report._replace(state="wrong", finding=report.passed_over[0], success=None)))
    else:
        body = plain(as_markdown(report))
    return "\n".join([body, *(f"({note})" for note in mark.notes)])
