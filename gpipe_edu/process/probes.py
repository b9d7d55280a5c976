"""What is shut off from this process, found out by trying it: nothing that is open is said to be shut."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from . import system_calls

_OUTSIDE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses reserved for documentation, by RFC 5737 and RFC 3849; nothing is sent to them."""

_KEYCTL_GET_KEYRING_ID, _SESSION_KEYRING = 0, -3


class Confinement(NamedTuple):
    """What is shut off from an answer. calls: system calls that reach past files, processes and network."""

    files: bool = False
    processes: bool = False
    network: bool = False
    calls: bool = False

    def __str__(self) -> str:
        names = {"calls": "system calls that no answer needs", "processes": "other processes", "network": "the network"}
        return ", ".join(names.get(name, name) for name, held in self._asdict().items() if held) or "nothing"


def probe(scratch: str, outside: str) -> Confinement:
    """What is shut off from a process that may write to `scratch` alone. outside: a folder that it may not see."""
    return Confinement(
        files=not os.path.exists(outside) and not any(map(_may_change, _mounts() - {scratch, *_devices()})),
        processes={name for name in os.listdir("/proc") if name.isdigit()} <= {"1", str(os.getpid())},
        network=not leads_out(),
        calls=refuses_calls(scratch),
    )


def leads_out() -> bool:
    """Whether this machine has a route to anywhere; looking it up sends nothing."""
    return any(_has_route(*address) for address in _OUTSIDE)


def refuses_calls(scratch: str) -> bool:
    """Whether the filter of system calls is in force: keyrings, another's limits, UNIX sockets, a file's mode."""
    import resource

    tries: list[Callable[[], Any]] = [
        _ask_for_keyring,
        lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE),
        lambda: socket.socket(socket.AF_UNIX).close(),
        lambda: os.chmod(scratch, 0o700),
    ]
    return all(map(_is_refused, tries))


def _is_refused(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except OSError as error:
        return error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS)
    return False


def _ask_for_keyring() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(system_calls.number("keyctl"), _KEYCTL_GET_KEYRING_ID, _SESSION_KEYRING, 0) < 0:
        raise OSError(ctypes.get_errno(), "keyctl")


def _mounts() -> set[str]:
    with open("/proc/self/mounts") as file:
        return {line.split()[1].replace(r"\040", " ") for line in file}


def _devices() -> set[str]:
    return {f"/dev/{name}" for name in os.listdir("/dev")}


def _may_change(path: str) -> bool:
    return not os.statvfs(path).f_flag & os.ST_RDONLY


def _has_route(family: int, address: str) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probing:
            return probing.connect_ex((address, 9)) == 0
    except OSError as error:
        return error.errno != errno.EAFNOSUPPORT
