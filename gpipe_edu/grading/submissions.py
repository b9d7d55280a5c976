"""Which student has handed in what: from folders, or from an archive that a platform has made.

The layout of hand-ins is detected and reported. An archive is read in place: nothing is unpacked to disk.
"""

from __future__ import annotations

import io
import os
import re
import stat
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from gpipe_edu.exercises import all_exercises
from gpipe_edu.process import limited

from .submitted_notebook import LARGEST, Refused, bytes_of, refusing

_BOOK: Final = re.compile(r"(?P<stem>.+)\.(ipynb(\.txt|\.json)?|py)", re.IGNORECASE | re.DOTALL)
"""A notebook's name, also as browsers and mail programs change it."""

_MOST_FILES: Final = 200_000
"""Far more than a class has, because one student may hand in thousands. They are listed, not read.

With more, the folder that has over half of them is that of one student, who is refused.
"""

_MOST_MEMBERS: Final = 20_000
"""Of an archive of one student's."""

_COMPRESSED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression methods that stop at a limit: with the others zipfile unpacks a gigabyte before it counts."""

_TOP: Final = PurePosixPath()

_DEEPEST: Final = 3
"""Archives in archives."""

_MOST_INSIDE: Final = 5
"""Archives in an archive of one student's."""

_MOST_OF_ONE: Final = 100
"""Notebooks of one student."""

_LONGEST_NAME: Final = 200
"""Bytes of a name that we give a file. File systems take 255, with a number and an ending."""

_HIDDEN: Final = (".", "~$")

_MOODLE: Final = re.compile(r"(?P<student>.+)_(?P<number>\d+)_assignsubmission_(file|onlinetext)_?")
_MOODLE_FLAT: Final = re.compile(
    r"(?P<student>.+?)_(?P<number>\d+)_assignsubmission_(file|onlinetext)_(?P<name>.+)", re.DOTALL
)
_BLACKBOARD: Final = re.compile(
    r".+?_(?P<student>[^_]+)(?P<number>)_attempt_\d{4}(-\d\d){5}(\.txt|_(?P<name>.+))", re.DOTALL
)
"""Its names of users are unique, so no number tells two of one name apart."""
_CANVAS: Final = re.compile(r"(?P<student>[^_]+)_(LATE_)?(?P<number>\d+)_\d+_(?P<name>.+)", re.DOTALL)
_GRADESCOPE: Final = re.compile(r"submission_\d+")
_SUBMITTER: Final = re.compile(r":name: (.+)|:email: (.+)")
_AGAIN: Final = re.compile(r"(\s?\(\d+\)|-\d+|[ _-]?(copy|Copy)\d*)$")


class File(NamedTuple):
    """One file that was handed in. path: relative to the searched folder or archive. time: of its last change.

    read: returns its bytes, or raises Refused. shut: it is an unreadable archive or folder, which may hold notebooks.
    """

    path: PurePosixPath
    time: tuple[float, ...]
    read: Callable[[], bytes]
    shut: bool = False

    @property
    def version(self) -> int:
        """The number that a browser has added, as in "clock (2).ipynb"."""
        found = re.search(r"\((\d{1,9})\)$|-(\d{1,9})$", _stem(self.path))
        return int(found[1] or found[2]) if found else 0


class HandedIn(NamedTuple):
    """Everything that was found. layout: how it is organised, in a sentence. notes: what was skipped, and why."""

    layout: str
    students: dict[str, list[File]]
    notes: list[str]


def find(place: Path, student: str = "", out: Path | None = None) -> HandedIn:
    """The hand-ins in a folder or an archive. student: a regular expression whose first group in a path is its student.

    out: the folder with the marks, which belongs to no student. Raises ValueError for a place that holds none.
    """
    notes: list[str] = []
    files = list(_files(place, notes, out))
    if not any(map(_may_answer, files)):
        raise ValueError(f"there is no notebook in {place}; it must be a folder of hand-ins, or a zip archive of them")
    if student:
        layout, named = f"students named by {student}", list(_by_expression(files, student, notes))
    else:
        layout, named = _by_looking(place, files)
    students: dict[str, list[File]] = defaultdict(list)
    for name, file in named:
        passed_over = name == "solutions" or "solutions" in file.path.parts[:-1]
        if passed_over:
            notes.append(f"{file.path}: solutions are nobody's hand-in, and were passed over")
        if name and name != "solutions":
            students[name] += [file] if _may_answer(file) and not passed_over else []
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
    """In the order in which they count, the newest first."""
    return sorted(files, key=lambda file: (file.time, file.version, str(file.path)), reverse=True)


