"""Who has handed in what, however it was collected: folders, or an archive of Moodle, Canvas, Gradescope, nbgrader.

How hand-ins lie is found by looking, and told. An archive is read where it is: nothing of it is unpacked to a disk.
"""

from __future__ import annotations

import io
import os
import re
import stat
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from gpipe_edu.course.exercise import exercises

from .notebook import LARGEST, Refused

_SUFFIXES: Final = (".ipynb", ".py")
_MOST_FILES: Final = 20_000
_DEEPEST: Final = 3
"""Archives in archives."""

_MOST_INSIDE: Final = 5
"""Archives in an archive of one student's."""

_MOST_OF_ONE: Final = 100
"""Notebooks of one student."""

_MOODLE: Final = re.compile(r"(?P<student>.+)_(?P<number>\d+)_assignsubmission_(file|onlinetext)_?")
_CANVAS: Final = re.compile(r"(?P<student>[^_]+)_(LATE_)?(?P<number>\d+)_\d+_(?P<name>.+)")
_GRADESCOPE: Final = re.compile(r"submission_\d+")
_SUBMITTER: Final = re.compile(r":name: (.+)|:email: (.+)")
_AGAIN: Final = re.compile(r"(\s?\(\d+\)|-\d+|[ _-]?(copy|Copy)\d*)$")


class File(NamedTuple):
    """One file that was handed in. path: from where one looked, or in its archive. time: of its last change.

    read: its bytes, or Refused.
    """

    path: PurePosixPath
    time: tuple[float, ...]
    read: Callable[[], bytes]

    @property
    def version(self) -> int:
        """That a browser has added, as in "clock (2).ipynb"."""
        found = re.search(r"\((\d+)\)$|-(\d+)$", self.path.stem)
        return int(found[1] or found[2]) if found else 0


class HandedIn(NamedTuple):
    """Everything that was found. layout: how it lies, in a sentence. notes: what was passed over, and why."""

    layout: str
    students: dict[str, list[File]]
    notes: list[str]


def find(place: Path, student: str = "", out: Path | None = None) -> HandedIn:
    """The hand-ins in a folder or an archive. student: a regular expression whose first group in a path is its student.

    out: a folder that is nobody's, where the marks are. Raises ValueError for a place that holds none.
    """
    notes: list[str] = []
    files = list(_files(place, notes, out))
    if not any(map(_is_book, files)):
        raise ValueError(f"there is no notebook in {place}; it must be a folder of hand-ins, or a zip archive of them")
    if student:
        layout, named = f"students named by {student}", list(_by_expression(files, student, notes))
    else:
        layout, named = _by_looking(place, files)
    students: dict[str, list[File]] = defaultdict(list)
    for name, file in named:
        if name == "solutions" or "solutions" in file.path.parts[:-1]:
            notes.append(f"{file.path}: solutions are nobody's hand-in, and were passed over")
        elif name:
            students[name] += [file] if _is_book(file) else []
    for name, theirs in students.items():
        if not theirs:
            notes.append(f"{name}: there is no notebook among the files")
        if len(theirs) > _MOST_OF_ONE:
            notes.append(f"{name}: of {len(theirs)} notebooks, the newest {_MOST_OF_ONE} are read")
            students[name] = newest_first(theirs)[:_MOST_OF_ONE]
    if not any(students.values()):
        raise ValueError(f"there is no hand-in in {place}: {'; '.join(notes[:3])}")
    return HandedIn(layout, dict(sorted(students.items())), notes)


def newest_first(files: Iterable[File]) -> list[File]:
    """In the order in which they count."""
    return sorted(files, key=lambda file: (file.time, file.version, str(file.path)), reverse=True)


def books_in(place: Path, notes: list[str]) -> Iterator[File]:
    """What may hold an answer, in a folder or an archive; `notes` gets what was passed over. Raises ValueError."""
    return filter(_is_book, _files(place, notes, None))


def _is_book(file: File) -> bool:
    """Whether an answer may be in it."""
    return file.path.suffix in _SUFFIXES


