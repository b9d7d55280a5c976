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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache, partial
from itertools import takewhile
from pathlib import Path, PurePosixPath
from types import MappingProxyType
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
    r".+?_(?P<student>[^_]+)(?P<number>)_attempt_(?P<time>\d{4}(-\d\d){5})(\.txt|_(?P<name>.+))", re.DOTALL
)
"""Its names of users are unique, so no number tells two of one name apart."""
_CANVAS: Final = re.compile(r"(?P<student>[^_]+)_(?P<late>LATE_)?(?P<number>\d+)_\d+_(?P<name>.+)", re.DOTALL)
_GRADESCOPE: Final = re.compile(r"submission_\d+")
_SUBMITTER: Final = re.compile(r":name: (.+)|:email: (.+)")
_CREATED: Final = re.compile(r":created_at: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[.\d]* *(Z|[+-]\d\d:\d\d)?")
_AGAIN: Final = re.compile(r"(\s?\(\d+\)|-\d+|[ _-]?(copy|Copy)\d*)$")


class Sent(NamedTuple):
    """When something was handed in, by this machine's clock, and who says so. late: a platform calls it late."""

    time: datetime | None
    source: str
    late: bool = False


UNKNOWN: Final = Sent(None, "nobody")


class File(NamedTuple):
    """One file that was handed in. path: relative to the searched folder or archive. time: of its last change.

    read: returns its bytes, or raises Refused. shut: it is an unreadable archive or folder, which may hold notebooks.
    outside: the time of the student's archive that it is in; what is inside has the times that the student gave it.
    """

    path: PurePosixPath
    time: tuple[float, ...]
    read: Callable[[], bytes]
    shut: bool = False
    outside: tuple[float, ...] = ()
    sent: Sent = UNKNOWN

    @property
    def version(self) -> int:
        """The number that a browser has added, as in "clock (2).ipynb"."""
        found = re.search(r"\((\d{1,9})\)$|-(\d{1,9})$", _stem(self.path))
        return int(found[1] or found[2]) if found else 0


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
    files = list(_files(place, notes, out))
    if not any(map(_may_answer, files)):
        raise ValueError(f"there is no notebook in {place}; it must be a folder of hand-ins, or a zip archive of them")
    if student:
        layout = _Layout(f"students named by {student}", _by_expression(student))
        nameless = (file for file in files if _is_book(file) and not layout.name_of(file))
        notes += [f"{file.path}: --student finds no name in it" for file in nameless]
    else:
        layout = _layout(place, files)
    named = [(name, file) for file in files if (name := layout.name_of(file))]
    students: dict[str, list[File]] = defaultdict(list)
    for name, file in named:
        passed_over = name == "solutions" or "solutions" in file.path.parts[:-1]
        if passed_over:
            notes.append(f"{file.path}: solutions are nobody's hand-in, and were passed over")
        if name and name != "solutions":
            sent = [file._replace(sent=layout.sent(file))] if _may_answer(file) and not passed_over else []
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
                archive = _Archive(partial(bytes_of, path, 50 * LARGEST), short, 2)
                yield from _sent_at((about.st_mtime,), _list_apart(archive, notes))
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
                    found = _list_apart(inner, notes) if depth == 1 else inner.files(notes)
                    yield from _sent_at(_time_of(member), found)
            except Refused as error:
                yield _make_unreadable(inside / path, str(error), notes)
        else:
            yield File(inside / path, _time_of(member), _member(archive, member))


def _sent_at(time: tuple[float, ...], files: Iterable[File]) -> Iterator[File]:
    """The files of an archive of that time; of archives in one another the outermost counts."""
    return (file._replace(outside=time) for file in files)


def _time_of(member: zipfile.ZipInfo) -> tuple[float, ...]:
    return tuple(map(float, member.date_time))


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


class _Layout(NamedTuple):
    """How the notebooks are organised, in a sentence, and what is known of a file: whose it is, and when it was sent.

    name_of: the student, "" for none. number_of: by which a platform knows that student, "" where it does not tell.
    """

    sentence: str
    name_of: Callable[[File], str]
    sent: Callable[[File], Sent] = _own_time
    number_of: Callable[[File], str] = _nothing


def _by_expression(expression: str) -> Callable[[File], str]:
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


