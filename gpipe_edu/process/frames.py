"""Messages on a pipe: each is its length in 8 bytes, then its content.

`multiprocessing.connection` does the same, but on Windows only for pipes that it has made itself, which standard input
and output are not.
"""

from __future__ import annotations

import math
import queue
import threading
from contextlib import suppress
from typing import IO, Final, Protocol

_PIECE: Final = 2**20
"""Bytes read at once, so that a damaged length does not allocate memory for it."""


class TooLong(Exception):
    """A message that is longer than its reader takes."""


class Readable(Protocol):
    """What messages are read from; `read` may return less than it is asked for."""

    def read(self, size: int, /) -> bytes | None: ...  # noqa: D102


class Writable(Protocol):
    """What messages are written to."""

    def write(self, data: bytes, /) -> int: ...  # noqa: D102
    def flush(self) -> None: ...  # noqa: D102


def write(pipe: Writable, data: bytes) -> None:
    """Send `data`. Raises OSError if the other end is closed."""
    pipe.write(len(data).to_bytes(8, "big") + data)
    pipe.flush()


class Sender:
    """Sends messages into a pipe from a thread of its own, so that a message that is not read blocks only that thread.

    A pipe holds 64 KiB; writing more waits for the reader, which may be late, stopped or in an endless loop.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        self._messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._write, args=(pipe,), daemon=True).start()

    def send(self, data: bytes) -> None:
        """Send `data` after all that has been sent before; it is lost if the other end is closed."""
        self._messages.put(data)

    def close(self) -> None:
        """Close the pipe once all is written."""
        self._messages.put(None)

    def _write(self, pipe: IO[bytes]) -> None:
        with suppress(OSError), pipe:
            while (data := self._messages.get()) is not None:
                write(pipe, data)


def read(pipe: Readable, most: float = math.inf) -> bytes:
    """The next message. Raises EOFError if the other end is closed, even in the middle of one.

    most: how long it may be. Raises TooLong for one that says it is longer, without reading on.
    """
    size = int.from_bytes(_exactly(pipe, 8), "big")
    if size > most:
        raise TooLong
    return _exactly(pipe, size)


def _exactly(pipe: Readable, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = pipe.read(min(size - len(data), _PIECE))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)
