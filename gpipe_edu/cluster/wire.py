"""Connections on which lines of JSON go, in both directions."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from typing import Any

Message = list[Any]
"""Its name, and what it says."""


class Wire:
    """One of them. seconds: the limit of a message to an end that reads none."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        connection.settimeout(seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection, self._read, self._lock = connection, b"", threading.Lock()

    def fileno(self) -> int:
        """For select()."""
        return self._connection.fileno()

    def send(self, *message: Any) -> None:
        """Send it if the other end is there; if not, `receive` will tell."""
        with suppress(OSError), self._lock:
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[Message] | None:
        """What has come; None at the end. To be called when there is something."""
        try:
            found = self._connection.recv(1 << 16)
        except OSError:
            return None
        *lines, self._read = (self._read + found).split(b"\n")
        try:
            return [json.loads(line) for line in lines] if found else None
        except ValueError:  # none of ours
            return None

    def close(self) -> None:
        """The other end will notice."""
        self._connection.close()


def listen(alone: bool) -> socket.socket:
    """A port of this machine; `alone`: reached from here only."""
    if alone:
        return socket.create_server(("127.0.0.1", 0))
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))
