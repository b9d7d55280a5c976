"""Whose a file is, and when it was handed in, from the names that platforms give to files and folders."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from gpipe_edu.judge.exercise import all_exercises

from .file_listing import UNKNOWN, File, Sent, is_book, may_answer, readable, stem

_MOODLE: Final = re.compile(r"(?P<student>.+)_(?P<number>\d+)_assignsubmission_(file|onlinetext)_?")
_MOODLE_FLAT: Final = re.compile(
    r"(?P<student>.+?)_(?P<number>\d+)_assignsubmission_(file|onlinetext)_(?P<name>.+)", re.DOTALL
)
_BLACKBOARD: Final = re.compile(
    r".+?_(?P<student>[^_]+)(?P<number>)_attempt_(?P<time>\d{4}(-\d\d){5})(\.txt|_(?P<name>.+))", re.DOTALL
)
"""Its user names are unique, so no number is needed to tell two users apart."""
_CANVAS: Final = re.compile(r"(?P<student>[^_]+)_(?P<late>LATE_)?(?P<number>\d+)_\d+_(?P<name>.+)", re.DOTALL)
_BRIGHTSPACE: Final = re.compile(
    r"(?P<number>\d+)-\d+ - (?P<student>.+?) ?- (?P<time>\w{3} \d\d?, \d{4} \d{3,4} [AP]M)( - (?P<name>.+))?", re.DOTALL
)
"""The first number is the student's, the second the hand-in's."""
_GRADESCOPE: Final = re.compile(r"submission_\d+")
_SUBMITTER: Final = re.compile(r":name: (.+)|:email: (.+)")
_NO_SUBMITTER: Final = re.compile(r"  :(?!submitters:)\w")
_CREATED: Final = re.compile(r":created_at: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[.\d]* *(Z|[+-]\d\d:\d\d)?")
_OF_BRIGHTSPACE: Final = "Brightspace's: NUMBER-NUMBER - NAME - DATE"
_AGAIN: Final = re.compile(r"(\s?\(\d+\)|-\d+|[ _-]?(copy|Copy)\d*)$")


def _own_time(file: File) -> Sent:
    """A file's own time; in an archive it has no time zone, and the year 1980 stands for none at all."""
    time = file.outside or file.time
    with suppress(ValueError, OverflowError, OSError):
        if len(time) > 1 and time[0] > 1980:
            return Sent(datetime(*map(int, time)), "the file's own time")  # type: ignore[arg-type]
        if len(time) == 1 and time[0]:
            return Sent(datetime.fromtimestamp(time[0]), "the file's own time")
    return UNKNOWN


def _nothing(file: File) -> str:
    return ""


class Layout(NamedTuple):
    """How the notebooks are organised, in a sentence, and what is known of a file: whose it is, and when it was sent.

    name_of: the student, "" for none. number_of: the number by which a platform knows that student, "" where it gives
    none. others_of: those who have handed it in together with that student.
    """

    sentence: str
    name_of: Callable[[File], str]
    sent: Callable[[File], Sent] = _own_time
    number_of: Callable[[File], str] = _nothing
    others_of: Callable[[File], Sequence[str]] = _nothing


def by_expression(expression: str) -> Callable[[File], str]:
    """Whose a file is: what the first group of a regular expression finds in its path. Raises ValueError."""
    try:
        pattern = re.compile(expression)
    except re.error as error:
        raise ValueError(f"--student {expression!r} is no regular expression: {error}") from None
    if not pattern.groups:
        raise ValueError(f"--student {expression!r} has no group; put ( ) around what is the student's name")

    def name_of(file: File) -> str:
        found = pattern.search(str(file.path))
        return found[1] or "" if found else ""

    return name_of


