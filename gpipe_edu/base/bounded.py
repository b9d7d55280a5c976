"""Files that people bring, read with bounds: on bytes, packed and unpacked, on depth, on digits, on how many values.

Whoever wrote a file may have meant ill, or slipped by a digit. So what it would take to hold its content is counted
before anything is built, and every refusal is a sentence that quotes little of it. Who reads a file reads it here.
"""

from __future__ import annotations

import codecs
import json
import re
import tomllib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Final, Never

from .words import shown

MOST_DIGITS: Final = 18
"""Of a whole number: what is larger counts nothing, and overflows in what computes with it."""

MOST_DEPTH: Final = 64
"""Of lists and objects in one another."""

MOST_SETTINGS: Final = 1 << 20
"""Bytes of a file that somebody has written, such as a script or a model's sizes."""

MOST_VALUES: Final = 100_000
"""Of such a file, with what it repeats by a name written out."""

MOST_SENTENCE: Final = 490
"""Characters of a refusal."""

MOST_HELD: Final = 250 * 10**6
"""Bytes of memory for the values of one text, as `held` counts them."""

_MOST_UNPACKED: Final = 1 << 34
_MOST_RATIO: Final = 100
"""Unpacked bytes for a packed one: honest traces have ten to forty, what only repeats itself a thousand."""

_FREELY: Final = 1 << 23
"""Bytes that are unpacked before the ratio counts."""

_MOST_PARTS: Final = 1000
"""Of a packed file, each packed by itself; more than that if they hold so many bytes each."""

_GZIP: Final = b"\x1f\x8b"
_PIECE: Final = 1 << 18

_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_DOTTED: Final = re.compile(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MOST_DEPTH}}}""")
_NO_BRACKET: Final = re.compile(r"[^\[\]{}]++")


class TooMuchError(ValueError):
    """A text or a file with more in it than any that is meant well."""


@contextmanager
def in_one_sentence(what: str) -> Iterator[None]:
    """Around work on what a file says: whatever its content breaks is a ValueError of one short sentence.

    what: the file, in words, for an error that does not name it.
    """
    try:
        yield
    except RecursionError:
        raise TooMuchError(f"{what} is nested too deeply to be read") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        ours = isinstance(error, ValueError) or "must be" in str(error)  # as `validate` says it
        if not ours:
            error_of = shown(str(error), 120)
            raise ValueError(f"{what} has a value of another kind than is wanted there ({error_of})") from error
        if "\n" not in str(error) and len(str(error)) > MOST_SENTENCE:
            raise ValueError(shown(str(error), MOST_SENTENCE)) from error
        raise


def name_of(path: Path) -> str:
    """A file's name as it is told: short, and without what a terminal would obey."""
    return shown(path.name, 60)


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a file. Raises ValueError for one of more bytes, and for a device or a pipe; OSError for a folder,
    or a file that cannot be read."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise TooMuchError(f"{name_of(path)} has more than {most:,} bytes, the most that such a file may have")
    return data


def read_text(path: Path, most: int = MOST_SETTINGS) -> str:
    """The same as text in UTF-8. Raises ValueError for other texts, too."""
    return decode(read_bytes(path, most), name_of(path))


