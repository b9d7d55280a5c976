"""The marks as files that other programs read: CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gpipe_edu.base.atomic_write import write_whole
from gpipe_edu.base.words import plural
from gpipe_edu.judge.exercise import all_exercises

from .grade import Class
from .marks import Mark, number, points
from .roster import Roster

_LOOK: Final = "look at it"
"""The column of what may bear on a mark, for a person to decide."""

_MOST_NAMES: Final = 5

_BEGINS: Final = "=+@\uff1d\uff0b\uff20\uff0d"
"""What a formula may begin with, besides "-", including full-width forms."""


def write(out: Path, graded: Class, who: Roster | None) -> None:
    """Write all tables, each whole or not at all. Raises OSError."""
    keys = _keys(graded)
    write_whole(out / "marks.csv", _marks(graded, keys, who))
    write_whole(out / "answers.csv", _answers(graded))
    write_whole(out / "marks.json", json.dumps(as_data(graded), indent=1, ensure_ascii=False) + "\n")


def as_data(graded: Class) -> dict[str, Any]:
    """The marks as plain data."""
    return {
        "layout": graded.handed_in.layout,
        "seeds": list(graded.seeds),
        "tasks": {key: points(key) for key in _keys(graded)},
        "students": {
            student: {
                key: {
                    "state": one.state,
                    "points": one.points,
                    "slip": one.slip,
                    "why": one.why,
                    "notes": list(one.notes),
                }
                for key, one in row.items()
            }
            for student, row in graded.marks.items()
        },
    }


def total(row: Mapping[str, Mark]) -> float | None:
    """The points of a student; None if something could not be judged."""
    found = [one.points for one in row.values()]
    return None if any(one is None for one in found) else round(sum(one or 0.0 for one in found), 2)


def words_for_left_out(graded: Class) -> str:
    """What is said of tasks that nobody has handed in, as when one exercise of many was homework; "" if there are
    none."""
    if not (count := len(graded.left_out)):
        return ""
    return (
        f"Nobody handed in {plural(count, 'other task')}, which count{'s' if count == 1 else ''} for nobody; --tasks "
        "names what was asked for."
    )


def safe(text: str) -> str:
    """Text that a spreadsheet takes as text, even if it begins like a formula, or goes on like one after a semicolon,
    which separates cells where decimals have a comma. What a terminal would obey is escaped.
    """
    text = re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: ascii(found[0])[1:-1], " ".join(text.split()))
    text = re.sub(rf"(;[\s\"]*)(?=[{_BEGINS}-])", r"\1'", text)
    return f"'{text}" if re.match(rf"[{_BEGINS}-]", text) and not re.fullmatch(r"[+-]?\d+([.,]\d+)?", text) else text


def _keys(graded: Class) -> list[str]:
    there = {key for row in graded.marks.values() for key in row}
    return [key for key in all_exercises() if key in there]


def _marks(graded: Class, keys: list[str], who: Roster | None) -> str:
    largest = sum(points(key) for key in keys)
    new = [*keys, "total", "of", "remark", _LOOK]
    if who is None:
        rows = [{"student": student, **_row(graded, student, keys, largest)} for student in graded.marks]
        return _csv(["student", *new], rows)
    names = {name: name if name not in who.columns else f"gpipe_edu {name}" for name in new}
    times = Counter(who.whose.values())
    rows = []
    for index, row in enumerate(who.rows):
        student = who.whose.get(index, "")
        filled = {"of": str(largest), "remark": "nothing handed in"}
        if student in graded.marks:
            filled = _row(graded, student, keys, largest)
        elif index in who.unclear:
            may_be = " or ".join(who.unclear[index])
            filled["remark"] = (
                f"no marks here, as {may_be} may be this student or another whose name differs only in accents or case"
            )
        if times[student] > 1:
            filled["remark"] = "; ".join(filter(None, [filled["remark"], "this name stands here more than once"]))
        rows.append({**row, **{names[name]: value for name, value in filled.items()}})
    for student in sorted(set(graded.marks) - set(who.whose.values())):
        filled = {**_row(graded, student, keys, largest), "remark": f"not in the roster: {student}"}
        rows.append({names[name]: value for name, value in filled.items()})
    return _csv([*who.columns, *names.values()], rows)


def _row(graded: Class, student: str, keys: list[str], largest: int) -> dict[str, str]:
    row, alike = graded.marks[student], graded.alike.get(student, {})
    open_ones = [key for key in keys if row[key].points is None]
    look = [f"{key}: {note}" for key in keys for note in row[key].notes]
    look += [f"{key}: the same text as {', '.join(alike[key][:_MOST_NAMES])}" for key in keys if key in alike]
    return {
        **{key: number(row[key].points) for key in keys},
        "total": number(total(row)),
        "of": str(largest),
        "remark": f"not judged: {', '.join(open_ones)}" if open_ones else "",
        _LOOK: "; ".join(look),
    }


def _answers(graded: Class) -> str:
    rows = [
        {
            "student": student,
            "task": key,
            "state": one.state,
            "points": number(one.points),
            "of": str(points(key)),
            "slip": one.slip,
            "why": one.why,
            "notes": "; ".join(one.notes),
        }
        for student, row in graded.marks.items()
        for key, one in row.items()
    ]
    return _csv(["student", "task", "state", "points", "of", "slip", "why", "notes"], rows)


def _csv(columns: list[str], rows: list[dict[str, str]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([safe(name) for name in columns])
    writer.writerows([safe(row.get(name, "")) for name in columns] for row in rows)
    return text.getvalue()
