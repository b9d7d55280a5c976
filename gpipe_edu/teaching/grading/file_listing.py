"""All files of hand-ins, in folders and in archives, with what it takes to read each. Nothing is unpacked to disk.

What one student's archive holds is looked at only in a limited process, where it can hold up nobody else.
"""

from __future__ import annotations

import io
import os
import re
import stat
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from gpipe_edu.course.submitted_notebook import LARGEST, Refused, bytes_of, refusing
from gpipe_edu.process import distrusted_files

_BOOK: Final = re.compile(r"(?P<stem>.+)\.(ipynb(\.txt|\.json)?|py)", re.IGNORECASE | re.DOTALL)
"""A notebook's name, including changes made by browsers and mail programs."""

_DOCUMENT: Final = re.compile(
    r".+\.(pdf|html?|docx?|odt|rtf|pages|png|jpe?g|heic|webp|rar|7z|tar|t?gz)", re.IGNORECASE | re.DOTALL
)
"""A name of what students hand in instead of a notebook; other files, such as a platform's own, are no mistake."""

_MOST_FILES: Final = 200_000
"""Far more than a class has, because one student may hand in thousands. They are listed, not read.

With more, a folder that has over half of them is taken to be one student's, who is refused.
"""

_MOST_MEMBERS: Final = 20_000
"""In one student's archive."""

_COMPRESSED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression methods that stop at a limit: with the others zipfile unpacks a gigabyte before it counts."""

_TOP: Final = PurePosixPath()

_DEEPEST: Final = 3
"""How deep archives may lie in archives."""

_MOST_INSIDE: Final = 5
"""Archives in one student's archive."""

_HIDDEN: Final = (".", "~$")

_COPIES: Final = (".ipynb_checkpoints", "._", "__MACOSX", "~$")
"""How hidden files and folders begin that systems and editors make of a notebook that is there, too."""

_MOST_HIDDEN: Final = 1000
"""Names that are looked at in a hidden folder."""

_UNSEEN_KINDS: Final = ("Cc", "Cf", "Zl", "Zp")
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that nobody sees, though Unicode counts them among letters, marks and symbols."""


class Sent(NamedTuple):
    """When something was handed in, by this machine's clock, and who says so. late: if a platform calls it late."""

    time: datetime | None
    source: str
    late: bool = False


UNKNOWN: Final = Sent(None, "nobody")


class File(NamedTuple):
    """One file that was handed in. path: relative to the searched folder or archive. time: of its last change.

    read: returns its bytes, or raises Refused. shut: whether it is an unreadable archive or folder, which may hold
    notebooks. outside: the time of the student's archive that it is in; what is inside has the times that the student
    gave it.
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
        found = re.search(r"\((\d{1,9})\)$|-(\d{1,9})$", stem(self.path))
        return int(found[1] or found[2]) if found else 0


def is_book(file: File) -> bool:
    """Whether it is a notebook, by its name."""
    return _BOOK.fullmatch(file.path.name) is not None


def is_document(file: File) -> bool:
    """Whether a student may take it for the hand-in, by its name."""
    return _DOCUMENT.fullmatch(file.path.name) is not None


def may_answer(file: File) -> bool:
    """Whether an answer may be in it."""
    return is_book(file) or file.shut


def list_files(place: Path, notes: list[str], out: Path | None) -> Iterator[File]:
    """All files except those that editors and systems hide; `notes` gets the notebooks among these."""
    for file in _walk(place, notes, out):
        if not file.path.name.startswith(_HIDDEN):
            yield file
        elif _is_own(file.path):
            notes.append(f"{file.path}: {_PASSED_OVER}")


_PASSED_OVER: Final = "what begins with a dot is passed over; rename it if it is a hand-in"


def _is_own(path: PurePosixPath) -> bool:
    """Whether something hidden is a notebook, and no copy that was made of one."""
    return path.name.lower().endswith(".ipynb") and not any(part.startswith(_COPIES) for part in path.parts)


def _has_own(folder: Path) -> bool:
    """Whether there is a notebook in a hidden folder, as far as it is looked at."""
    waiting, left = [folder], _MOST_HIDDEN
    while waiting and left:
        with suppress(OSError), os.scandir(waiting.pop()) as found:
            for entry in islice(found, left):
                left -= 1
                if _is_own(PurePosixPath(Path(entry.path).relative_to(folder.parent))):
                    return True
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
    return False


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
            yield make_unreadable(_short(folder, place), why, notes)
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
                if entry.name.startswith(".") and _has_own(path):
                    notes.append(f"{_short(path, place)}: {_PASSED_OVER}")
            elif entry.is_symlink():
                notes.append(f"{_short(path, place)}: a link to a folder is not followed")
            else:
                folders.append(path)
                if _BOOK.fullmatch(entry.name):
                    yield make_unreadable(_short(path, place), f"{entry.name} is a folder", notes)
        waiting += reversed(folders)


def _within(folder: PurePosixPath) -> list[PurePosixPath]:
    """The folder, and all the folders that it is in."""
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
    return PurePosixPath(readable(path.relative_to(place).as_posix()))


def readable(name: str) -> str:
    r"""A name as text that shows what it is. What can't be encoded, has no width, or turns the direction of what is
    written beside it is escaped, as \u202e is; so two students whose names look alike are not one."""
    text = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    hidden = {one for one in text if unicodedata.category(one) in _UNSEEN_KINDS or _UNSEEN.match(one)}
    return text.translate({ord(one): one.encode("unicode_escape").decode() for one in hidden})


def make_unreadable(path: PurePosixPath, why: str, notes: list[str]) -> File:
    """An archive or folder that can't be read, so that its student is told why."""

    def read() -> bytes:
        raise Refused(why)

    notes.append(f"{path}: {why}")
    return File(path, (0.0,), read, shut=True)


