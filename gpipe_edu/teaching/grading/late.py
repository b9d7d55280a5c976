"""Hand-ins after the deadline: what each day costs, and who has more time."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from gpipe_edu.base.words import join_words, plural

from .by_hand import rows_of
from .file_listing import Sent
from .marks import Mark, points
from .submissions import HandedIn

EXTENSIONS: Final = "extensions.csv"
"""Beside the marks: `student,task,due`, a row for each student who has more time; no task means all of them."""

Extensions = Mapping[tuple[str, str], datetime]
"""By student and task."""

_SECONDS: Final = 24 * 60 * 60


class Deadline(NamedTuple):
    """When a task is due, by this machine's clock, and the part of its points that each day begun after that costs."""

    due: datetime
    per_day: float


def read_deadlines(path: Path) -> dict[str, Deadline]:
    """By task, the deadlines in the columns `task`, `due` and `per_day` of a CSV. Raises ValueError."""
    found = {}
    for where, row in rows_of(path, ("task",)):
        due, per_day = row.get("due", ""), row.get("per_day", "")
        if per_day and not due:
            raise ValueError(f"{where} has per_day {per_day!r} but no due, such as 2026-11-20 23:59")
        if due:
            found[row["task"]] = Deadline(_time(where, due), _part(where, per_day))
    return found


def read_extensions(out: Path, students: Collection[str], tasks: Collection[str]) -> Extensions:
    """The extensions in the folder with the marks; none if there is no such file. Raises ValueError."""
    path = out / EXTENSIONS
    if not path.exists():
        return {}
    found = {}
    for where, row in rows_of(path, ("student", "due")):
        if row["student"] not in students:
            raise ValueError(f"{where} names the student {row['student']!r}, who is not among the hand-ins")
        task = row.get("task", "")
        if task and task not in tasks:
            raise ValueError(f"{where} names the task {task!r}; there are {', '.join(tasks)}, or none for all of them")
        for key in [task] if task else tasks:
            found[row["student"], key] = _time(where, row["due"])
    return found


def clocks(handed_in: HandedIn) -> str:
    """What says when a class's work was handed in, in a sentence or two."""
    sent = {name: [file.sent for file in files] for name, files in handed_in.students.items() if files}
    sources = sorted({one.source for theirs in sent.values() for one in theirs if one.time is not None})
    silent = sum(all(one.time is None for one in theirs) for theirs in sent.values())
    told = [f"Late is counted by {join_words(sources)}."] if sources else []
    told += [f"Nothing tells by how much {plural(silent, 'hand-in')} may be late."] if silent else []
    return " ".join(told)


def is_late(sent: Sent, deadline: Deadline | None) -> bool:
    """Whether it came after the deadline of the class, when others may have had their feedback."""
    return deadline is not None and (sent.late or (sent.time is not None and sent.time > deadline.due))


def charge(student: str, one: Mark, sent: Sent, deadline: Deadline | None, extensions: Extensions) -> Mark:
    """The mark without what the days after the deadline cost, with a note that says so."""
    if deadline is None or not is_late(sent, deadline):
        return one
    if sent.time is None:
        note = f"late, as {sent.source} tells, but not how many days: nothing was taken off"
        return one._replace(notes=(note, *one.notes))
    due = extensions.get((student, one.key), deadline.due)
    came = f"handed in {_short(sent.time)}, as {sent.source} tells; due {_short(due)}"
    days = max(0, math.ceil((sent.time - due).total_seconds() / _SECONDS))
    if not days:
        return one._replace(notes=(f"{came}, by an extension", *one.notes))
    off = min(one.points or 0.0, round(days * deadline.per_day * points(one.key), 2))
    kept = None if one.points is None else round(one.points - off, 2)
    note = f"{plural(days, 'day')} late: {came}" + (f"; {plural(off, 'point')} off" if off else "")
    return one._replace(points=kept, notes=(note, *one.notes))


def _time(where: str, text: str) -> datetime:
    """A time by this machine's clock; the text may or may not say which clock it means."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{where} has the time {text!r}; write it as 2026-11-20 23:59") from None
    return time.astimezone().replace(tzinfo=None) if time.tzinfo else time


def _part(where: str, text: str) -> float:
    try:
        percent = float(text.removesuffix("%") or 0)
    except ValueError:
        percent = math.nan
    if not 0 <= percent <= 100:
        raise ValueError(f"{where} has per_day {text!r}; it is a percentage of the task's points, such as 10%")
    return percent / 100


def _short(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"
