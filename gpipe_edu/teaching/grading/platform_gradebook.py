"""What a platform takes back: the gradebook that it has exported, with the marks in one column, and a zip of feedback.

Only that column is changed, since a platform finds people and activities by the others. The names of columns and
folders are those that Canvas' `gradebook_exporter.rb` writes, and Moodle's `mod/assign` writes and reads.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from gpipe_edu.base.atomic_write import escape, write_whole
from gpipe_edu.base.words import join_words, plural

from .file_listing import Sent
from .grade import Class
from .marks import number, points
from .marks_tables import total
from .roster import Roster
from .submissions import HandedIn

GRADEBOOK: Final = "gradebook.csv"
FEEDBACK: Final = "moodle_feedback.zip"

_ACTIVITY: Final = re.compile(r".*\(\d+\)", re.DOTALL)
"""A column of Canvas that marks can go to: its name ends in Canvas' own number."""

_POSSIBLE: Final = "Points Possible"
"""In the first cell of the row in which Canvas says what each activity is worth."""

_SUBMITTED: Final = "Last modified (submission)"
_TIMES: Final = ("%A, %d %B %Y, %I:%M %p", "%A, %d %B %Y, %H:%M")
"""How Moodle writes a time, in English."""


class Target(NamedTuple):
    """The column of a roster that the marks go to. largest: the most that can be there, None if nothing says."""

    column: str
    largest: float | None


def find_target(who: Roster, wanted: str) -> Target | None:
    """The column that is called `wanted`, or has it in its name; for "", the one that Moodle or Canvas fills.

    None for "" where it is no such gradebook, or one with many activities. Raises ValueError where several columns
    fit, or none does.
    """
    open_ones: dict[str, float | None]
    possible = next((row for row in who.cells if row and _POSSIBLE in row[0]), None)
    if possible is not None:
        worth = {name: _figure(cell) for name, cell in zip(who.columns, possible, strict=False)}
        open_ones = {name: most for name, most in worth.items() if _ACTIVITY.fullmatch(name) and most is not None}
    elif {"Identifier", "Grade"} <= set(who.columns):
        largest = [_figure(row.get("Maximum Grade", row.get("Maximum grade", ""))) for row in who.rows]
        open_ones = {"Grade": next(filter(None, largest), None)}
    else:
        open_ones = dict.fromkeys(filter(None, who.columns)) if wanted else {}
    if not wanted and len(open_ones) != 1:
        return None
    found = [wanted] if wanted in open_ones else [name for name in open_ones if wanted.casefold() in name.casefold()]
    if len(found) != 1:
        raise ValueError(
            f"--column {wanted!r} fits {plural(len(found), 'column')} of the roster's; say which gets the marks: "
            f"{join_words(found or open_ones)}"
        )
    return Target(found[0], open_ones[found[0]])


def write_gradebook(out: Path, graded: Class, who: Roster, target: Target) -> str:
    """Write the roster as it was, with the marks in the target's column. Returns what was done. Raises OSError.

    Those who have handed in nothing, or have no mark yet, keep what is there.
    """
    most = sum(points(key) for key in next(iter(graded.marks.values())))
    scale = target.largest / most if target.largest and most else 1.0
    totals = {index: total(graded.marks[student]) for index, student in who.whose.items() if student in graded.marks}
    values = {index: number(scale * value) for index, value in totals.items() if value is not None}
    write_whole(out / GRADEBOOK, who.filled(target.column, values))
    told = f"{GRADEBOOK} is the roster with {plural(len(values), 'mark')} in the column {target.column!r}"
    if target.largest is None:
        return f"{told}, out of {most}; nothing there tells what the platform's largest is."
    return f"{told}" + (f", {most} points made {number(target.largest)}." if target.largest != most else ".")


def with_times(handed_in: HandedIn, who: Roster) -> HandedIn:
    """The hand-ins with the times at which Moodle's worksheet says that they were made."""
    students = dict(handed_in.students)
    for index, row in enumerate(who.rows):
        student = who.whose.get(index, "")
        for form in _TIMES if student in students else ():
            with suppress(ValueError):
                sent = Sent(datetime.strptime(row.get(_SUBMITTED, ""), form), "Moodle's worksheet")
                students[student] = [file._replace(sent=sent) for file in students[student]]
    return handed_in._replace(students=students)


def write_feedback(out: Path, pages: Mapping[str, str], handed_in: HandedIn) -> None:
    """For hand-ins from Moodle: its zip of feedback files, a page for each student. Raises OSError.

    Moodle finds a student by the number in the folder's name, which it splits at underscores; the last of them is for
    versions before 4.1.
    """
    if not handed_in.layout.startswith("Moodle"):
        return
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for student, page in pages.items():
            if student in handed_in.numbers:
                folder = f"{student.replace('_', ' ')}_{handed_in.numbers[student]}_assignsubmission_file_"
                entry = zipfile.ZipInfo(f"{folder}/feedback.html", (2020, 1, 1, 0, 0, 0))  # the same in every run
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, escape(page))
    write_whole(out / FEEDBACK, data.getvalue())


def _figure(text: str) -> float | None:
    """A number that a platform has written, with a point or a comma; None for anything else."""
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return None
