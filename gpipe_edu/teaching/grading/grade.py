"""Grading a class: find, cut, judge what has not been judged yet, and mark.

The result depends only on the answers and the seeds: not on the order of hand-ins, on how many are judged at once, or
on how often grading was interrupted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from time import monotonic
from types import MappingProxyType
from typing import NamedTuple

from filelock import FileLock, Timeout

from gpipe_edu.base.words import plural
from gpipe_edu.course.cut_answer import Answer, load_ours
from gpipe_edu.course.submitted_notebook import Refused, refusing
from gpipe_edu.judge.exercise import all_exercises
from gpipe_edu.judge.pool import HERE, Judges, Outcome, Task, Workplace
from gpipe_edu.process import distrusted_files

from .by_hand import override, read_overrides
from .file_listing import File
from .journal import Journal, Question, Seeds, judge_version
from .late import Deadline, charge, is_late, read_extensions
from .marks import Mark, mark
from .submissions import Found, HandedIn, answer_state, find_answers


class Wish(NamedTuple):
    """How to grade. tasks: their keys. seeds: how many times each answer is judged. trust: unconfined.

    deadlines: by task, of those that have one. stalled: seconds that one student's answers may take until they are
    stopped, in all; what is then left is not judged in this run.
    """

    tasks: tuple[str, ...]
    seeds: int = 1
    jobs: int = 1
    all_or_nothing: bool = False
    trust: bool = False
    place: Workplace = HERE
    deadlines: Mapping[str, Deadline] = MappingProxyType({})
    stalled: float = 120.0


class Class(NamedTuple):
    """marks: by student, then by task. seeds: those that all answers except late ones were judged with.

    alike: by student, then by task, who else has handed in the very same text. left_out: the tasks that nobody has
    handed in, and that nobody was asked for.
    """

    marks: dict[str, dict[str, Mark]]
    seeds: tuple[int, ...]
    handed_in: HandedIn
    alike: dict[str, dict[str, list[str]]]
    left_out: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every answer has been judged."""
        return all(mark.points is not None for row in self.marks.values() for mark in row.values())


def leave_out(graded: Class, asked: Collection[str]) -> Class:
    """The marks without the tasks that nobody has handed in, but those that were asked for: what is left out takes
    points from nobody. A class that has handed in nothing stays as it is."""
    rows = graded.marks.values()
    there = {key for row in rows for key, one in row.items() if one.state != "missing" or one.points}
    if not there:
        return graded
    kept = there.union(asked)
    marks = {name: {key: one for key, one in row.items() if key in kept} for name, row in graded.marks.items()}
    return graded._replace(marks=marks, left_out=tuple(key for key in next(iter(rows)) if key not in kept))


def tasks_of(wanted: str) -> tuple[str, ...]:
    """The keys named by "02,07" or "ex02/clock", in reading order; all for "". Raises ValueError."""
    chosen: set[str] = set()
    for name in filter(None, (part.strip() for part in wanted.split(","))):
        found = {key for key in all_exercises() if name in (key, key[2:4], key[:4], str(int(key[2:4])))}
        if not found:
            raise ValueError(f"--tasks names {name!r}; there are {', '.join(all_exercises())}, or numbers such as 02")
        chosen |= found
    return tuple(key for key in all_exercises() if not wanted.strip() or key in chosen)


