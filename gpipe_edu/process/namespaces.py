"""Namespaces that a process may have without being root, where the system allows it: for its network and for PIDs.

A PID namespace matters because all of it ends together: with its first process the kernel kills all others, even those
that have left their session, lost their parent, or ignore signals.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_NEW_MOUNTS, _NEW_USER, _NEW_IPC, _NEW_PID, _NEW_NET = 0x00020000, 0x10000000, 0x08000000, 0x20000000, 0x40000000
_REC, _PRIVATE, _NOSUID_NODEV_NOEXEC = 0x4000, 0x40000, 0b1110
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_PR_SET_PDEATHSIG: Final = 1


def die_with_parent() -> None:
    """Have this process killed when its parent ends, for any reason."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)


def outlive_parent() -> None:
    """Keep this process alive after its parent's end, seen only in its pipes, so that it can kill what it started."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def own_network() -> bool:
    """Move into an empty network, and an empty namespace of shared memory; returns whether the system allows it."""
    if not _unshare(_NEW_NET | _NEW_IPC):
        return False
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        import fcntl

        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", _IFF_UP))
    return True


def own_processes() -> bool:
    """Go on as the first process of a PID namespace: all that is started in it is killed when this process ends.

    For a forked process whose PID is not used elsewhere: its child goes on, and it only waits for that. Returns False
    where the system does not allow it; the PIDs in /proc may then be those outside, so the caller should end.
    """
    if not _unshare(_NEW_PID | _NEW_MOUNTS):
        return False
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        os._exit(0)
    die_with_parent()
    mount = ctypes.CDLL(None).mount  # so that /proc shows the PIDs of this namespace
    private = mount(b"none", b"/", None, _REC | _PRIVATE, None)
    proc = mount(b"proc", b"/proc", b"proc", _NOSUID_NODEV_NOEXEC, None)
    return bool(private == 0 and proc == 0)


def _unshare(kinds: int) -> bool:
    if sys.platform != "linux":
        return False
    user, group = os.geteuid(), os.getegid()
    if ctypes.CDLL(None).unshare(_NEW_USER | kinds) != 0:
        return False
    with suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True
