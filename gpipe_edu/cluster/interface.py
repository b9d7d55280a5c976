"""The network on which ranks find each other.

gloo takes the address that this machine's own name leads to. On many machines that is 127.0.0.1, so a rank on another
one is told to look for this one on itself. The way to rank 0 is a better answer: where that leads, the others are.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from contextlib import suppress
from typing import Final

from gpipe_edu.process.loopback import talk_by_loopback

_ADDRESS_OF: Final = {"linux": 0x8915, "darwin": 0xC0206921}
"""What the system calls the question for an interface's IPv4 address: SIOCGIFADDR."""


def choose(master: str) -> None:
    """From now on this process talks to the others on the way to `master`, unless somebody has chosen an interface."""
    alone = os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]
    if alone or master in ("127.0.0.1", "localhost"):
        talk_by_loopback()
    elif name := towards(master):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


def towards(host: str) -> str | None:
    """The name of the interface on the way to `host`; None if it can't be known, or is the loopback one."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # for datagrams that sends nothing: the system only looks up the way
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
