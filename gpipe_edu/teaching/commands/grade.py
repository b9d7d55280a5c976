"""`grade`: marks for a class, or what one student would read, from a terminal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated

import typer

from gpipe_edu.base.atomic_write import say
from gpipe_edu.base.terminal import bad_arguments
from gpipe_edu.base.words import plural
from gpipe_edu.judge.pool import HERE
from gpipe_edu.process import orphans
from gpipe_edu.teaching.grading import by_hand, grade, late, marks, marks_tables, platform_gradebook, submissions
from gpipe_edu.teaching.grading import container as containers
from gpipe_edu.teaching.grading.marks import as_text, worth
from gpipe_edu.teaching.grading.roster import Roster, read_roster

Tasks = Annotated[str, typer.Option(help="Such as 02,07 or ex02/clock. Default: all.")]
Seeds = Annotated[int, typer.Option(min=1, max=20, help="How often each answer is judged; the worst counts.")]
AllOrNothing = Annotated[bool, typer.Option("--all-or-nothing", help="No points for what is partly right.")]


def run(
    place: Annotated[Path, typer.Argument(metavar="HAND-INS", help="A folder of hand-ins, or a zip archive of one.")],
    out: Annotated[Path, typer.Option(help="Where the marks go; the same again judges only what is new.")] = Path(
        "marks"
    ),
    one: Annotated[bool, typer.Option("--one", help="HAND-INS is one notebook: show its report.")] = False,
    tasks: Annotated[str, typer.Option(help="Such as 02,07 or ex02/clock. Default: all that were handed in.")] = "",
    roster: Annotated[
        Path | None, typer.Option(help="A CSV of participants, or a gradebook; its columns come back.")
    ] = None,
    column: Annotated[str, typer.Option(help="Of the roster: the one that gets the marks, in gradebook.csv.")] = "",
    points: Annotated[
        Path | None,
        typer.Option(help="A CSV with the columns task and points; partial; due and per_day, for late hand-ins."),
    ] = None,
    seeds: Seeds = 1,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="How many answers at once.")] = 2,
    student: Annotated[str, typer.Option(help="A regular expression: its first group in a path is the student.")] = "",
    all_or_nothing: AllOrNothing = False,
    trust: Annotated[bool, typer.Option("--trust", help="Run answers unconfined, as yourself.")] = False,
    container: Annotated[
        str, typer.Option("--in", metavar="ENGINE", help="podman or docker: run answers in a container.")
    ] = "",
) -> int:
    """Grade a class: cut answers out of notebooks, judge them in a sandbox. Exit code 2 if some could not be judged."""
    orphans.adopt()
    try:
        with bad_arguments():
            keys = grade.tasks_of(tasks)
            if trust and container:
                raise ValueError("--trust means unconfined, and --in in a container; give one of them")
            given = by_hand.read_points(points, keys) if points else {}
            marks.set_points(given)
            marks.set_partial(by_hand.read_partial(points) if points else {})
            deadlines = late.read_deadlines(points) if points else {}
            asked = keys if tasks.strip() else (*given, *deadlines)

            def wish() -> grade.Wish:
                """To be called last: building an image takes minutes, and typing errors are reported before that."""
                where = containers.workplace(container, say) if container else HERE
                return grade.Wish(keys, seeds, jobs, all_or_nothing, trust, where, deadlines)

            if one:
                return _one(place, wish)
            if column and not roster:
                raise ValueError("--column is one of the roster's; give --roster, too")
            return _class(submissions.find(place, student, out), out, wish, deadlines, roster, column, asked)
    finally:
        orphans.end()


def _class(
    handed_in: submissions.HandedIn,
    out: Path,
    wish: Callable[[], grade.Wish],
    deadlines: Mapping[str, late.Deadline],
    roster: Path | None,
    column: str,
    asked: Collection[str],
) -> int:
    who = read_roster(roster, list(handed_in.students), handed_in.numbers) if roster else None
    target = platform_gradebook.find_target(who, column) if who else None
    handed_in = platform_gradebook.with_times(handed_in, who) if who else handed_in
    say(f"Hand-ins: {handed_in.layout}; {plural(len(handed_in.students), 'student')}.")
    if deadlines:
        say(late.clocks(handed_in))
    for note in handed_in.notes:
        say(f"  {note}")
    graded, told = _grade_all(handed_in, out, wish(), who, target, asked)
    say(f"Marks are in {out}: marks.csv, answers.csv, class.html, feedback/, marks.json, passed_over.txt.")
    for sentence in filter(None, (*told, marks_tables.words_for_left_out(graded))):
        say(sentence)
    if graded.complete:
        return 0
    say("Some answers could not be judged, and have no mark: see answers.csv. The same command tries them again.")
    return 2


def _grade_all(
    handed_in: submissions.HandedIn,
    out: Path,
    wish: grade.Wish,
    who: Roster | None,
    target: platform_gradebook.Target | None,
    asked: Collection[str],
) -> tuple[grade.Class, list[str]]:
    """Grade, and write all files; returns what was made for a platform, too. Raises ValueError if a disk is full."""
    from gpipe_edu.teaching.grading import feedback_pages  # loads the charts

    try:
        graded = feedback_pages.write(out, grade.leave_out(grade.grade(handed_in, out, wish, say), asked))
        marks_tables.write(out, graded, who)
        told = [platform_gradebook.write_gradebook(out, graded, who, target)] if who and target else []
    except OSError as error:
        raise ValueError(
            f"{error.filename or out} can't be written: {error.strerror or error}. What has been judged is kept in "
            f"{out}; make room, or allow it to be written, and give the same command again"
        ) from error
    return graded, told


def _one(path: Path, wish: Callable[[], grade.Wish]) -> int:
    if not path.is_file():
        raise ValueError(f"--one takes one notebook; {path} is none")
    wished = wish()
    found = grade.grade_one(path, wished, range(1, wished.seeds + 1))
    if not found:
        say(f"There is no answer to a task in {path.name}.")
    for mark in found.values():
        say(f"\n--- {mark.key}: {mark.state}, {worth(mark)} ---\n{as_text(mark)}")
    return 0 if all(mark.points is not None for mark in found.values()) else 2