def detect_layout(place: Path, files: list[File]) -> Layout:
    """How these files, found in a folder or an archive, are organised."""
    books = [file for file in files if is_book(file)] or [file for file in files if file.shut]
    if all("submitted" in file.path.parts for file in books):
        return Layout("nbgrader's: submitted/STUDENT/SHEET/*.ipynb", _submitter)
    depth = _common(books)

    def head(file: File) -> str:
        return file.path.parts[depth] if len(file.path.parts) > depth + 1 else ""

    def top(file: File) -> str:
        return file.path.parts[depth] if len(file.path.parts) > depth else ""

    heads = list(map(head, books))
    if all(heads) and all(map(_MOODLE.fullmatch, heads)):
        return _of_platform("Moodle's: NAME_NUMBER_assignsubmission_file", _MOODLE, head, files, _never)
    if all(heads) and all(map(_BRIGHTSPACE.fullmatch, heads)):
        return _of_platform(_OF_BRIGHTSPACE, _BRIGHTSPACE, head, files, _sent_to_brightspace)
    if all(heads) and all(map(_GRADESCOPE.fullmatch, heads)):
        told = _submitters(file for file in files if len(file.path.parts) == depth + 1)
        unknown: tuple[list[str], Sent] = [], UNKNOWN
        return Layout(
            "Gradescope's export",
            lambda file: (told.get(head(file), unknown)[0] or [head(file)])[0],
            lambda file: told.get(head(file), unknown)[1],
            others_of=lambda file: told.get(head(file), unknown)[0][1:],
        )
    for pattern, layout, sent in (
        (_MOODLE_FLAT, "Moodle's, without folders: NAME_NUMBER_assignsubmission_file_FILE", _never),
        (_BLACKBOARD, "Blackboard's: ASSIGNMENT_USER_attempt_TIME_FILE", _sent_to_blackboard),
        (_BRIGHTSPACE, _OF_BRIGHTSPACE, _sent_to_brightspace),
        (_CANVAS, "Canvas': NAME_NUMBER_NUMBER_FILE", _sent_to_canvas),
    ):
        if all(pattern.fullmatch(top(file)) for file in books):  # files, and archives that hold files
            return _of_platform(layout, pattern, top, files, sent)
    if slug := _assignment(place, books, heads, depth):
        return Layout(
            "GitHub Classroom's: ASSIGNMENT-USER", lambda file: head(file).removeprefix(slug), lambda file: UNKNOWN
        )
    if not any(heads):
        layout = "notebooks in one folder, named EXERCISE_STUDENT or STUDENT_EXERCISE"
        return Layout(layout, lambda file: (_rest(file.path) or _only(place)) if may_answer(file) else "")
    return Layout(
        "a folder for each student",
        lambda file: head(file) or ((_rest(file.path) or _only(place)) if may_answer(file) else ""),
    )


def _assignment(place: Path, books: list[File], heads: list[str], depth: int) -> str:
    """How the names of all of GitHub Classroom's clones begin, "" where these folders are not such clones.

    They lie in ASSIGNMENT-submissions; otherwise each is a repository, and the longest common beginning is taken.
    """
    above = [place.name, *books[0].path.parts[:depth]][-1] if books else ""
    slug = f"{above.removesuffix('-submissions')}-"
    if above.endswith("-submissions") and all(name.startswith(slug) and name != slug for name in heads):
        return slug
    folder = place.joinpath(*books[0].path.parts[:depth]) if books else place
    if len(set(heads)) > 1 and all(name and (folder / name / ".git").exists() for name in heads):
        words = zip(*(name.split("-") for name in heads), strict=False)
        return "".join(f"{same[0]}-" for same in takewhile(lambda same: len(set(same)) == 1, words))
    return ""


