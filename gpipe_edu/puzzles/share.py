"""A board as a short string to send to others: its level and its rows, with a checksum against damage on the way.

    gpipe1:1f1b:Aaz...:x9Yz1w       version, level, rows, checksum

Rows are written as one number, an op or the end of a row per digit. The string holds no verdict: when it is opened, the
board is judged anew.
"""

from __future__ import annotations

import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from gpipe_edu.schedule import Op

from .levels import SANDBOX, Level, find_level, sandbox
from .position import Rows

VERSION: Final = "gpipe1"

_LONGEST: Final = 100_000
"""Characters; the largest board that a sandbox allows is written in fewer."""

_CODED: Final = re.compile(r"[A-Za-z0-9_-]+")


def share(level: Level, rows: Rows) -> str:
    """The string for a board. Raises ValueError for ops that the level does not have."""
    index = {op: number for number, op in enumerate(level.ops(), start=1)}
    number = 1  # in front, so that leading zeros count
    for row in rows:
        for op in row:
            if op not in index:
                raise ValueError(f"{op} cannot be shared: the level {level.title!r} has no such op; take it away first")
            number = number * (len(index) + 1) + index[op]
        number *= len(index) + 1
    body = f"{VERSION}:{_level_code(level)}:{_letters(number.to_bytes((number.bit_length() + 7) // 8, 'big'))}"
    return f"{body}:{_check(body)}"


def read(text: str) -> tuple[Level, Rows]:
    """Level and rows of a share string; blanks and line breaks don't matter. Raises ValueError for other strings."""
    if not isinstance(text, str):
        raise TypeError(f"share string is {text!r}; it must be text that begins with {VERSION}:")
    compact = "".join(text.split())
    if not compact.startswith("gpipe"):
        raise ValueError(f"this is no share string: it begins with {compact[:10]!r}, but should with {VERSION}:")
    parts = compact.split(":")
    if parts[0] != VERSION and re.fullmatch(r"gpipe\d+", parts[0]):
        raise ValueError(f"this share string is of version {parts[0]!r}; this program reads {VERSION!r}")
    if len(compact) > _LONGEST or len(parts) != 4 or parts[0] != VERSION or _check(":".join(parts[:3])) != parts[3]:
        raise ValueError("this share string was cut or altered: its checksum does not fit; copy it again, whole")
    level = _level(parts[1])
    return level, _rows(level, parts[2])


def _rows(level: Level, letters: str) -> Rows:
    ops: list[Op | None] = [None, *level.ops()]
    number = _number_of(letters)
    digits: list[int] = []
    while number > 1:
        number, digit = divmod(number, len(ops))
        digits.append(digit)
    rows: list[tuple[Op, ...]] = []
    row: list[Op] = []
    for digit in reversed(digits):
        op = ops[digit]
        if op is None:
            rows.append(tuple(row))
            row = []
        else:
            row.append(op)
    if number != 1 or row or len(rows) != level.K:
        raise ValueError(f"this share string does not hold a board of the level {level.title!r}; ask for it again")
    return tuple(rows)


def _number_of(letters: str) -> int:
    """The number that `letters` stand for; 0, which no board has, if they are invalid."""
    if not _CODED.fullmatch(letters) or len(letters) % 4 == 1:
        return 0
    return int.from_bytes(urlsafe_b64decode(letters + "=" * (-len(letters) % 4)), "big")


def _level_code(level: Level) -> str:
    if level.key != SANDBOX:
        return level.key
    costs = level.costs
    cap = "" if level.cap is None else f"{level.cap[0]!r}"
    return f"{SANDBOX},{level.K},{level.M},{level.V},{costs.B!r},{costs.send!r},{cap}"


def _level(code: str) -> Level:
    key, *values = code.split(",")
    if not values:
        return find_level(key)
    try:
        K, M, V, B, send, cap = values
        return sandbox(int(K), int(M), int(V), _number(B), _number(send), _number(cap) if cap else None)
    except ValueError as error:
        raise ValueError(f"this share string is of a sandbox that cannot be: {error}") from None


def _number(text: str) -> float:
    return int(text) if text.isdecimal() else float(text)


def _check(body: str) -> str:
    return _letters(zlib.crc32(body.encode()).to_bytes(4, "big"))


def _letters(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
