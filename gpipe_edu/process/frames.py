"""Messages on a pipe, each in one piece: its length in 8 bytes, then itself.

`multiprocessing.connection` does the same, but on Windows only for pipes that it has made itself, which standard input
and output are not.
"""

from __future__ import annotations

from typing import Final, Protocol

_PIECE: Final = 2**20
"""Bytes asked for at once: a length that is garbage must not make room for itself."""


class Readable(Protocol):
    """What messages are read from; it may give less than it is asked for."""

    def read(self, size: int, /) -> bytes | None: ...  # noqa: D102


class Writable(Protocol):
    """What messages are written to."""

    def write(self, data: bytes, /) -> int: ...  # noqa: D102
    def flush(self) -> None: ...  # noqa: D102


def write(pipe: Writable, data: bytes) -> None:
    """Send `data`. Raises OSError if nobody reads any more."""
    pipe.write(len(data).to_bytes(8, "big") + data)
    pipe.flush()


def read(pipe: Readable) -> bytes:
    """The next message. Raises EOFError if the other side has hung up, even in the middle of one."""
    return _exactly(pipe, int.from_bytes(_exactly(pipe, 8), "big"))


def _exactly(pipe: Readable, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = pipe.read(min(size - len(data), _PIECE))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)