def _files(place: Path, notes: list[str], out: Path | None) -> Iterator[File]:
    """All but what editors and systems hide beside their files."""
    return (file for file in _walked(place, notes, out) if not file.path.name.startswith((".", "~$")))


def _walked(place: Path, notes: list[str], out: Path | None) -> Iterator[File]:
    if place.is_file():
        if not zipfile.is_zipfile(place):
            raise ValueError(f"{place} is a file, but no zip archive; give the folder of all hand-ins")
        yield from _in_archive(place.read_bytes(), PurePosixPath(), notes, 1)
        return
    if not place.is_dir():
        raise ValueError(f"{place} does not exist; give the folder of all hand-ins, or a zip archive of it")
    count = 0
    for here, folders, names in os.walk(place):
        folder = Path(here)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in list(folders):
            if out is not None and (folder / name).resolve() == out.resolve():
                folders.remove(name)
            elif (folder / name).is_symlink():
                folders.remove(name)
                notes.append(f"{(folder / name).relative_to(place)}: a link to a folder is not followed")
        for name in sorted(names):
            path = folder / name
            count += 1
            if count > _MOST_FILES:
                raise ValueError(
                    f"there are more than {_MOST_FILES} files in {place}; give the folder of one exercise sheet"
                )
            short = PurePosixPath(_readable(path.relative_to(place).as_posix()))
            if path.suffix.lower() == ".zip" and not path.is_symlink():
                yield from _archive(path, short, notes)
            else:
                yield File(short, (path.lstat().st_mtime,), _reader(path))


def _readable(name: str) -> str:
    """A file's name as text that can be written down, whatever bytes it is made of."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _reader(path: Path) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                raise Refused(f"{path.name} is a link, or no file")
            with path.open("rb") as file:
                return file.read(LARGEST + 1)
        except OSError as error:
            raise Refused(f"{path.name} can't be read: {error.strerror}") from None

    return read


def _archive(path: Path, short: PurePosixPath, notes: list[str]) -> Iterator[File]:
    try:
        if path.stat().st_size > 50 * LARGEST:
            notes.append(f"{short}: an archive of this size is not read")
            return
        yield from _in_archive(path.read_bytes(), short.with_suffix(""), notes, 2)
    except (OSError, ValueError) as error:
        notes.append(f"{short}: {error}")


def _in_archive(data: bytes, inside: PurePosixPath, notes: list[str], depth: int) -> Iterator[File]:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, OSError) as error:
        notes.append(f"{inside}: no zip archive: {error}")
        return
    inside_it = 0
    for member in members[:_MOST_FILES]:
        path = PurePosixPath(member.filename.replace("\\", "/"))
        if member.is_dir() or any(part.startswith((".", "__MACOSX")) and part != ".." for part in path.parts):
            continue
        if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", str(path)):
            notes.append(f"{member.filename}: a path that leads out of the archive")
        elif path.suffix.lower() == ".zip":
            inside_it += 1
            if depth == _DEEPEST or (depth > 1 and inside_it > _MOST_INSIDE):
                notes.append(f"{inside / path}: an archive this deep, or beside so many others, is not read")
                continue
            try:
                inner = _member(archive, member, 2 * LARGEST)()
            except Refused as error:
                notes.append(f"{inside / path}: {error}")
                continue
            yield from _in_archive(inner, inside / path.with_suffix(""), notes, depth + 1)
        else:
            yield File(inside / path, tuple(map(float, member.date_time)), _member(archive, member))


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int = LARGEST + 1) -> Callable[[], bytes]:
    def read() -> bytes:
        if stat.S_ISLNK(member.external_attr >> 16):
            raise Refused(f"{member.filename} is a link")
        try:
            with archive.open(member) as file:
                return file.read(most)  # whatever size it claims to have
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError) as error:
            raise Refused(f"{member.filename} can't be read: {error}") from None
        except Exception as error:  # zlib's own
            raise Refused(f"{member.filename} can't be read: {error}") from None

    return read


def _by_expression(files: list[File], expression: str, notes: list[str]) -> Iterator[tuple[str, File]]:
    try:
        pattern = re.compile(expression)
    except re.error as error:
        raise ValueError(f"--student {expression!r} is no regular expression: {error}") from None
    if not pattern.groups:
        raise ValueError(f"--student {expression!r} has no group; put ( ) around what is the student's name")
    for file in files:
        found = pattern.search(str(file.path))
        if found:
            yield found[1], file
        elif file.path.suffix == ".ipynb":
            notes.append(f"{file.path}: --student finds no name in it")


def _by_looking(place: Path, files: list[File]) -> tuple[str, list[tuple[str, File]]]:
    layout, name_of = _layout(place, files)
    return layout, [(name, file) for file in files if (name := name_of(file))]


def _layout(place: Path, files: list[File]) -> tuple[str, Callable[[File], str]]:
    """How the notebooks lie, in a sentence, and whose a file is, "" for nobody's."""
    books = [file for file in files if _is_book(file)]
    if all("submitted" in file.path.parts for file in books):
        return "nbgrader's: submitted/STUDENT/SHEET/*.ipynb", _submitter
    depth = _common(books)

    def head(file: File) -> str:
        return file.path.parts[depth] if len(file.path.parts) > depth + 1 else ""

    heads = list(map(head, books))
    if all(heads) and all(map(_MOODLE.fullmatch, heads)):
        return "Moodle's: NAME_NUMBER_assignsubmission_file", _namesakes_apart(_MOODLE, head, files)
    if all(heads) and all(map(_GRADESCOPE.fullmatch, heads)):
        names = _submitters(files)
        return "Gradescope's export", lambda file: names.get(head(file), head(file))
    if not any(heads):
        if all(_CANVAS.fullmatch(file.path.name) for file in books):
            return "Canvas': NAME_NUMBER_NUMBER_FILE", _namesakes_apart(_CANVAS, lambda file: file.path.name, files)
        layout = "notebooks in one folder, named EXERCISE_STUDENT or STUDENT_EXERCISE"
        return layout, lambda file: (_rest(file.path) or _only(place)) if _is_book(file) else ""
    return (
        "a folder for each student",
        lambda file: head(file) or ((_rest(file.path) or _only(place)) if _is_book(file) else ""),
    )


