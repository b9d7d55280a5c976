"""A list of participants, as a platform or a teacher has it, and which row is which student's."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from .file_listing import readable

_NO_NUMBERS: Final[Mapping[str, str]] = MappingProxyType({})


class Roster(NamedTuple):
    """A list of participants: its columns, its rows, and the student of each row that has handed in.

    unclear: the rows that may belong to one of several students, with those students. mark: the byte order
    mark that the file began with. separator: between two cells. end: of a line. encoding: of the file.
    """

    columns: list[str]
    cells: list[list[str]]
    whose: dict[int, str]
    unclear: dict[int, list[str]]
    mark: str = ""
    separator: str = ","
    end: str = "\n"
    encoding: str = "utf-8"

    @property
    def rows(self) -> list[dict[str, str]]:
        """The rows, each by the names of its columns, without columns that have no name."""
        return [{name: cell for name, cell in zip(self.columns, row, strict=False) if name} for row in self.cells]

    def filled(self, column: str, values: Mapping[int, str]) -> bytes:
        """The file as it was, with these values in the rows of that column."""
        place, text = self.columns.index(column), io.StringIO(newline="")
        text.write(self.mark)
        writer = csv.writer(text, delimiter=self.separator, lineterminator=self.end)
        writer.writerow(self.columns)
        for index, row in enumerate(self.cells):
            wide = row + [""] * (len(self.columns) - len(row))
            writer.writerow([*wide[:place], values.get(index, wide[place]), *wide[place + 1 :]])
        return text.getvalue().encode(self.encoding)


def read_roster(path: Path, students: Sequence[str], numbers: Mapping[str, str] = _NO_NUMBERS) -> Roster:
    """A roster whose rows are matched with the students, by the one or two columns that match most of them.

    numbers: those by which a platform knows students. A column that has them decides. Raises ValueError for a file in
    which no student matches.
    """
    data, encoding = path.read_bytes(), "utf-8"
    try:
        text = data.decode()
    except UnicodeDecodeError:  # as some spreadsheets write; any bytes are text in it, and come back as they were
        encoding = "latin-1"
        text = data.decode(encoding)
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    text = text.removeprefix(mark)
    separator = _separator(text)
    columns, *cells = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row] or [[]]
    whose, unclear = _match_columns(columns, cells, students)
    known = _match_numbers(columns, cells, numbers)
    if known:
        whose = {index: name for index, name in whose.items() if name not in numbers} | known
        unclear = {
            index: left
            for index, names in unclear.items()
            if index not in known and (left := [name for name in names if name not in numbers])
        }
    if not whose:
        raise ValueError(
            f"no student of {path} is among the hand-ins, by whichever column; these are {', '.join(students[:3])}"
        )
    return Roster(columns, cells, whose, unclear, mark, separator, "\r\n" if "\r\n" in text else "\n", encoding)


def _match_columns(
    columns: Sequence[str], cells: Sequence[Sequence[str]], students: Sequence[str]
) -> tuple[dict[int, str], dict[int, list[str]]]:
    best: tuple[dict[int, str], dict[int, list[str]]] = ({}, {})
    places = [place for place, name in enumerate(columns) if name]
    ways: list[tuple[int, ...]] = [(place,) for place in places]
    ways += [(one, other) for one in places for other in places if one != other]
    for way in ways:
        found = _match([readable(" ".join(_cell(row, place) for place in way)) for row in cells], students)
        if len(set(found[0].values())) > len(set(best[0].values())):
            best = found
    return best


def _match(names: Sequence[str], students: Sequence[str]) -> tuple[dict[int, str], dict[int, list[str]]]:
    """The student of each of these names, by its place; and the possible ones, where it is not clear who it is.

    A name written the same way decides; otherwise accents, case and blanks are ignored, if only one of each is left.
    """
    alike = set(names).intersection(students)
    left_names, left_students = _by_plain(set(names) - alike), _by_plain(set(students) - alike)
    whose, unclear = {}, {}
    for place, name in enumerate(names):
        plain = _plain(name)
        if name in alike:
            whose[place] = name
        elif len(left_names[plain]) == len(left_students[plain]) == 1:
            whose[place] = next(iter(left_students[plain]))
        elif left_students[plain]:
            unclear[place] = sorted(left_students[plain])
    return whose, unclear


def _match_numbers(
    columns: Sequence[str], cells: Sequence[Sequence[str]], numbers: Mapping[str, str]
) -> dict[int, str]:
    """The student of each row whose cell ends in that student's number, in the column where most do."""
    names = {number: name for name, number in numbers.items()}
    ways = []
    for place in range(len(columns)):
        ends = [re.search(r"(\d*)\s*$", _cell(row, place)) for row in cells]
        ways.append({i: names[end[1]] for i, end in enumerate(ends) if end and end[1] in names})
    return max(ways, key=lambda found: len(set(found.values())), default={})


def _cell(row: Sequence[str], place: int) -> str:
    return row[place] if place < len(row) else ""


def _by_plain(names: set[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for name in names:
        found[_plain(name)].add(name)
    return found


def _separator(text: str) -> str:
    """What separates two cells; from the first line only, since a name in a later one may contain any of them."""
    try:
        return csv.Sniffer().sniff(text.partition("\n")[0], delimiters=",;\t").delimiter
    except csv.Error:
        return ","


def _plain(name: str) -> str:
    """A name without what exports change: case, accents, blanks, and what `file_listing.readable` has escaped."""
    plain = unicodedata.normalize("NFKD", re.sub(r"\\(x|u|U000)[0-9a-f]{2,5}", "", name)).casefold()
    return re.sub(r"[\W_]+", "", "".join(c for c in plain if not unicodedata.combining(c)))
