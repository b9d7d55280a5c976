"""The cells of a notebook that somebody has handed in, whatever it is: nothing in it is trusted, and nothing is run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

LARGEST: Final = 20_000_000
"""Bytes of a notebook. One with all its charts has two."""

_MOST_CODE: Final = 500_000
"""Characters of code in it."""


class Refused(ValueError):
    """A file that can't be read as a notebook; why, in a sentence."""


class Cell(NamedTuple):
    """One cell. name: as a report calls it. grade_id: nbgrader's, "" without one."""

    kind: str
    source: str
    name: str
    grade_id: str


def read(data: bytes, what: str = "this file") -> list[Cell]:
    """The cells of a notebook of any format from 3 on, or of a Python file. Raises Refused."""
    if len(data) > LARGEST:
        raise Refused(f"{what} has {len(data) / 1e6:.0f} MB, and no more than {LARGEST / 1e6:.0f} are read")
    text = _text(data, what)
    if what.endswith(".py"):
        return _enough([Cell("code", text, what, "")], what)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused(f"{what} is no notebook: it is not JSON") from None
    if not isinstance(found, dict):
        raise Refused(f"{what} is no notebook: there are no cells in it")
    cells = found.get("cells")
    if cells is None and isinstance(found.get("worksheets"), list):  # format 3
        cells = [cell for sheet in found["worksheets"] if isinstance(sheet, dict) for cell in sheet.get("cells") or []]
    if not isinstance(cells, list):
        raise Refused(f"{what} is no notebook: there are no cells in it")
    return _enough(list(_cells(cells)), what)


def of(path: Path) -> list[Cell]:
    """The cells of a file, of which no more is read than a notebook may have. Raises Refused."""
    try:
        if path.is_symlink() or not path.is_file():
            raise Refused(f"{path.name} is a link or no file")
        with path.open("rb") as file:
            return read(file.read(LARGEST + 1), path.name)
    except OSError as error:
        raise Refused(f"{path.name} can't be read: {error.strerror}") from None


def _text(data: bytes, what: str) -> str:
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"  # with a mark or without
    try:
        return data.decode(encoding).replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise Refused(f"{what} is no notebook: it is no text in UTF-8") from None


def _cells(cells: list[Any]) -> Iterator[Cell]:
    number = 0
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        kind = str(cell.get("cell_type", ""))
        number += kind == "code"
        source = cell.get("source", cell.get("input", ""))
        if isinstance(source, list):
            source = "".join(part for part in source if isinstance(part, str))
        grade_id = _of(_of(cell, "metadata"), "nbgrader").get("grade_id", "")
        if isinstance(source, str):
            yield Cell(kind, source.replace("\r\n", "\n"), f"code cell {number}", str(grade_id))


def _of(found: dict[str, Any], name: str) -> dict[str, Any]:
    inside = found.get(name)
    return inside if isinstance(inside, dict) else {}


def _enough(cells: list[Cell], what: str) -> list[Cell]:
    if sum(len(cell.source) for cell in cells if cell.kind == "code") > _MOST_CODE:
        raise Refused(f"{what} holds more than {_MOST_CODE} characters of code")
    return cells