def decode(data: bytes, name: str) -> str:
    """Text in UTF-8, with or without a mark at its beginning. Raises ValueError for anything else."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{name} is a text in UTF-16: save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is no text in UTF-8") from None


def open_regular(path: Path) -> BufferedReader:
    """The open file. Raises ValueError for a device or a pipe, which may have no end or never begin; else OSError."""
    mode = path.stat().st_mode
    if not (S_ISREG(mode) or S_ISDIR(mode)):  # a folder's error is the system's
        raise ValueError(f"{name_of(path)} is a device or a pipe, and no file: save what it gives, and name that")
    return path.open("rb")


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """The content of a TOML text. Raises ValueError, which says where, for one that cannot be read."""
    check_brackets(text, name)
    if _DOTTED.search(text):
        raise TooMuchError(f"{name} has a key of more than {MOST_DEPTH} parts, and no file of its kind has")
    try:
        content = tomllib.loads(text)
    except RecursionError:
        raise TooMuchError(f"{name} is nested too deeply to be read") from None
    check_values(content, name)
    return content


def parse_json(text: str, name: str) -> Any:
    """The content of a JSON text. Raises TooMuchError for one that holds too much, ValueError, which says where, for
    one that cannot be read."""
    check_brackets(text, name)
    if held(text) > MOST_HELD:
        raise TooMuchError(f"{name} has more values than any file of its kind, so nothing of it was read")
    try:
        return json.loads(text, parse_constant=_no_constant, parse_int=whole_number)
    except RecursionError:
        raise TooMuchError(f"{name} is nested too deeply to be read") from None
    except TooMuchError as error:
        raise TooMuchError(f"{name}: {error}") from None


def check_brackets(text: str, name: str, most: int = MOST_DEPTH) -> None:
    """Raises TooMuchError where brackets outside of strings are more than so deep in one another."""
    if text.count("[") + text.count("{") <= most:
        return
    left = _NO_BRACKET.sub("", _STRING.sub("", text))
    for _ in range(most):
        left, before = left.replace("[]", "").replace("{}", ""), left
        if left == before:  # brackets that are not closed, which the parser tells better, unless they are many
            left = "" if left.count("[") + left.count("{") <= most else left
            break
    if left:
        raise too_deep(name, most)


def too_deep(name: str, most: int = MOST_DEPTH) -> TooMuchError:
    """What is said of a text with brackets more than so deep in one another."""
    return TooMuchError(f"{name} is nested more than {most} deep, and no file of its kind is")


def check_values(content: Any, name: str, most: int = MOST_VALUES) -> None:
    """Raises TooMuchError for content with more values, more depth or longer numbers than a file of settings has. What
    is in it several times under one name counts each time."""
    waiting, count = [(content, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        count += 1
        if count > most:
            raise TooMuchError(f"{name} has more than {most:,} values, and no file of its kind has so many")
        if isinstance(value, (dict, list, tuple, set)):
            if depth == MOST_DEPTH:
                raise too_deep(name)
            waiting += [(one, depth + 1) for one in (value.values() if isinstance(value, dict) else value)]
        elif isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
            raise TooMuchError(f"{name} has a number of more than {MOST_DIGITS} digits: correct it")


def whole_number(digits: str) -> int:
    """A whole number of JSON. Raises TooMuchError for one of too many digits."""
    if len(digits) > MOST_DIGITS + 1:
        raise TooMuchError(f"a number of {len(digits):,} digits is in it, and {MOST_DIGITS} are the most: correct it")
    return int(digits)


def _no_constant(word: str) -> Never:
    raise ValueError(f"{word} is no JSON")


def held(text: str) -> int:
    """Bytes that the values of a JSON text, or of a piece of one, take at most, besides its characters."""
    return 240 * text.count("{") + 64 * (text.count("[") + text.count(",") + text.count(":"))


class TextOf:
    """`TextOf(path)`: a file's text piece by piece, plain or compressed by gzip; what is no UTF-8 is replaced.

    read: how many bytes of the file have been read, packed ones if it is packed.

    Raises what `open_regular` raises; in `piece` also TooMuchError for a file that unpacks to more than its size
    explains, EOFError or zlib.error for a packed one that was cut off or changed.
    """

    def __init__(self, path: Path) -> None:
        self.read = 0
        self._name, self._file = name_of(path), open_regular(path)
        self._pieces = self._unpacked() if self._file.peek(2)[:2] == _GZIP else self._plain()
        self._text = codecs.getincrementaldecoder("utf-8-sig")("replace")

    def __enter__(self) -> TextOf:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def head(self) -> bytes:
        """The first bytes; only before anything else is asked for."""
        return next(self._pieces, b"")

    def piece(self) -> str:
        """Some more characters; "" at the end."""
        for data in self._pieces:
            if text := self._text.decode(data):
                return text
        return self._text.decode(b"", final=True)

    def _plain(self) -> Iterator[bytes]:
        while data := self._file.read(_PIECE):
            self.read += len(data)
            yield data

    def _unpacked(self) -> Iterator[bytes]:
        packed, unpacked, parts = self._plain(), 0, 0
        waiting = next(packed, b"")
        while waiting := waiting or next(packed, b""):
            part, parts = zlib.decompressobj(wbits=31), parts + 1
            while not part.eof:
                if not waiting and not (waiting := next(packed, b"")):
                    raise EOFError
                data = part.decompress(waiting, _PIECE)
                waiting = part.unconsumed_tail
                unpacked += len(data)
                ratio = unpacked > max(_FREELY, _MOST_RATIO * self.read)
                if ratio or unpacked > _MOST_UNPACKED or parts > max(_MOST_PARTS, unpacked // _MOST_PARTS):
                    raise TooMuchError(
                        f"{self._name} unpacks to much more than a trace of its size, or in more parts, so reading it "
                        "was given up"
                    )
                yield data
            waiting = part.unused_data.lstrip(b"\0")
