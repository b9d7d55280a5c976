"""The way into a cage inside a container: as a user who owns one folder, and no process but its own.

A container isolates answers from the machine, but not from the judge, which is in it, too. So the judge runs as root
there, and answers as the user nobody. What the container should shut off is tested here, not assumed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from . import cage, namespaces

_NOBODY: Final = 65534
_PR_SET_NO_NEW_PRIVS: Final = 38
_OUTSIDE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses reserved for documentation, by RFC 5737 and RFC 3849; nothing is sent to them."""


def enter(scratch: str, cpu_seconds: float, talks: bool = False) -> cage.Held:
    """As `cage.enter`, in a container where this process is root. talks: nothing more need be open for that.

    Raises OSError where the user nobody can't even read this package, which is not the answer's fault.
    """
    os.chown(scratch, _NOBODY, _NOBODY)
    os.chdir(scratch)
    cage.limit(cpu_seconds)
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    Path(__file__).read_bytes()
    namespaces.die_with_parent()  # again, since changing the user resets it
    return cage.Held(
        files=not any(os.access(path, os.W_OK) for path in _folders(scratch)),
        signals=not _may_signal(os.getppid()),
        network="" if any(_leads_out(*address) for address in _OUTSIDE) else "own",
    )


def _folders(scratch: str) -> list[str]:
    """The folders that might be writable, apart from `scratch`."""
    with open("/proc/self/mounts") as file:
        mounted = [line.split()[1] for line in file]
    others = ("/", "/tmp", "/var/tmp", "/run", "/dev/shm", "/dev/mqueue", os.path.dirname(scratch))
    return [path for path in {*mounted, *others} if os.path.isdir(path)]


def _may_signal(pid: int) -> bool:
    with suppress(PermissionError):
        os.kill(pid, 0)
        return True
    return False


def _leads_out(family: int, address: str) -> bool:
    """Whether this machine has a route to that address; looking it up sends nothing."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            return probe.connect_ex((address, 9)) == 0
    except OSError as error:
        return error.errno != errno.EAFNOSUPPORT
