"""The marks as files that other programs read: CSV, JSON and JUnit's XML."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

from gpipe_edu.exercises import all_exercises
from gpipe_edu.writing import escape, write_whole

from .grade import Class
from .marks import Mark, points


class Roster(NamedTuple):
    """A list of participants: its columns, its rows, and the student of each row that has handed in."""

    columns: list[str]
    rows: list[dict[str, str]]
    whose: dict[int, str]


def roster(path: Path, students: Sequence[str]) -> Roster:
    """A roster whose rows are matched with the students, by the one or two columns that match most of them.

    Raises ValueError for a file in which none matches.
    """
    text = path.read_bytes().decode("utf-8-sig", errors="replace")
    reader = csv.DictReader(io.StringIO(text, newline=""), dialect=_dialect(text))
    rows = [{name: value or "" for name, value in row.items() if name is not None} for row in reader]
    columns = [name for name in reader.fieldnames or [] if name]
    wanted = {_plain(name): name for name in students}
    best: dict[int, str] = {}
    ways: list[tuple[str, ...]] = [(name,) for name in columns]
    ways += [(one, other) for one in columns for other in columns if one != other]
    for way in ways:
        found: dict[int, str] = {}
        for index, row in enumerate(rows):
            name = wanted.get(_plain(" ".join(row.get(column, "") for column in way)))
            if name is not None:
                found[index] = name
        if len(set(found.values())) > len(set(best.values())):
            best = found
    if not best:
        raise ValueError(
            f"no student of {path} is among the hand-ins, by whichever column; these are {', '.join(students[:3])}"
        )
    return Roster(columns, rows, best)


def write(out: Path, graded: Class, who: Roster | None) -> None:
    """Write all tables, each whole or not at all. Raises OSError."""
    keys = _keys(graded)
    write_whole(out / "marks.csv", _marks(graded, keys, who))
    write_whole(out / "answers.csv", _answers(graded))
    write_whole(out / "marks.json", json.dumps(as_data(graded), indent=1, ensure_ascii=False) + "\n")
    write_whole(out / "junit.xml", _junit(graded))


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


def number(value: float | None) -> str:
    """Points as they are usually written, "" for none."""
    return "" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def safe(text: str) -> str:
    """Text that a spreadsheet takes for text, even if it begins like a formula."""
    text = " ".join(text.split())
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") and not re.fullmatch(r"[+-]?\d+([.,]\d+)?", text) else text


def _keys(graded: Class) -> list[str]:
    there = {key for row in graded.marks.values() for key in row}
    return [key for key in all_exercises() if key in there]


def _marks(graded: Class, keys: list[str], who: Roster | None) -> str:
    largest = sum(points(key) for key in keys)
    new = [*keys, "total", "of", "remark"]
    if who is None:
        rows = [{"student": student, **_row(row, keys, largest)} for student, row in graded.marks.items()]
        return _csv(["student", *new], rows)
    names = {name: name if name not in who.columns else f"gpipe_edu {name}" for name in new}
    times = Counter(who.whose.values())
    rows = []
    for index, row in enumerate(who.rows):
        student = who.whose.get(index, "")
        marks = graded.marks.get(student)
        filled = (
            _row(marks, keys, largest) if marks is not None else {"of": str(largest), "remark": "nothing handed in"}
        )
        if times[student] > 1:
            filled["remark"] = "; ".join(filter(None, [filled["remark"], "this name stands here more than once"]))
        rows.append({**row, **{names[name]: value for name, value in filled.items()}})
    for student in sorted(set(graded.marks) - set(who.whose.values())):
        filled = {**_row(graded.marks[student], keys, largest), "remark": f"not in the roster: {student}"}
        rows.append({names[name]: value for name, value in filled.items()})
    return _csv([*who.columns, *names.values()], rows)


def _row(row: Mapping[str, Mark], keys: list[str], largest: int) -> dict[str, str]:
    open_ones = [key for key in keys if row[key].points is None]
    return {
        **{key: number(row[key].points) for key in keys},
        "total": number(total(row)),
        "of": str(largest),
        "remark": f"not judged: {', '.join(open_ones)}" if open_ones else "",
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


def _junit(graded: Class) -> str:
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for student, row in graded.marks.items():
        failed = sum(one.state not in ("passed", "not judged") for one in row.values())
        skipped = sum(one.points is None for one in row.values())
        lines.append(
            f'<testsuite name={_attribute(student)} tests="{len(row)}" failures="{failed}" skipped="{skipped}">'
        )
        for key, one in row.items():
            inside = "" if one.state == "passed" else f"<failure message={_attribute(f'{one.state}: {one.why}')}/>"
            inside = f"<skipped message={_attribute(one.why)}/>" if one.points is None else inside
            lines.append(f"<testcase classname={_attribute(student)} name={_attribute(key)}>{inside}</testcase>")
        lines.append("</testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _attribute(text: str) -> str:
    return quoteattr("".join(c for c in escape(text) if c in "\t\n" or (c >= " " and c not in "\ufffe\uffff")))


def _dialect(text: str) -> type[csv.Dialect] | csv.Dialect:
    try:
        return csv.Sniffer().sniff(text.partition("\n")[0], delimiters=",;\t")
    except csv.Error:
        return csv.excel


def _plain(name: str) -> str:
    """A name without what exports change: case, accents, blanks."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    return re.sub(r"[\W_]+", "", "".join(c for c in plain if not unicodedata.combining(c)))
