"""How ranks reach each other: by which network interface, and over connections that carry lines of JSON both ways.

gloo uses the address that this machine's hostname resolves to. On many machines that is 127.0.0.1, so a rank on another
machine would look for this one on itself. The interface that leads to rank 0 is a better choice: the others are there.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
from contextlib import suppress
from typing import Any, Final

from gpipe_edu.process.loopback import talk_by_loopback

_ADDRESS_OF: Final = {"linux": 0x8915, "darwin": 0xC0206921}
"""SIOCGIFADDR, the request for an interface's IPv4 address."""


def choose(master: str) -> None:
    """Let gloo use the interface that leads to `master`, unless the environment names one already."""
    if is_alone(master):
        talk_by_loopback()
    elif name := towards(master):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


def is_alone(master: str) -> bool:
    """Whether all ranks are on this machine, as far as the environment tells."""
    return os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"] or master in ("127.0.0.1", "localhost")


def towards(host: str) -> str | None:
    """The name of the interface that leads to `host`; None if it can't be found, or is the loopback one."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # for datagrams this sends nothing: the system only looks up the route
        here = probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            if not here.startswith("127.") and _address(name) == here:
                return name
    return None


def _address(interface: str) -> str | None:
    if sys.platform not in _ADDRESS_OF:
        return None
    import fcntl

    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        found = fcntl.ioctl(asked.fileno(), _ADDRESS_OF[sys.platform], struct.pack("256s", interface.encode()[:15]))
        return socket.inet_ntoa(found[20:24])
    return None


Message = list[Any]
"""Its name, and what it says."""


class Wire:
    """One such connection. seconds: how long a message may take to an end that does not read."""

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
        except ValueError:  # not a message of ours
            return None

    def close(self) -> None:
        """The other end will notice."""
        self._connection.close()


def listen(alone: bool) -> socket.socket:
    """A socket that listens on a port of this machine; `alone`: reachable from here only."""
    if alone:
        return socket.create_server(("127.0.0.1", 0))
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))
