"""What a person decides about marks: points of tasks of their own, and marks that no judge changes again."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from gpipe_edu.base.words import plural

from .marks import Mark, number

OVERRIDE: Final = "override.csv"
"""Beside the marks: `student,task,points,why`, a row for each mark that is set by hand."""

_MOST_PARTIAL: Final = 50
"""Percent: an answer that is right but for its promises gets at least as much."""

Overrides = Mapping[tuple[str, str], tuple[float, str]]
"""By student and task: the points, and why."""


def read_points(path: Path, tasks: Collection[str]) -> dict[str, int]:
    """The points of `task,points` in a CSV, except where they are empty. Raises ValueError."""
    found = {}
    for where, row in rows_of(path, ("task", "points")):
        if row["task"] not in tasks:
            raise ValueError(f"{where} names the task {row['task']!r}; there are {', '.join(tasks)}")
        if row["points"] and not row["points"].isdecimal():
            raise ValueError(f"{where} has the points {row['points']!r}; they must be a whole number")
        if row["points"]:
            found[row["task"]] = int(row["points"])
    return found


def read_partial(path: Path) -> dict[str, float]:
    """By task, the most that a wrong answer can earn, as a share of the points: `task,partial` in a CSV, such as 50%.

    Raises ValueError for what is no percentage up to 50%.
    """
    found = {}
    for where, row in rows_of(path, ("task",)):
        text = row.get("partial", "")
        try:
            percent = float(text.removesuffix("%") or 0)
        except ValueError:
            percent = math.nan
        if not (percent == 0 or 1 <= percent <= _MOST_PARTIAL):  # 0.5 may mean half
            raise ValueError(
                f"{where} has partial {text!r}; it is a percentage of the points, 0 or 1% to {_MOST_PARTIAL}%"
            )
        found[row["task"]] = percent / 100
    return found


def read_overrides(out: Path, students: Collection[str], tasks: Collection[str]) -> Overrides:
    """The overrides in the folder with the marks; none if there is no such file. Raises ValueError."""
    path, found = out / OVERRIDE, {}
    if not path.exists():
        return {}
    for where, row in rows_of(path, ("student", "task", "points")):
        if row["student"] not in students:
            raise ValueError(f"{where} names the student {row['student']!r}, who is not among the hand-ins")
        if row["task"] not in tasks:
            raise ValueError(f"{where} names the task {row['task']!r}; there are {', '.join(tasks)}")
        try:
            points = float(row["points"])
        except ValueError:
            points = math.nan
        if not 0 <= points < math.inf:
            raise ValueError(f"{where} has the points {row['points']!r}; they must be a number from 0 on")
        found[row["student"], row["task"]] = points, row.get("why", "")
    return found


def override(student: str, one: Mark, overrides: Overrides) -> Mark:
    """The mark as a person has set it, with a note that says so; unchanged if nobody has."""
    if (student, one.key) not in overrides:
        return one
    points, why = overrides[student, one.key]
    judged = "none" if one.points is None else number(one.points)
    note = f"set by hand to {plural(points, 'point')}, from {judged}" + (f": {why}" if why else "")
    return one._replace(points=points, notes=(note, *one.notes))


def rows_of(path: Path, columns: tuple[str, ...]) -> list[tuple[str, dict[str, str]]]:
    """The rows of a CSV, each with its place. Raises ValueError where a column is missing."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    reader = csv.DictReader(io.StringIO(text, newline=""), restval="")
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise ValueError(f"{path} has no column {' and '.join(missing)}; it begins with a row of names, comma between")
    return [
        (f"{path}, line {reader.line_num},", {name: (value or "").strip() for name, value in row.items() if name})
        for row in reader
    ]