def _make_overfull(folder: PurePosixPath, notes: list[str]) -> File:
    return make_unreadable(folder, f"{folder} holds most of over {_MOST_FILES} files", notes)


def _empty(folder: PurePosixPath) -> File:
    """Stands in for files that the folder lacks, so that a student whose folder is empty is not forgotten."""
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
                why = f"{short.name} has more than {50 * LARGEST / 1e6:,.0f} MB, and is not read"
                yield make_unreadable(short, why, notes)
            else:
                archive = _Archive(partial(bytes_of, path, 50 * LARGEST), short, 2)
                yield from _sent_at((about.st_mtime,), _list_apart(archive, notes))
    except Refused as error:
        yield make_unreadable(short, str(error), notes)


class _Archive(NamedTuple):
    """A student's archive. read: returns its bytes, or raises Refused. depth: how many others it is in, plus 1."""

    read: Callable[[], bytes]
    name: PurePosixPath
    depth: int

    def files(self, notes: list[str]) -> Iterator[File]:
        """The files in it. Raises Refused."""
        return _in_archive(self.read(), self.name, notes, self.depth)


def _list_apart(archive: _Archive, notes: list[str]) -> Iterator[File]:
    """The files in an archive, opened only in a limited process: here, and again when one of its files is read."""

    def look(one: _Archive) -> tuple[list[str], list[File]]:
        told: list[str] = []
        return told, [file._replace(read=_none) for file in one.files(told)]

    (found,) = distrusted_files.each(look, [archive])
    if isinstance(found, distrusted_files.TooMuch):
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
    """The archive's files, in the limited process that reads one student's."""
    return list(archive.files([]))


def _in_archive(data: bytes, name: PurePosixPath, notes: list[str], depth: int) -> Iterator[File]:
    """The files of the archive `name`, which is "" for the class's. Raises Refused if it is not an archive."""
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
    passed_over: set[PurePosixPath] = set()
    for member in members[:most]:
        if not member.filename:
            notes.append(f"{name.name or 'the archive'}: a file without a name is passed over")
            continue
        path = _path_of(member)
        if hidden := [part for part in path.parts if part.startswith((".", "__MACOSX")) and part != ".."]:
            top = inside / str(path).partition(hidden[0])[0] / hidden[0]
            if _is_own(path) and top not in passed_over:
                passed_over.add(top)
                notes.append(f"{top}: {_PASSED_OVER}")
            continue
        if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", str(path)):
            why = f"{path}: a path that leads out of the archive"
            if name.name and _BOOK.fullmatch(path.name):
                yield make_unreadable(inside / path.name, why, notes)
            else:
                notes.append(why)
        elif member.is_dir():
            yield _empty(inside / path)
        elif path.suffix.lower() == ".zip":
            room -= 1
            if room == -1:
                why = f"{path.name} is an archive too deep in others, or beside too many, and is not read"
                yield make_unreadable(inside / path, why, notes)
            if room < 0:
                continue
            try:
                with refusing(path.name):
                    inner = _Archive(_member(archive, member, 2 * LARGEST), inside / path, depth + 1)
                    found = _list_apart(inner, notes) if depth == 1 else inner.files(notes)
                    yield from _sent_at(_time_of(member), found)
            except Refused as error:
                yield make_unreadable(inside / path, str(error), notes)
        else:
            yield File(inside / path, _time_of(member), _member(archive, member))


def _sent_at(time: tuple[float, ...], files: Iterable[File]) -> Iterator[File]:
    """The files of an archive handed in at that time; of nested archives the outermost counts."""
    return (file._replace(outside=time) for file in files)


def _time_of(member: zipfile.ZipInfo) -> tuple[float, ...]:
    return tuple(map(float, member.date_time))


def _path_of(member: zipfile.ZipInfo) -> PurePosixPath:
    return PurePosixPath(readable(member.filename.replace("\\", "/")))


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int = LARGEST) -> Callable[[], bytes]:
    name = _path_of(member)

    def read() -> bytes:
        if stat.S_ISLNK(member.external_attr >> 16):
            raise Refused(f"{name} is a link")
        if member.compress_type not in _COMPRESSED:
            raise Refused(f"{name} is compressed in a way that is not read; zip it in the ordinary way")
        try:
            with archive.open(member) as file:
                data = file.read(most + 1)  # regardless of the size that it claims
        except Exception as error:  # errors of zipfile, zlib and others
            raise Refused(f"{name} can't be read: {error}") from None
        if len(data) > most:
            raise Refused(f"{name} unpacks to more than {most / 1e6:.0f} MB, and is not read")
        return data

    return read


def stem(path: PurePosixPath) -> str:
    """A file's name without its ending, of which a notebook may have several."""
    found = _BOOK.fullmatch(path.name)
    return found["stem"] if found else path.stem
