"""A JSON file that may be larger than memory, read as a stream: of a trace, one event after another.

torch.profiler writes an object whose "traceEvents" are most of the file. Tools that merge files also write a bare list
of events, or a list of such objects.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Never

from gpipe_edu.base.bounded import (
    MOST_DIGITS,
    MOST_HELD,
    TextOf,
    TooMuchError,
    check_brackets,
    held,
    name_of,
    too_deep,
)

from .refusals import NoRunError

_SHORT: Final = 1 << 19
"""Characters of an event at most; what is longer in a list is taken for a whole trace."""

_MOST: Final = 1 << 23
"""Characters of one value, and of blanks in a row: all groups of ten thousand ranks have a tenth of that."""

_MOST_KEYS: Final = 200_000
_MOST_OTHERS: Final = 1000
"""Items of a list of events that are no events."""

BASE: Final = "baseTimeNanoseconds"
"""What a trace's times are counted from."""

_DECODE: Final = json.JSONDecoder(strict=False).raw_decode  # names of kernels hold what is not strictly JSON
_LONG: Final = object()
_LIGHT: Final = 1000
"""Characters of a value that is not worth weighing."""

_BLANK: Final = re.compile(r"[\s,]*")


class CutOffError(NoRunError):
    """A file that begins as JSON and cannot be read to its end."""


class TraceFile:
    """`TraceFile(path)`: its events, in a loop; plain or compressed by gzip.

    name: the file's, as it is told. about: all that the object at the top has besides its events; complete once the
    loop has ended. has_events: whether there was a list of events, even an empty one. watch: called with the bytes of
    the file that have been read.

    The loop raises CutOffError for a file that is no JSON to its end, TooMuchError for one with more in it than a trace
    has, OSError for one that cannot be read.
    """

    def __init__(self, path: Path, watch: Callable[[int], None] | None = None) -> None:
        self.path, self.name = path, name_of(path)
        self.about: dict[str, Any] = {}
        self.has_events = False
        self._watch, self._held = watch, 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with TextOf(self.path) as stream:
            text = _Text(stream, self.name, self._watch)
            try:
                if text.skip("[{") == "[":
                    yield from self._from_list(text)
                else:
                    yield from self._from_object(text, self.about)
            except (TooMuchError, NoRunError):
                raise
            except RecursionError:  # up to Python 3.13 the parser raises it
                raise too_deep(self.name) from None
            except (ValueError, TypeError, EOFError, zlib.error) as error:
                if "digits" in str(error):  # Python's own limit, of some thousands
                    raise TooMuchError(f"{self.name} has a number of thousands of digits: export it anew") from None
                raise CutOffError(
                    f"{self.name} begins as JSON but cannot be read to its end: it was cut off or changed, so copy or "
                    "export it anew"
                ) from None

    def _from_list(self, text: _Text) -> Iterator[dict[str, Any]]:
        """Of a list of events, or of traces, which are short or else read as a stream, too."""
        self.has_events = True
        number = 0
        for item in text.items(long=True):
            if item is not None and "traceEvents" not in item:
                yield item
                continue
            about: dict[str, Any] = {}
            later = None
            for event in self._from_object(text, about) if item is None else _from_short(item, about):
                later = self._later(about) if later is None else later
                yield event | {"pid": (number, _plain(event.get("pid"))), "ts": _moved(event.get("ts", 0), later)}
            if later not in (None, self._later(about)):
                raise NoRunError(
                    f"{self.name} is a list of traces that say only behind their events what their times are counted "
                    "from: give the files of the ranks, as export_chrome_trace wrote them"
                )
            self.about = about | self.about  # the first one's, where they have the same
            number += 1

    def _later(self, about: Mapping[str, Any]) -> float:
        """By how many microseconds the times of a trace are later than those of the first one in the list."""
        return (base_of(about) - base_of({**about, **self.about})) / 1e3

    def _from_object(self, text: _Text, about: dict[str, Any]) -> Iterator[dict[str, Any]]:
        while text.skip("}") != "}":
            key = text.value()
            if text.skip(":") != ":" or not isinstance(key, str):
                raise ValueError
            if key == "traceEvents" and text.skip("[") == "[":
                self.has_events = True
                yield from text.items()
            else:
                text.skip("")
                about[key] = text.value()
                self._held += 200 + len(key) + text.taken
                if self._held > MOST_HELD or len(about) > _MOST_KEYS:
                    raise TooMuchError(
                        f"{self.name} has more besides its events than any trace, so reading it was given up"
                    )


