"""The cells of a notebook that was handed in: nothing in it is trusted, and nothing is run."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpipe_edu.base.atomic_write import escape
from gpipe_edu.process.lines import lines_of

STRICT = False
"""In tests, our own errors are raised."""

LARGEST: Final = 20_000_000
"""Bytes of a notebook. One with all its charts has two million."""

_MOST_CODE: Final = 500_000
"""Characters of code in it."""


class Refused(ValueError):
    """A file that can't be read as a notebook; why, in a sentence."""


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Around work on one student's hand-in: any error becomes Refused, and so affects no other student."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        if STRICT:
            raise
        raise Refused(f"{what} can't be dealt with ({type(error).__name__}: {error})") from error


class Cell(NamedTuple):
    """One cell, made by `cell`. name: as a report calls it. grade_id: nbgrader's, "" without one."""

    kind: str
    source: str
    name: str
    grade_id: str


def cell(kind: str, source: str, name: str, grade_id: str = "") -> Cell:
    """A cell with line ends as Python sees them, carriage returns included, and with encodable text."""
    return Cell(kind, escape("".join(lines_of(source))), name, grade_id)


def read(data: bytes, what: str = "this file") -> list[Cell]:
    """The cells of a notebook of any format from 3 on, or of a Python file. Raises Refused."""
    if len(data) > LARGEST:
        raise Refused(f"{what} has more than {LARGEST / 1e6:.0f} MB, and is not read")
    text = _text(data, what)
    if what.lower().endswith(".py"):
        return _enough([cell("code", piece, what) for piece in _percent_cells("".join(lines_of(text)))], what)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused(f"{what} is no notebook: it is not JSON") from None
    if not isinstance(found, dict):
        raise Refused(f"{what} is no notebook: there are no cells in it")
    cells = found.get("cells")
    if cells is None and isinstance(found.get("worksheets"), list):  # format 3
        sheets = [sheet.get("cells") for sheet in found["worksheets"] if isinstance(sheet, dict)]
        cells = [one for inside in sheets if isinstance(inside, list) for one in inside]
    if not isinstance(cells, list):
        raise Refused(f"{what} is no notebook: there are no cells in it")
    return _enough(list(_cells(cells)), what)


def _percent_cells(text: str) -> Iterator[str]:
    """A Python file, cut at its `# %%` lines, so that a cell that is not Python spoils no other. Each stands below
    as many empty lines as there are lines above it in the file: errors name the lines that its author sees."""
    above = 0
    for piece in re.split(r"^(?=# %%)", text, flags=re.MULTILINE):
        yield "\n" * above + piece
        above += piece.count("\n")


def of(path: Path) -> list[Cell]:
    """The cells of a file that was handed in. Raises Refused."""
    with refusing(path.name):
        return read(bytes_of(path), path.name)


def bytes_of(path: Path, most: int = LARGEST) -> bytes:
    """A file's content, but no more than one byte over `most`. Raises Refused.

    Only a regular file is opened: a pipe would block forever.
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise Refused(f"{path.name} is no regular file, but a link, a folder, a pipe or a device")
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise Refused(f"{path.name} can't be read: {error.strerror}") from None


def _text(data: bytes, what: str) -> str:
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"  # with or without a BOM
    if data[1:2] == b"\0" or data[:1] == b"\0":  # a first letter of two bytes
        encoding = "utf-16-le" if data[1:2] == b"\0" else "utf-16-be"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        raise Refused(f"{what} is no notebook: it is no text in UTF-8") from None


def _cells(cells: list[Any]) -> Iterator[Cell]:
    number = 0
    for one in cells:
        if not isinstance(one, dict):
            continue
        kind, source = one.get("cell_type"), one.get("source", one.get("input", ""))
        number += kind == "code"
        if isinstance(source, list):
            source = "".join(part for part in source if isinstance(part, str))
        grade_id = _of(_of(one, "metadata"), "nbgrader").get("grade_id")
        if isinstance(kind, str) and isinstance(source, str):
            yield cell(kind, source, f"code cell {number}", grade_id if isinstance(grade_id, str) else "")


def _of(found: dict[str, Any], name: str) -> dict[str, Any]:
    inside = found.get(name)
    return inside if isinstance(inside, dict) else {}


def _enough(cells: list[Cell], what: str) -> list[Cell]:
    if sum(len(one.source) for one in cells if one.kind == "code") > _MOST_CODE:
        raise Refused(f"{what} holds more than {_MOST_CODE} characters of code")
    return cells
