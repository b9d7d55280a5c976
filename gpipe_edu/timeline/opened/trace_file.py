"""A JSON file that may be larger than memory, read as a stream: of a trace, one event after another.

torch.profiler writes an object whose "traceEvents" are most of the file. Tools that merge files also write a bare list
of events, or a list of such objects.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

from .refusals import NoRunError

_CHUNK: Final = 1 << 20
_MOST: Final = 1 << 28
"""Characters of one value: an event has a few hundred, a whole trace in a list of traces some millions."""

BASE: Final = "baseTimeNanoseconds"
"""What a trace's times are counted from."""

_DECODE: Final = json.JSONDecoder(strict=False).raw_decode  # names of kernels hold what is not strictly JSON
_BLANK: Final = re.compile(r"[\s,]*")


class CutOffError(NoRunError):
    """A file that begins as JSON and cannot be read to its end."""


class TraceFile:
    """`TraceFile(path)`: its events, in a loop; plain or compressed by gzip.

    about: all that the object at the top has besides its events; complete once the loop has ended. has_events: whether
    there was a list of events, even an empty one.

    The loop raises CutOffError for a file that is no JSON to its end, OSError for one that cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.about: dict[str, Any] = {}
        self.has_events = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with _open(self.path) as stream:
            text = _Text(stream)
            try:
                if text.skip("[{") == "[":
                    yield from self._from_list(text)
                else:
                    yield from self._from_object(text)
            except (ValueError, TypeError, RecursionError, EOFError, zlib.error, gzip.BadGzipFile):
                raise CutOffError(
                    f"{self.path.name} begins as JSON but cannot be read to its end: it was cut off or changed, "
                    "so copy or export it anew"
                ) from None

    def _from_list(self, text: _Text) -> Iterator[dict[str, Any]]:
        self.has_events = True
        for number, item in enumerate(text.items()):
            if "traceEvents" in item:
                about = {key: value for key, value in item.items() if key != "traceEvents"}
                self.about = about | self.about  # the first one's, where they have the same
                later = (about.get(BASE, 0) - self.about.get(BASE, 0)) / 1e3
                for event in filter(_is_object, item["traceEvents"]):
                    yield event | {"pid": (number, event.get("pid")), "ts": event.get("ts", 0) + later}
            else:
                yield item

    def _from_object(self, text: _Text) -> Iterator[dict[str, Any]]:
        while text.skip("}") != "}":
            key = text.value()
            if text.skip(":") != ":" or not isinstance(key, str):
                raise ValueError
            if key == "traceEvents" and text.skip("[") == "[":
                self.has_events = True
                yield from text.items()
            else:
                text.skip("")
                self.about[key] = text.value()


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _open(path: Path) -> TextIO:
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    if compressed:
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace")
    return path.open("rt", encoding="utf-8-sig", errors="replace")


def distributed_info(about: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a trace says of its rank among others."""
    found = about.get("distributedInfo")
    return found if isinstance(found, dict) else {}


class _Text:
    """A window on the text, which moves on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._text, self._at = stream, "", 0

    def _more(self) -> bool:
        """Whether there is more text, which is then in the window. For a long value it takes few, growing pieces."""
        rest = self._text[self._at :]
        more = self._stream.read(max(_CHUNK, len(rest)))
        self._text, self._at = rest + more, 0
        if len(self._text) > _MOST:
            raise ValueError
        return bool(more)

    def skip(self, wanted: str) -> str:
        """The next character after blanks and commas, which is skipped, too, if it is one of the `wanted` ones."""
        while True:
            self._at = _BLANK.match(self._text, self._at).end()  # type: ignore[union-attr]  # it matches the empty text
            if self._at < len(self._text):
                break
            if not self._more():
                raise ValueError
        found = self._text[self._at]
        if found in wanted:
            self._at += 1
        return found

    def value(self) -> Any:
        """The value that begins here."""
        while True:
            try:
                found, end = _DECODE(self._text, self._at)
            except ValueError:
                if not self._more():
                    raise
                continue
            if end == len(self._text) and self._more():  # a number may go on
                continue
            self._at = end
            return found

    def items(self) -> Iterator[dict[str, Any]]:
        """The objects of the list that has begun, to its end, which is passed."""
        while self.skip("]") != "]":
            found = self.value()
            if isinstance(found, dict):
                yield found