def books_in(place: Path, notes: list[str]) -> Iterator[File]:
    """The files that may hold an answer, in one student's folder or archive; `notes` gets what was skipped."""
    try:
        yield from filter(_may_answer, _files(place, notes, None))
    except ValueError as error:
        yield _make_unreadable(PurePosixPath(_readable(place.name)), str(error), notes)


def _is_book(file: File) -> bool:
    return _BOOK.fullmatch(file.path.name) is not None


def _may_answer(file: File) -> bool:
    """Whether an answer may be in it."""
    return _is_book(file) or file.shut


def _files(place: Path, notes: list[str], out: Path | None) -> Iterator[File]:
    """All files but those that editors and systems hide."""
    return (file for file in _walk(place, notes, out) if not file.path.name.startswith(_HIDDEN))


def _walk(place: Path, notes: list[str], out: Path | None) -> Iterator[File]:
    if place.is_file():
        if not zipfile.is_zipfile(place):
            raise ValueError(f"{place} is a file, but no zip archive; give the folder of all hand-ins")
        yield from _in_archive(place.read_bytes(), PurePosixPath(), notes, 1)
        return
    if not place.is_dir():
        raise ValueError(f"{place} does not exist; give the folder of all hand-ins, or a zip archive of it")
    counts: Counter[PurePosixPath] = Counter()
    shut: set[PurePosixPath] = set()
    waiting = [place]
    while waiting:  # not os.walk, which is recursive: a thousand nested folders would stop it
        folder = waiting.pop()
        if not shut.isdisjoint(_within(_short(folder, place))):
            continue
        try:
            found = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            why = f"{folder.name} can't be read: {error.strerror}"
            if folder == place:
                raise ValueError(why) from None
            yield _make_unreadable(_short(folder, place), why, notes)
            continue
        folders = []
        if folder != place and all(entry.name.startswith(_HIDDEN) for entry in found):
            yield _empty(_short(folder, place))
        for entry in found:
            path = folder / entry.name
            if not _is_folder(entry):
                short = _short(path, place)
                counts.update(short.parents)
                if counts[_TOP] > _MOST_FILES:
                    full = _fullest(counts, place)
                    yield _make_overfull(full, notes)
                    shut.add(full)
                    counts.subtract(dict.fromkeys(_within(full), counts[full]))
                if not shut.isdisjoint(short.parents):
                    break
                yield from _one(path, short, notes)
            elif entry.name.startswith(".") or entry.name == "__pycache__" or _same(path, out):
                continue
            elif entry.is_symlink():
                notes.append(f"{_short(path, place)}: a link to a folder is not followed")
            else:
                folders.append(path)
                if _BOOK.fullmatch(entry.name):
                    yield _make_unreadable(_short(path, place), f"{entry.name} is a folder", notes)
        waiting += reversed(folders)


def _within(folder: PurePosixPath) -> list[PurePosixPath]:
    """The folder, and all that it is in."""
    return [folder, *folder.parents]


def _fullest(counts: Counter[PurePosixPath], place: object) -> PurePosixPath:
    """The deepest folder that holds over half of all files. Raises ValueError where there is none."""
    over = [folder for folder, count in counts.items() if folder != _TOP and 2 * count > counts[_TOP]]
    if not over:
        raise ValueError(_too_many(place))
    return max(over, key=lambda folder: len(folder.parts))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # such as a link that leads to itself
        return False


def _same(path: Path, out: Path | None) -> bool:
    return out is not None and path.resolve() == out.resolve()


def _too_many(place: object) -> str:
    return f"there are more than {_MOST_FILES} files in {place}; give the folder of one exercise sheet"


def _short(path: Path, place: Path) -> PurePosixPath:
    return PurePosixPath(_readable(path.relative_to(place).as_posix()))


def _readable(name: str) -> str:
    """A file's name as encodable text, even if its bytes are not; distinct names stay distinct."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _make_unreadable(path: PurePosixPath, why: str, notes: list[str]) -> File:
    """An archive or folder that can't be read, so that its student is told why."""

    def read() -> bytes:
        raise Refused(why)

    notes.append(f"{path}: {why}")
    return File(path, (0.0,), read, shut=True)


def _make_overfull(folder: PurePosixPath, notes: list[str]) -> File:
    return _make_unreadable(folder, f"{folder} holds most of over {_MOST_FILES} files", notes)


def _empty(folder: PurePosixPath) -> File:
    """In the place of the files that it lacks, so that a student whose folder is empty is not forgotten."""
    return File(folder / "nothing", (0.0,), lambda: b"")