def _of_platform(
    layout: str,
    pattern: re.Pattern[str],
    said: Callable[[File], str],
    files: list[File],
    sent: Callable[[re.Match[str]], Sent],
) -> Layout:
    """By the name that a platform gives a file, and also by number where several students have that name."""
    numbers: dict[str, set[str]] = defaultdict(set)
    for file in files:
        if found := pattern.fullmatch(said(file)):
            numbers[found["student"]].add(found["number"])

    def name_of(file: File) -> str:
        found = pattern.fullmatch(said(file))
        if found is None:
            return ""
        name = found["student"]
        return f"{name} {found['number']}" if len(numbers[name]) > 1 else name

    def number_of(file: File) -> str:
        found = pattern.fullmatch(said(file))
        return found["number"] if found else ""

    def sent_of(file: File) -> Sent:
        found = pattern.fullmatch(said(file))
        return sent(found) if found else UNKNOWN

    return Layout(layout, name_of, sent_of, number_of)


def _never(found: re.Match[str]) -> Sent:
    """Moodle: the times in its archive are those of the download."""
    return UNKNOWN


def _sent_to_blackboard(found: re.Match[str]) -> Sent:
    with suppress(ValueError):
        return Sent(datetime.strptime(found["time"], "%Y-%m-%d-%H-%M-%S"), "Blackboard's export")
    return UNKNOWN


def _sent_to_brightspace(found: re.Match[str]) -> Sent:
    """Such as "Nov 20, 2026 905 AM": the hour has no zero in front."""
    day, clock, half = found["time"].rsplit(" ", 2)
    with suppress(ValueError):
        return Sent(datetime.strptime(f"{day} {clock:0>4} {half}", "%b %d, %Y %I%M %p"), "Brightspace's export")
    return UNKNOWN


def _sent_to_canvas(found: re.Match[str]) -> Sent:
    """The times in its archive are those of the download, but a name says whether it was late."""
    return Sent(None, "Canvas", bool(found["late"]))


def _submitter(file: File) -> str:
    """The student of a file in nbgrader's own folders."""
    parts = file.path.parts
    place = parts.index("submitted") + 1 if "submitted" in parts else len(parts)
    return parts[place] if place + 1 < len(parts) else ""


def _common(books: list[File]) -> int:
    """How many leading folders all paths share, as in an archive of one folder; that one may be the only student's."""
    depth = 0
    while len({file.path.parts[: depth + 1] for file in books}) == 1 and all(
        len(f.path.parts) > depth + 2 for f in books
    ):
        depth += 1
    return depth


def _rest(path: PurePosixPath) -> str:
    """What is left of a file's name without the exercise's."""
    left = _AGAIN.sub("", stem(path))
    for notebook in {one.notebook for one in all_exercises().values()}:
        for name in (notebook, notebook.removeprefix("exercise_")):
            if name in left:
                return left.replace(name, "").strip(" _-.")
    return left


def _only(place: Path) -> str:
    return place.resolve().stem


def _submitters(beside: Iterable[File]) -> dict[str, tuple[list[str], Sent]]:
    """Gradescope's names and times, from its own file beside the folders; one inside a folder would be a student's.

    A group has several names, each in an item of its own; what follows its list of submitters may have names, too.
    """
    names: dict[str, list[str]] = defaultdict(list)
    times: dict[str, Sent] = {}
    for file in beside:
        if file.path.name == "submission_metadata.yml":
            head, listed, by_email = "", False, False
            for line in file.read().decode(errors="replace").split("\n"):
                if found := re.match(r"(submission_\d+):", line):
                    head, listed = found[1], True
                    continue
                listed &= not _NO_SUBMITTER.match(line)
                if head and listed and (found := _SUBMITTER.search(line)):
                    name = readable((found[1] or found[2]).strip("\"' "))
                    if line.lstrip().startswith("- ") or not names[head]:
                        names[head].append(name)
                        by_email = found[1] is None
                    elif by_email and found[1] is not None:
                        names[head][-1], by_email = name, False
                elif head and head not in times and (found := _CREATED.search(line)):
                    time = datetime.fromisoformat(found[1] + (found[2] or "Z").replace("Z", "+00:00"))
                    times[head] = Sent(time.astimezone().replace(tzinfo=None), "Gradescope's export")
    return {head: (names.get(head, []), times.get(head, UNKNOWN)) for head in names.keys() | times.keys()}