def grade(handed_in: HandedIn, out: Path, wish: Wish, tell: Callable[[str], None]) -> Class:
    """The marks of a class. Judges only what the journal in `out` does not know yet.

    Raises ValueError where answers could not be confined or what was set by hand can't be read, OSError where `out`
    can't be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(f"somebody is grading into {out} just now; wait, or give another --out") from None
    try:
        overrides = read_overrides(out, handed_in.students, wish.tasks)
        extensions = read_extensions(out, handed_in.students, wish.tasks)
        seeds = Seeds(out, wish.seeds)
        journal = Journal(out / "journal.jsonl")
        reading = _Reading(handed_in, wish.tasks, lambda student, found: _seeds_for(student, found, seeds, wish))
        outcomes = _outcomes(journal, reading, wish, tell)
        marks = {
            name: {key: _mark(one, outcomes, wish) for key, one in row.items()} for name, row in reading.answers.items()
        }
        on_ours = {name: _with_reference(row, marks[name]) for name, row in reading.answers.items()}
        if count := sum(map(len, on_ours.values())):
            tell(f"{plural(count, 'answer')} built on an earlier one that is not right: judged with ours in its place.")
            outcomes |= _outcomes(journal, on_ours.values(), wish, tell)
    finally:
        lock.release()
    for name, row in on_ours.items():
        marks[name] |= {key: _better(marks[name][key], _mark(one, outcomes, wish)) for key, one in row.items()}

    def final(name: str, found: Found) -> Mark:
        one, deadline = marks[name][found.exercise.key], wish.deadlines.get(found.exercise.key)
        return override(name, charge(name, one, found.sent, deadline, extensions), overrides)

    final_marks = {name: {key: final(name, one) for key, one in row.items()} for name, row in reading.answers.items()}
    return Class(final_marks, seeds.of(""), handed_in, _find_alike(reading.answers, handed_in))


def _with_reference(row: dict[str, Found], marks: Mapping[str, Mark]) -> dict[str, Found]:
    """One student's tasks to judge again, with a right version of what they build on: an error there costs once."""
    found = {}
    for key, one in row.items():
        earlier = one.answer.earlier if one.answer else ""
        states = marks[key].state, marks[earlier].state if earlier in marks else "passed"
        if one.answer and not {"passed", "not judged"}.intersection(states):
            function = all_exercises()[earlier].function
            note = f"judged with a right {function} in place of the one handed in, whose error costs its own points"
            found[key] = one._replace(answer=one.answer.with_ours(), notes=(note, *one.notes))
    return found


def _better(alone: Mark, on_ours: Mark) -> Mark:
    return alone if on_ours.points is None or on_ours.points < (alone.points or 0) else on_ours


def _seeds_for(student: str, found: Found, seeds: Seeds, wish: Wish) -> tuple[int, ...]:
    """Those of the class; others for a late answer, since the class's feedback has named those."""
    return seeds.of(student if is_late(found.sent, wish.deadlines.get(found.exercise.key)) else "")


def grade_one(path: Path, wish: Wish, seeds: Sequence[int]) -> dict[str, Mark]:
    """The marks for one file, of the tasks that are in it."""
    data = path.read_bytes()
    handed_in = HandedIn("one file", {path.name: [File(PurePosixPath(path.name), (0.0,), lambda: data)]}, [])
    with TemporaryDirectory(prefix="gpipe_edu_grade_") as out:
        Seeds.give(Path(out), seeds)
        (row,) = grade(handed_in, Path(out), wish._replace(stalled=inf), lambda words: None).marks.values()
    return {key: one for key, one in row.items() if one.state != "missing"}


def check_confinement(judges: Judges, wish: Wish) -> str:
    """The confinement in force here, in a line. Raises ValueError if it is too weak."""
    if wish.trust:
        return "Not shut here, because of --trust: files, network, other processes. Answers run as you."
    held = judges.probe()
    missing = wish.place.enclosure.missing(held)
    if missing:
        raise ValueError(
            f"answers would not be confined here: {', '.join(missing)} would stand open. Grade with --in podman or "
            "--in docker, on another machine, or with --trust, if you trust everybody whose answers these are"
        )
    return f"Shut to answers {wish.place.name}: {held}. What they start ends with the grader, however that ends."


def _question(found: Found, answer: Answer, seed: int) -> Question:
    return Question(found.exercise.key, answer.digest, seed, judge_version())


class _Reading:
    """The answers of a class, by student and task, as its hand-ins are read: hundreds take longer than a first mark.

    Each student's are read in a limited process, so that whatever they hold affects nobody else.
    """

    def __init__(
        self, handed_in: HandedIn, keys: tuple[str, ...], seeds_for: Callable[[str, Found], tuple[int, ...]]
    ) -> None:
        self.answers: dict[str, dict[str, Found]] = {}
        self._handed_in, self._keys, self._seeds_for = handed_in, keys, seeds_for

    def __iter__(self) -> Iterator[dict[str, Found]]:
        students = self._handed_in.students
        load_ours(self._keys)
        for name, found in zip(students, distrusted_files.each(self._read, students.items()), strict=True):
            row = (
                self._refuse(f"what {name} has handed in {found}")
                if isinstance(found, distrusted_files.TooMuch)
                else found
            )
            self.answers[name] = {key: one._replace(seeds=self._seeds_for(name, one)) for key, one in row.items()}
            yield self.answers[name]

    def _read(self, student: tuple[str, list[File]]) -> dict[str, Found]:
        name, files = student
        try:
            with refusing(f"what {name} has handed in"):
                return find_answers(files, self._keys)
        except Refused as error:
            return self._refuse(str(error))

    def _refuse(self, why: str) -> dict[str, Found]:
        return {key: Found(all_exercises()[key], None, why, ()) for key in self._keys}