def _one(path: Path, short: PurePosixPath, notes: list[str]) -> Iterator[File]:
    """The file itself, or the files in it if it is an archive."""
    try:
        with refusing(short.name):
            try:
                about = path.lstat()
            except OSError as error:
                raise Refused(f"{short.name} can't be read: {error.strerror}") from None
            if path.suffix.lower() != ".zip":
                yield File(short, (about.st_mtime,), partial(bytes_of, path))
            elif about.st_size > 50 * LARGEST:
                yield _make_unreadable(short, f"{short.name} is too large an archive, and is not read", notes)
            else:
                yield from _list_apart(_Archive(partial(bytes_of, path, 50 * LARGEST), short, 2), notes)
    except Refused as error:
        yield _make_unreadable(short, str(error), notes)


class _Archive(NamedTuple):
    """A student's archive. read: returns its bytes, or raises Refused. depth: in how many others it is, and 1."""

    read: Callable[[], bytes]
    name: PurePosixPath
    depth: int

    def files(self, notes: list[str]) -> Iterator[File]:
        """The files in it. Raises Refused."""
        return _in_archive(self.read(), self.name, notes, self.depth)


def _list_apart(archive: _Archive, notes: list[str]) -> Iterator[File]:
    """The files in an archive that is opened in a limited process only: here, and anew where a file of it is read."""

    def look(one: _Archive) -> tuple[list[str], list[File]]:
        told: list[str] = []
        return told, [file._replace(read=_none) for file in one.files(told)]

    (found,) = limited.each(look, [archive])
    if isinstance(found, limited.TooMuch):
        raise Refused(f"{archive.name.name} {found}")
    told, files = found
    notes += told
    for number, file in enumerate(files):
        yield file._replace(read=partial(_read_again, archive, number))


def _none() -> bytes:
    return b""


def _read_again(archive: _Archive, number: int) -> bytes:
    return _opened(archive)[number].read()


@lru_cache(maxsize=1)
def _opened(archive: _Archive) -> list[File]:
    """In the limited process that reads one student's files."""
    return list(archive.files([]))