def _from_short(item: Mapping[str, Any], about: dict[str, Any]) -> Iterator[dict[str, Any]]:
    about.update({key: value for key, value in item.items() if key != "traceEvents"})
    yield from (event for event in item["traceEvents"] if isinstance(event, dict))


def _moved(time: Any, by: float) -> Any:
    return time + by if isinstance(time, float) or (isinstance(time, int) and abs(time) < 10**MOST_DIGITS) else time


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, str)) else None


def base_of(about: Mapping[str, Any]) -> int:
    """What a trace's times are counted from, in nanoseconds; 0 if nothing says it."""
    base = about.get(BASE, 0)
    return base if isinstance(base, int) and 0 <= base < 10 ** (MOST_DIGITS + 1) else 0


def distributed_info(about: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a trace says of its rank among others."""
    found = about.get("distributedInfo")
    return found if isinstance(found, dict) else {}


class _Text:
    """A window on the text, which moves on. taken: what the value that was read last takes in memory, at most."""

    def __init__(self, stream: TextOf, name: str, watch: Callable[[int], None] | None) -> None:
        self._stream, self._name, self._watch = stream, name, watch
        self._text, self._at, self.taken = "", 0, 0

    def _more(self) -> bool:
        """Whether there is more text, which is then in the window: twice as much as there was for a long value."""
        pieces = [self._text[self._at :]]
        wanted = length = len(pieces[0])
        while length <= 2 * wanted and (piece := self._stream.piece()):
            pieces.append(piece)
            length += len(piece)
        self._text, self._at = "".join(pieces), 0
        if self._watch:
            self._watch(self._stream.read)
        return len(pieces) > 1

    def give_up(self, what: str) -> Never:
        """Say what there is more of."""
        raise TooMuchError(f"{self._name} has {what} than any trace, so reading it was given up")

    def skip(self, wanted: str) -> str:
        """The next character after blanks and commas, which is skipped, too, if it is one of the `wanted` ones."""
        blanks = 0
        while True:
            blanks -= self._at
            self._at = _BLANK.match(self._text, self._at).end()  # type: ignore[union-attr]  # it matches the empty text
            blanks += self._at
            if self._at < len(self._text):
                break
            if blanks > _MOST:
                self.give_up("more blanks")
            if not self._more():
                raise ValueError
        found = self._text[self._at]
        if found in wanted:
            self._at += 1
        return found

    def value(self) -> Any:
        """The value that begins here."""
        found = self._value(_MOST)
        if found is _LONG:
            self.give_up("a longer value")
        return found

    def _value(self, most: int) -> Any:
        """The same; _LONG for one of more than so many characters."""
        while True:
            there = len(self._text) - self._at
            if there > _SHORT and held(self._text[self._at : self._at + most]) > MOST_HELD:
                self.give_up("more values")
            try:
                found, end = _DECODE(self._text, self._at)
            except ValueError:
                if there > most:
                    return _LONG
                if not self._more():
                    check_brackets(self._text[self._at :], self._name)
                    raise
                continue
            if end == len(self._text) and self._more():  # a number may go on
                continue
            self.taken = end - self._at
            if self.taken > _LIGHT:
                check_brackets(self._text[self._at : end], self._name)
                self.taken += held(self._text[self._at : end])
            self._at = end
            return found

    def items(self, long: bool = False) -> Iterator[Any]:
        """The objects of the list that has begun, to its end, which is passed.

        long: for an object that is too long to be read at once, None, once its bracket is passed; the caller reads it.
        """
        others = 0
        while (first := self.skip("]")) != "]":
            found = self._value(_SHORT) if long and first == "{" else self.value()
            if found is _LONG:
                self.skip("{")
                yield None
            elif isinstance(found, dict):
                yield found
            elif (others := others + 1) > _MOST_OTHERS:
                self.give_up("more that is no event")
