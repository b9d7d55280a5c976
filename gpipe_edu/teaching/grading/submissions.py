"""Which student has handed in what, from folders or from an archive that a platform has made; and, from one student's
files, the answer to each task that counts.

The layout of hand-ins is detected and reported.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final, NamedTuple

from gpipe_edu.base.words import join_words
from gpipe_edu.course.cut_answer import Answer, cut_answer, may_have
from gpipe_edu.course.submitted_notebook import Refused, read, refusing
from gpipe_edu.judge.exercise import Exercise, all_exercises

from .file_listing import UNKNOWN, File, Sent, is_book, is_document, list_files, make_unreadable, may_answer, readable
from .hand_in_names import Layout, by_expression, detect_layout

_MOST_OF_ONE: Final = 100
"""Notebooks of one student."""

_LONGEST_NAME: Final = 200
"""Bytes of a name that we give a file. File systems take 255, with a number and an ending."""


class HandedIn(NamedTuple):
    """Everything that was found. layout: how it is organised, in a sentence. notes: what was skipped, and why.

    numbers: those by which a platform knows the students, where it gives them.
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
    without_answers: dict[str, list[str]] = defaultdict(list)
    for name, file in named:
        passed_over = name == "solutions" or "solutions" in file.path.parts[:-1]
        if passed_over:
            notes.append(f"{file.path}: solutions are nobody's hand-in, and were passed over")
        if name and name != "solutions":
            if is_document(file) and not passed_over:
                without_answers[name].append(file.path.name)
            sent = [file._replace(sent=layout.sent(file))] if may_answer(file) and not passed_over else []
            for member in (name, *layout.others_of(file)):
                students[member] += sent
    for name, theirs in students.items():
        if not theirs:
            notes.append(f"{name}: there is no notebook among the files")
        if len(theirs) > _MOST_OF_ONE:
            notes.append(f"{name}: of {len(theirs)} notebooks, the newest {_MOST_OF_ONE} are read")
            students[name] = newest_first(theirs)[:_MOST_OF_ONE]
    for name, others in without_answers.items():
        notes.append(f"{name}: no answer can be in {join_words(others, 5)}; notebooks and Python files are read")
    if not any(students.values()):
        raise ValueError(f"there is no hand-in in {place}: {'; '.join(notes[:3])}")
    numbers = {name: number for name, file in named if (number := layout.number_of(file))}
    return HandedIn(layout.sentence, dict(sorted(students.items())), notes, numbers)


def newest_first(files: Iterable[File]) -> list[File]:
    """In the order in which they count, the newest first: the one that was sent last, where that is known."""

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


class Found(NamedTuple):
    """One student's task: the answer that counts, or why there is none. sent: when it was handed in.

    seeds: those that it is judged with.
    """

    exercise: Exercise
    answer: Answer | None
    refused: str
    notes: tuple[str, ...]
    sent: Sent = UNKNOWN
    seeds: tuple[int, ...] = ()


def answer_state(found: Found) -> str:
    """What is known before anything is judged."""
    if found.answer is None:
        return "refused" if found.refused else "missing"
    return found.answer.state


class _Book(NamedTuple):
    """The content of one file: answers by task, and the tasks whose answer cell has nbgrader's name in it."""

    file: File
    answers: dict[str, Answer]
    by_id: frozenset[str]


def find_answers(files: Sequence[File], keys: Sequence[str]) -> dict[str, Found]:
    """The answer of each task: from the newest file that has one."""
    books: list[_Book] = []
    refusals: list[tuple[File, str]] = []
    for file in newest_first(files):
        try:
            with refusing(file.path.name):
                books.append(_book(file, keys))
        except Refused as error:
            refusals.append((file, str(error)))
    return {key: _choose(all_exercises()[key], books, refusals) for key in keys}


def _book(file: File, keys: Sequence[str]) -> _Book:
    """Raises Refused."""
    cells = read(file.read(), file.path.name)
    answers = {key: cut_answer(all_exercises()[key], cells) for key in keys if may_have(all_exercises()[key], cells)}
    named = {cell.grade_id for cell in cells}
    return _Book(file, answers, frozenset(key for key in keys if f"{all_exercises()[key].cell}-answer" in named))


def _choose(exercise: Exercise, books: list[_Book], refusals: list[tuple[File, str]]) -> Found:
    key = exercise.key
    there = [book for book in books if key in book.answers and book.answers[key].state != "missing"]
    if not there:
        refused = [why for file, why in refusals if _may_be_of(exercise, file) or len(refusals) == 1]
        notes = tuple(note for book in books if key in book.answers for note in book.answers[key].notes)
        return Found(exercise, None, "; ".join(refused), notes)

    def fits(book: _Book) -> tuple[bool, ...]:
        """What decides before the time does, since another sheet may use the name for something else."""
        answer = book.answers[key]
        written = answer.state != "unwritten"
        return key in book.by_id, written, answer.defined, _may_be_of(exercise, book.file)

    best = max(there, key=fits)  # the newest of equals, as it comes first
    file, answer = best.file, best.answers[key]
    newest = "newest" if best is there[0] else "one that fits best"
    several = f"of {len(there)} files with {exercise.function} in them, the {newest} counts: {file.path}"
    more = [several] if there[1:] else []
    more += [why for file, why in refusals if _may_be_of(exercise, file)]
    return Found(exercise, answer, "", (*more, *answer.notes), file.sent)


def _may_be_of(exercise: Exercise, file: File) -> bool:
    """Whether its name has the number of the exercise's notebook, or no such number."""
    numbers = {one.notebook.split("_")[1] for one in all_exercises().values()}
    there = {number for number in numbers if f"_{number}_" in f"_{file.path.name}"}
    return not there or exercise.notebook.split("_")[1] in there