def _tasks(rows: Iterable[dict[str, Found]], known: Callable[[Question], bool]) -> Iterator[Task | None]:
    """The tasks to judge, equal answers once; None after each row, which may have nothing new."""
    seen: set[Question] = set()
    for row in rows:
        for found in row.values():
            if found.answer is None or found.answer.state != "cut":
                continue
            for seed in found.seeds:
                question = _question(found, found.answer, seed)
                if question not in seen and not known(question):
                    seen.add(question)
                    yield Task(question, found.exercise, found.answer.pack(), seed)
        yield None


def _outcomes(
    journal: Journal, rows: Iterable[dict[str, Found]], wish: Wish, tell: Callable[[str], None]
) -> dict[Question, Outcome]:
    """The outcome of every answer with every seed; those that are new are judged now."""
    outcomes: dict[Question, Outcome] = {}
    read: list[dict[str, Found]] = []
    new: list[Task] = []
    reasons: set[str] = set()
    over = False

    def keep() -> Iterator[dict[str, Found]]:
        for row in rows:
            read.append(row)
            yield row

    def read_tasks() -> Iterator[Task | None]:
        nonlocal over
        for task in _tasks(keep(), lambda question: journal.get(question) is not None):
            if task is not None:
                new.append(task)
            yield task
        over = True
        tell(f"{plural(len(new), 'new answer')} to judge.")

    tasks = read_tasks()
    if (first := next(filter(None, tasks), None)) is not None:
        with Judges(wish.jobs, wish.trust, wish.place, wish.stalled) as judges:
            tell(check_confinement(judges, wish))
            begun = reported = monotonic()
            for done, (task, outcome) in enumerate(judges.judge(chain([first], tasks)), start=1):
                if outcome.report is not None:
                    journal.add(task.name, outcome.report)
                elif outcome.why not in reasons:
                    reasons.add(outcome.why)
                    tell(f"Not judged: {outcome.why}.")
                outcomes[task.name] = outcome
                now, left = monotonic(), len(new) - done
                if done == 1 or now - reported > 5 or (over and not left):
                    reported = now
                    tell(f"{done} judged, {_rest(left, (now - begun) / done) if over else 'and reading on'}")
    for each in (each for row in read for each in row.values()):
        if each.answer is not None and each.answer.state == "cut":
            for seed in each.seeds:
                question = _question(each, each.answer, seed)
                report = journal.get(question)
                if report is not None:
                    outcomes[question] = Outcome(report)
    return outcomes


def _find_alike(answers: dict[str, dict[str, Found]], handed_in: HandedIn) -> dict[str, dict[str, list[str]]]:
    """Who else has handed in the very same text, except those who have handed in the very same files, as a group."""
    files = handed_in.students
    whose: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for student, row in answers.items():
        for key, found in row.items():
            if found.answer is not None and found.answer.state == "cut":
                whose[key, tuple(text for _, _, text in found.answer.parts)].append(student)
    alike: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for (key, _), students in whose.items():
        for student in students:
            if others := [other for other in students if files[other] != files[student]]:
                alike[student][key] = others
    return alike


def _rest(count: int, seconds: float) -> str:
    """How many are left to be judged, and how long that takes at so many seconds each."""
    return f"{count} left, about {count * seconds / 60:.1f} minutes" if count else "0 left"


def _mark(found: Found, outcomes: dict[Question, Outcome], wish: Wish) -> Mark:
    key, state = found.exercise.key, answer_state(found)
    if state != "cut" or found.answer is None:
        why = {
            "missing": f"{found.exercise.function} was not handed in.",
            "unwritten": "The function is still the stub.",
            "refused": found.refused,
            "broken": found.answer.notes[0] if found.answer and found.answer.notes else "",
        }[state]
        return Mark(key, state, 0.0, why, "", None, tuple(note for note in found.notes if note != why))
    results = [outcomes[_question(found, found.answer, seed)] for seed in found.seeds]
    reports = [one.report for one in results if one.report is not None]
    if len(reports) < len(results) and not any(report.state == "wrong" for report in reports):
        why = next(one.why for one in results if one.report is None)
        return Mark(key, "not judged", None, why, "", None, found.notes)
    return mark(reports, wish.all_or_nothing, found.notes)
