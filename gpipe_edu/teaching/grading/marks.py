"""What an answer is worth: points per task; a broken promise in an otherwise right answer costs only a part of them; a
wrong one that is right in part earns up to half, where a teacher wants that; and the feedback on one mark, on a page
and where only text can be shown.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from gpipe_edu.base.atomic_write import printable
from gpipe_edu.course.notebook.output import plain
from gpipe_edu.course.report import as_markdown
from gpipe_edu.judge.findings import Finding, Report

STATES: Final = {
    "passed": "right",
    "partly": "right, except for a promise outside the algorithm",
    "wrong": "not right",
    "unwritten": "still the stub",
    "broken": "its cell is not valid Python",
    "missing": "no such function was handed in",
    "refused": "the file, or something in it, could not be handled",
    "not judged": "it could not be judged, which is not the answer's fault: no mark",
}


class Mark(NamedTuple):
    """One task of one student. points: None where it could not be judged. why: a sentence, "" if passed.

    slip: the misconception, if there is one. report: of the worst seed.
    """

    key: str
    state: str
    points: float | None
    why: str = ""
    slip: str = ""
    report: Report | None = None
    notes: tuple[str, ...] = ()

    @property
    def finding(self) -> Finding | None:
        """What was wrong."""
        return self.report.first if self.report else None


@cache
def _scheme() -> Any:
    return tomllib.loads((files(__package__) / "marking.toml").read_text(encoding="utf-8"))


def points(key: str) -> int:
    """What a right answer is worth."""
    found: int = _scheme()["points"][key]
    return found


def set_points(found: Mapping[str, int]) -> None:
    """Give these tasks other points, for as long as this process lives."""
    _scheme()["points"].update(found)


def set_partial(found: Mapping[str, float]) -> None:
    """Let wrong answers to these tasks earn up to such shares of the points, for as long as this process lives."""
    _scheme()["partial"].update(found)


def number(value: float | None) -> str:
    """Points as they are usually written, "" for None."""
    return "" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def share(report: Report) -> float:
    """The part of the points, from 0 to 1, that a report earns."""
    if report.state != "passed":
        return 0.0
    return 1.0 - report.exercise.cost(finding.slip for finding in report.passed_over)


def _right_in_part(report: Report) -> tuple[float, str]:
    """The share that a wrong answer earns by the cases that it got right before the first wrong one, and a note."""
    most, cases = _scheme()["partial"].get(report.key, 0.0), report.exercise.cases
    right = min(report.calls - 1, cases)
    if report.state != "wrong" or not most or right < 1:
        return 0.0, ""
    return (
        most * right / cases,
        f"right in {right} of about {cases} cases before: {most * right / cases:.0%} of the points",
    )


def mark(reports: Sequence[Report], all_or_nothing: bool = False, notes: tuple[str, ...] = ()) -> Mark:
    """The mark for the reports of one answer with several seeds: that of the worst report."""
    worst = min(reports, key=lambda report: (report.state == "passed", share(report) + _right_in_part(report)[0]))
    some, note = _right_in_part(worst)
    part = share(worst) + some
    state = worst.state if worst.state != "passed" else "passed" if part == 1 else "partly"
    earned = 0.0 if all_or_nothing and part < 1 else part * points(worst.key)
    finding = worst.first
    because, slip = (finding.because, finding.slip) if finding else ("", "")
    why = "The function is still the stub." if state == "unwritten" else because
    notes = (*notes, note) if note and earned else notes
    return Mark(worst.key, state, round(earned, 2), why, slip, worst, notes)


def worth(mark: Mark) -> str:
    """The points, and out of how many."""
    return "no mark" if mark.points is None else f"{number(mark.points)} of {points(mark.key)}"


def as_text(mark: Mark) -> str:
    """What a student reads about one task."""
    body = mark.why if mark.report is None else plain(as_markdown(mark.report))
    return printable("\n".join([body, *(f"({note})" for note in mark.notes)]))