def _in_archive(data: bytes, name: PurePosixPath, notes: list[str], depth: int) -> Iterator[File]:
    """The files of the archive `name`, which is "" for that of the class. Raises Refused if it is not an archive."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except Exception as error:  # zipfile's own errors, and those it does not expect
        raise Refused(f"{name.name or 'this file'} is no zip archive: {error}") from None
    inside = name.with_suffix("") if name.name else name
    members = archive.infolist()
    room = 0 if depth == _DEEPEST else _MOST_INSIDE if depth > 1 else _MOST_MEMBERS
    most = _MOST_MEMBERS if name.name else _MOST_FILES
    while not name.name and len(members) > _MOST_FILES:
        counts = Counter(folder for member in members for folder in _path_of(member).parents)
        full = _fullest(counts, "the archive")
        yield _make_overfull(full, notes)
        members = [member for member in members if full not in _path_of(member).parents]
    if len(members) > most:
        notes.append(f"{name}: of {len(members)} files in it, the first {most} are looked at")
    if name.name and not members:
        yield _empty(inside)
    for member in members[:most]:
        if not member.filename:
            notes.append(f"{name.name or 'the archive'}: a file without a name is passed over")
            continue
        path = _path_of(member)
        if any(part.startswith((".", "__MACOSX")) and part != ".." for part in path.parts):
            continue
        if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", str(path)):
            why = f"{member.filename}: a path that leads out of the archive"
            if name.name and _BOOK.fullmatch(path.name):
                yield _make_unreadable(inside / path.name, why, notes)
            else:
                notes.append(why)
        elif member.is_dir():
            yield _empty(inside / path)
        elif path.suffix.lower() == ".zip":
            room -= 1
            if room == -1:
                why = f"{path.name} is an archive too deep in others, or beside too many, and is not read"
                yield _make_unreadable(inside / path, why, notes)
            if room < 0:
                continue
            try:
                with refusing(path.name):
                    inner = _Archive(_member(archive, member, 2 * LARGEST), inside / path, depth + 1)
                    yield from _list_apart(inner, notes) if depth == 1 else inner.files(notes)
            except Refused as error:
                yield _make_unreadable(inside / path, str(error), notes)
        else:
            yield File(inside / path, tuple(map(float, member.date_time)), _member(archive, member))


def _path_of(member: zipfile.ZipInfo) -> PurePosixPath:
    return PurePosixPath(member.filename.replace("\\", "/"))


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int = LARGEST + 1) -> Callable[[], bytes]:
    def read() -> bytes:
        if stat.S_ISLNK(member.external_attr >> 16):
            raise Refused(f"{member.filename} is a link")
        if member.compress_type not in _COMPRESSED:
            raise Refused(f"{member.filename} is compressed in a way that is not read; zip it in the ordinary way")
        try:
            with archive.open(member) as file:
                return file.read(most)  # regardless of the size that it claims
        except Exception as error:  # errors of zipfile, zlib and others
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
        elif _is_book(file):
            notes.append(f"{file.path}: --student finds no name in it")


def _by_looking(place: Path, files: list[File]) -> tuple[str, list[tuple[str, File]]]:
    layout, name_of = _layout(place, files)
    return layout, [(name, file) for file in files if (name := name_of(file))]


def _layout(place: Path, files: list[File]) -> tuple[str, Callable[[File], str]]:
    """How the notebooks are organised, in a sentence, and whose a file is, "" if no student's."""
    books = [file for file in files if _is_book(file)] or [file for file in files if file.shut]
    if all("submitted" in file.path.parts for file in books):
        return "nbgrader's: submitted/STUDENT/SHEET/*.ipynb", _submitter
    depth = _common(books)

    def head(file: File) -> str:
        return file.path.parts[depth] if len(file.path.parts) > depth + 1 else ""

    def top(file: File) -> str:
        return file.path.parts[depth] if len(file.path.parts) > depth else ""

    heads = list(map(head, books))
    if all(heads) and all(map(_MOODLE.fullmatch, heads)):
        return "Moodle's: NAME_NUMBER_assignsubmission_file", _by_name(_MOODLE, head, files)
    if all(heads) and all(map(_GRADESCOPE.fullmatch, heads)):
        names = _submitters(file for file in files if len(file.path.parts) == depth + 1)
        return "Gradescope's export", lambda file: names.get(head(file), head(file))
    for pattern, layout in (
        (_MOODLE_FLAT, "Moodle's, without folders: NAME_NUMBER_assignsubmission_file_FILE"),
        (_BLACKBOARD, "Blackboard's: ASSIGNMENT_USER_attempt_TIME_FILE"),
        (_CANVAS, "Canvas': NAME_NUMBER_NUMBER_FILE"),
    ):
        if all(pattern.fullmatch(top(file)) for file in books):  # files, and archives that hold files
            return layout, _by_name(pattern, top, files)
    if not any(heads):
        layout = "notebooks in one folder, named EXERCISE_STUDENT or STUDENT_EXERCISE"
        return layout, lambda file: (_rest(file.path) or _only(place)) if _may_answer(file) else ""
    return (
        "a folder for each student",
        lambda file: head(file) or ((_rest(file.path) or _only(place)) if _may_answer(file) else ""),
    )


def _submitter(file: File) -> str:
    """The student of a file in nbgrader's own folders."""
    parts = file.path.parts
    place = parts.index("submitted") + 1 if "submitted" in parts else len(parts)
    return parts[place] if place + 1 < len(parts) else ""


def _by_name(pattern: re.Pattern[str], said: Callable[[File], str], files: list[File]) -> Callable[[File], str]:
    """By the name that a platform gives a file, and by its number, too, where several students have that name."""
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
    """How many leading folders all paths share, as in an archive of one folder; that one may be the only student's."""
    depth = 0
    while len({file.path.parts[: depth + 1] for file in books}) == 1 and all(
        len(f.path.parts) > depth + 2 for f in books
    ):
        depth += 1
    return depth


def _rest(path: PurePosixPath) -> str:
    """What is left of a file's name without the exercise's."""
    stem = _AGAIN.sub("", _stem(path))
    for notebook in {one.notebook for one in all_exercises().values()}:
        for name in (notebook, notebook.removeprefix("exercise_")):
            if name in stem:
                return stem.replace(name, "").strip(" _-.")
    return stem


def _stem(path: PurePosixPath) -> str:
    found = _BOOK.fullmatch(path.name)
    return found["stem"] if found else path.stem


def _only(place: Path) -> str:
    return place.resolve().stem


def _submitters(beside: Iterable[File]) -> dict[str, str]:
    """Gradescope's names, from its own file beside the folders; such a file inside a folder would be a student's."""
    names: dict[str, str] = {}
    for file in beside:
        if file.path.name == "submission_metadata.yml":
            head = ""
            for line in file.read().decode(errors="replace").split("\n"):
                if found := re.match(r"(submission_\d+):", line):
                    head = found[1]
                elif head and head not in names and (found := _SUBMITTER.search(line)):
                    names[head] = (found[1] or found[2]).strip("\"' ")
    return names


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