def _layout(place: Path, files: list[File]) -> _Layout:
    books = [file for file in files if _is_book(file)] or [file for file in files if file.shut]
    if all("submitted" in file.path.parts for file in books):
        return _Layout("nbgrader's: submitted/STUDENT/SHEET/*.ipynb", _submitter)
    depth = _common(books)

    def head(file: File) -> str:
        return file.path.parts[depth] if len(file.path.parts) > depth + 1 else ""

    def top(file: File) -> str:
        return file.path.parts[depth] if len(file.path.parts) > depth else ""

    heads = list(map(head, books))
    if all(heads) and all(map(_MOODLE.fullmatch, heads)):
        return _of_platform("Moodle's: NAME_NUMBER_assignsubmission_file", _MOODLE, head, files, _never)
    if all(heads) and all(map(_GRADESCOPE.fullmatch, heads)):
        told = _submitters(file for file in files if len(file.path.parts) == depth + 1)
        unknown = (None, UNKNOWN)
        return _Layout(
            "Gradescope's export",
            lambda file: told.get(head(file), unknown)[0] or head(file),
            lambda file: told.get(head(file), unknown)[1],
        )
    for pattern, layout, sent in (
        (_MOODLE_FLAT, "Moodle's, without folders: NAME_NUMBER_assignsubmission_file_FILE", _never),
        (_BLACKBOARD, "Blackboard's: ASSIGNMENT_USER_attempt_TIME_FILE", _sent_to_blackboard),
        (_CANVAS, "Canvas': NAME_NUMBER_NUMBER_FILE", _sent_to_canvas),
    ):
        if all(pattern.fullmatch(top(file)) for file in books):  # files, and archives that hold files
            return _of_platform(layout, pattern, top, files, sent)
    if slug := _assignment(place, books, heads, depth):
        return _Layout(
            "GitHub Classroom's: ASSIGNMENT-USER", lambda file: head(file).removeprefix(slug), lambda file: UNKNOWN
        )
    if not any(heads):
        layout = "notebooks in one folder, named EXERCISE_STUDENT or STUDENT_EXERCISE"
        return _Layout(layout, lambda file: (_rest(file.path) or _only(place)) if _may_answer(file) else "")
    return _Layout(
        "a folder for each student",
        lambda file: head(file) or ((_rest(file.path) or _only(place)) if _may_answer(file) else ""),
    )


def _assignment(place: Path, books: list[File], heads: list[str], depth: int) -> str:
    """How the names of all clones of GitHub Classroom's begin, "" where these folders are none.

    They lie in ASSIGNMENT-submissions; else each is a repository, and the longest common beginning is taken for it.
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
) -> _Layout:
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

    def number_of(file: File) -> str:
        found = pattern.fullmatch(said(file))
        return found["number"] if found else ""

    def sent_of(file: File) -> Sent:
        found = pattern.fullmatch(said(file))
        return sent(found) if found else UNKNOWN

    return _Layout(layout, name_of, sent_of, number_of)


def _never(found: re.Match[str]) -> Sent:
    """Moodle: the times in its archive are those of the download."""
    return UNKNOWN


def _sent_to_blackboard(found: re.Match[str]) -> Sent:
    with suppress(ValueError):
        return Sent(datetime.strptime(found["time"], "%Y-%m-%d-%H-%M-%S"), "Blackboard's export")
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


def _submitters(beside: Iterable[File]) -> dict[str, tuple[str, Sent]]:
    """Gradescope's names and times, from its own file beside the folders; one inside a folder would be a student's."""
    names: dict[str, str] = {}
    times: dict[str, Sent] = {}
    for file in beside:
        if file.path.name == "submission_metadata.yml":
            head = ""
            for line in file.read().decode(errors="replace").split("\n"):
                if found := re.match(r"(submission_\d+):", line):
                    head = found[1]
                elif head and head not in names and (found := _SUBMITTER.search(line)):
                    names[head] = (found[1] or found[2]).strip("\"' ")
                elif head and head not in times and (found := _CREATED.search(line)):
                    time = datetime.fromisoformat(found[1] + (found[2] or "Z").replace("Z", "+00:00"))
                    times[head] = Sent(time.astimezone().replace(tzinfo=None), "Gradescope's export")
    return {head: (names.get(head, ""), times.get(head, UNKNOWN)) for head in names.keys() | times.keys()}


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
