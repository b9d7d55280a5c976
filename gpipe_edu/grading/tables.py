"""The marks as files that other programs read: CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpipe_edu.exercises import all_exercises
from gpipe_edu.writing import write_whole

from .grade import Class
from .marks import Mark, number, points

_LOOK: Final = "look at it"
"""The column of what may bear on a mark, for a person to decide."""

_MOST_NAMES: Final = 5


class Roster(NamedTuple):
    """A list of participants: its columns, its rows, and the student of each row that has handed in.

    unclear: the rows that may be a student's or another's, with the students that they may be.
    """

    columns: list[str]
    rows: list[dict[str, str]]
    whose: dict[int, str]
    unclear: dict[int, list[str]]


def roster(path: Path, students: Sequence[str]) -> Roster:
    """A roster whose rows are matched with the students, by the one or two columns that match most of them.

    Raises ValueError for a file in which none matches.
    """
    text = path.read_bytes().decode("utf-8-sig", errors="replace")
    reader = csv.DictReader(io.StringIO(text, newline=""), dialect=_dialect(text))
    rows = [{name: value or "" for name, value in row.items() if name is not None} for row in reader]
    columns = [name for name in reader.fieldnames or [] if name]
    best: tuple[dict[int, str], dict[int, list[str]]] = ({}, {})
    ways: list[tuple[str, ...]] = [(name,) for name in columns]
    ways += [(one, other) for one in columns for other in columns if one != other]
    for way in ways:
        found = _match([" ".join(row.get(column, "") for column in way) for row in rows], students)
        if len(set(found[0].values())) > len(set(best[0].values())):
            best = found
    if not best[0]:
        raise ValueError(
            f"no student of {path} is among the hand-ins, by whichever column; these are {', '.join(students[:3])}"
        )
    return Roster(columns, rows, *best)


def _match(names: Sequence[str], students: Sequence[str]) -> tuple[dict[int, str], dict[int, list[str]]]:
    """The student of each of these names, by its place; and those who may be, where it is not clear who is.

    A name that is written alike decides; else accents, case and blanks count for nothing, if only one is left of both.
    """
    alike = set(names).intersection(students)
    left_names, left_students = _by_plain(set(names) - alike), _by_plain(set(students) - alike)
    whose, unclear = {}, {}
    for place, name in enumerate(names):
        plain = _plain(name)
        if name in alike:
            whose[place] = name
        elif len(left_names[plain]) == len(left_students[plain]) == 1:
            whose[place] = next(iter(left_students[plain]))
        elif left_students[plain]:
            unclear[place] = sorted(left_students[plain])
    return whose, unclear


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


def safe(text: str) -> str:
    """Text that a spreadsheet takes for text, even if it begins like a formula."""
    text = " ".join(text.split())
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") and not re.fullmatch(r"[+-]?\d+([.,]\d+)?", text) else text


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


def _by_plain(names: set[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for name in names:
        found[_plain(name)].add(name)
    return found


def _dialect(text: str) -> type[csv.Dialect] | csv.Dialect:
    try:
        return csv.Sniffer().sniff(text.partition("\n")[0], delimiters=",;\t")
    except csv.Error:
        return csv.excel


def _plain(name: str) -> str:
    """A name without what exports change: case, accents, blanks."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    return re.sub(r"[\W_]+", "", "".join(c for c in plain if not unicodedata.combining(c)))
