"""`grade`: marks for a class, or what one student would read, from a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gpipe_edu.grading import container, grade, submissions, tables
from gpipe_edu.grading.feedback_text import as_text, worth
from gpipe_edu.grading.judges import HERE
from gpipe_edu.process import orphans
from gpipe_edu.words import plural

from .common import bad_arguments


class Request(NamedTuple):
    """What was typed."""

    place: Path
    out: Path
    one: bool = False
    tasks: str = ""
    roster: Path | None = None
    seeds: int = 1
    jobs: int = 1
    student: str = ""
    all_or_nothing: bool = False
    trust: bool = False
    container: str = ""


def run(request: Request) -> int:
    """Grade; returns 2 if something could not be judged, else 0."""
    orphans.adopt()
    try:
        return _graded(request)
    finally:
        orphans.end()


def _graded(request: Request) -> int:
    with bad_arguments():
        keys = grade.tasks_of(request.tasks)
        if request.trust and request.container:
            raise ValueError("--trust means without a cage, and --in in a container; give one of them")
        place = container.workplace(request.container, _say) if request.container else HERE
        wish = grade.Wish(keys, request.seeds, request.jobs, request.all_or_nothing, request.trust, place)
        if request.one:
            return _one(request.place, wish)
        handed_in = submissions.find(request.place, request.student, request.out)
        who = tables.roster(request.roster, list(handed_in.students)) if request.roster else None
        _say(f"Hand-ins: {handed_in.layout}; {plural(len(handed_in.students), 'student')}.")
        for note in handed_in.notes:
            print(f"  {note}")
        graded = _written(handed_in, request.out, wish, who)
    print(f"Marks are in {request.out}: marks.csv, answers.csv, class.html, feedback/, marks.json, junit.xml.")
    if graded.complete:
        return 0
    print("Some answers could not be judged, and have no mark: see answers.csv. The same command tries them again.")
    return 2


def _written(handed_in: submissions.HandedIn, out: Path, wish: grade.Wish, who: tables.Roster | None) -> grade.Class:
    """Grade, and write all that is written. Raises ValueError if the disk does not take it."""
    from gpipe_edu.grading import feedback_pages  # loads the charts

    try:
        graded = feedback_pages.write(out, grade.grade(handed_in, out, wish, _say))
        tables.write(out, graded, who)
    except OSError as error:
        raise ValueError(
            f"{error.filename or out} can't be written: {error.strerror or error}. What has been judged is kept in "
            f"{out}; make room, or allow it to be written, and give the same command again"
        ) from error
    return graded


def _say(words: str) -> None:
    print(words, flush=True)


def _one(path: Path, wish: grade.Wish) -> int:
    if not path.is_file():
        raise ValueError(f"--one takes one notebook; {path} is none")
    marks = grade.one(path, wish, range(1, wish.seeds + 1))
    if not marks:
        print(f"There is no answer to a task in {path.name}.")
    for mark in marks.values():
        print(f"\n--- {mark.key}: {mark.state}, {worth(mark)} ---\n{as_text(mark)}")
    return 0 if all(mark.points is not None for mark in marks.values()) else 2