def _submitter(file: File) -> str:
    """In nbgrader's own folders."""
    parts = file.path.parts
    place = parts.index("submitted") + 1 if "submitted" in parts else len(parts)
    return parts[place] if place + 1 < len(parts) else ""


def _namesakes_apart(pattern: re.Pattern[str], said: Callable[[File], str], files: list[File]) -> Callable[[File], str]:
    """By the name in what a platform says of a file, and by its number, too, where several have that name."""
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

    return name_of


def _common(books: list[File]) -> int:
    """How many folders all paths begin with, as an archive of one folder has; one folder may be its only student's."""
    depth = 0
    while len({file.path.parts[: depth + 1] for file in books}) == 1 and all(
        len(f.path.parts) > depth + 2 for f in books
    ):
        depth += 1
    return depth


def _rest(path: PurePosixPath) -> str:
    """What a file's name says beside the exercise's."""
    stem = _AGAIN.sub("", path.stem)
    for notebook in {one.notebook for one in exercises().values()}:
        for name in (notebook, notebook.removeprefix("exercise_")):
            if name in stem:
                return stem.replace(name, "").strip(" _-.")
    return stem


def _only(place: Path) -> str:
    return place.resolve().stem


def _submitters(files: list[File]) -> dict[str, str]:
    """Gradescope's names, from its own file beside the folders."""
    names: dict[str, str] = {}
    for file in files:
        if file.path.name == "submission_metadata.yml":
            head = ""
            for line in file.read().decode(errors="replace").splitlines():
                if found := re.match(r"(submission_\d+):", line):
                    head = found[1]
                elif head and head not in names and (found := _SUBMITTER.search(line)):
                    names[head] = (found[1] or found[2]).strip("\"' ")
    return names


def file_name(student: str, taken: set[str]) -> str:
    """A name that any disk takes, and that nobody else has."""
    name = re.sub(r"[^\w .@-]", "_", student).strip(" .")[:80] or "student"
    found, count = name, 1
    while found.casefold() in taken:
        count += 1
        found = f"{name}-{count}"
    taken.add(found.casefold())
    return found
