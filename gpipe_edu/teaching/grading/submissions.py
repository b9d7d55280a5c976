"""Which student has handed in what: from folders, or from an archive that a platform has made.

The layout of hand-ins is detected and reported.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final, NamedTuple

from .file_listing import File, is_book, list_files, make_unreadable, may_answer, readable
from .layouts import Layout, by_expression, detect_layout

_MOST_OF_ONE: Final = 100
"""Notebooks of one student."""

_LONGEST_NAME: Final = 200
"""Bytes of a name that we give a file. File systems take 255, with a number and an ending."""


class HandedIn(NamedTuple):
    """Everything that was found. layout: how it is organised, in a sentence. notes: what was skipped, and why.

    numbers: those by which a platform knows the students, where it tells them.
    """

    layout: str
    students: dict[str, list[File]]
    notes: list[str]
    numbers: Mapping[str, str] = MappingProxyType({})


def find(place: Path, student: str = "", out: Path | None = None) -> HandedIn:
    """The hand-ins in a folder or an archive. student: a regular expression whose first group in a path is its student.

    out: the folder with the marks, which belongs to no student. Raises ValueError for a place that holds none.
    """
    notes: list[str] = []
    files = list(list_files(place, notes, out))
    if not any(map(may_answer, files)):
        raise ValueError(f"there is no notebook in {place}; it must be a folder of hand-ins, or a zip archive of them")
    if student:
        layout = Layout(f"students named by {student}", by_expression(student))
        nameless = (file for file in files if is_book(file) and not layout.name_of(file))
        notes += [f"{file.path}: --student finds no name in it" for file in nameless]
    else:
        layout = detect_layout(place, files)
    named = [(name, file) for file in files if (name := layout.name_of(file))]
    students: dict[str, list[File]] = defaultdict(list)
    for name, file in named:
        passed_over = name == "solutions" or "solutions" in file.path.parts[:-1]
        if passed_over:
            notes.append(f"{file.path}: solutions are nobody's hand-in, and were passed over")
        if name and name != "solutions":
            sent = [file._replace(sent=layout.sent(file))] if may_answer(file) and not passed_over else []
            students[name] += sent
    for name, theirs in students.items():
        if not theirs:
            notes.append(f"{name}: there is no notebook among the files")
        if len(theirs) > _MOST_OF_ONE:
            notes.append(f"{name}: of {len(theirs)} notebooks, the newest {_MOST_OF_ONE} are read")
            students[name] = newest_first(theirs)[:_MOST_OF_ONE]
    if not any(students.values()):
        raise ValueError(f"there is no hand-in in {place}: {'; '.join(notes[:3])}")
    numbers = {name: number for name, file in named if (number := layout.number_of(file))}
    return HandedIn(layout.sentence, dict(sorted(students.items())), notes, numbers)


def newest_first(files: Iterable[File]) -> list[File]:
    """In the order in which they count, the newest first: that which was sent last, where that is known."""

    def when(file: File) -> tuple[object, ...]:
        return file.sent.time or datetime.min, file.time, file.version, str(file.path)

    return sorted(files, key=when, reverse=True)


def books_in(place: Path, notes: list[str]) -> Iterator[File]:
    """The files that may hold an answer, in one student's folder or archive; `notes` gets what was skipped."""
    try:
        yield from filter(may_answer, list_files(place, notes, None))
    except ValueError as error:
        yield make_unreadable(PurePosixPath(readable(place.name)), str(error), notes)


def file_name(student: str, taken: set[str]) -> str:
    """A name that is valid on any file system and not `taken` by another student."""
    name = re.sub(r"[^\w .@-]", "_", student).strip(" .")[:80].encode()[:_LONGEST_NAME].decode(errors="ignore")
    name = name or "student"
    found, count = name, 1
    while found.casefold() in taken:
        count += 1
        found = f"{name}-{count}"
    taken.add(found.casefold())
    return found
