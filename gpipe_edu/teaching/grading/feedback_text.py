"""The feedback on one mark, on a page and where only text can be shown."""

from __future__ import annotations

from gpipe_edu.base.atomic_write import printable
from gpipe_edu.course.notebook.output import plain
from gpipe_edu.course.report import as_markdown
from gpipe_edu.judge.findings import Report

from .marks import Mark, number, points


def student_report(report: Report) -> Report:
    """The report that a student reads: for an answer that only breaks promises, the one about the first of them."""
    if report.state == "passed" and report.passed_over:
        return report._replace(state="wrong", finding=report.passed_over[0], success=None)
    return report


def worth(mark: Mark) -> str:
    """The points, and out of how many."""
    return "no mark" if mark.points is None else f"{number(mark.points)} of {points(mark.key)}"


def as_text(mark: Mark) -> str:
    """What a student reads about one task."""
    body = mark.why if mark.report is None else plain(as_markdown(student_report(mark.report)))
    return printable("\n".join([body, *(f"({note})" for note in mark.notes)]))
