"""Of one student's files, the answer to each task that counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpipe_edu.course.cut import Answer, cut, may_have
from gpipe_edu.course.submitted_notebook import Refused, read, refusing
from gpipe_edu.judge.exercise import Exercise, all_exercises

from .file_listing import UNKNOWN, File, Sent
from .submissions import newest_first


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
    answers = {key: cut(all_exercises()[key], cells) for key in keys if may_have(all_exercises()[key], cells)}
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
        """What decides before the time does, as another sheet may use the name for something else."""
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
