"""What a process may have for itself without being root, where the system allows it: a network, process numbers.

The numbers matter because they end together: with the first process of a namespace the kernel ends all others, those
too that have left their session, lost their parent, and forbidden that anything ends them.
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
    """Have this process killed when the one that has started it ends in whatever way."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)


def outlive_parent() -> None:
    """Have this process told of its parent's end by nothing but its pipes, and so able to end what it has started."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def own_network() -> bool:
    """Have a network with nobody in it, and memory that is shared by name with nobody; whether the system allows it."""
    if not _unshare(_NEW_NET | _NEW_IPC):
        return False
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        import fcntl

        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", _IFF_UP))
    return True


def own_processes() -> bool:
    """Go on as the first process of a namespace: whatever is started in it ends with this process, however that ends.

    For a forked process that nobody knows by its number: the one that goes on is its child, and it only waits. False
    where the system does not allow that; the numbers in /proc may be others' then, so who gets this answer should end.
    """
    if not _unshare(_NEW_PID | _NEW_MOUNTS):
        return False
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        os._exit(0)
    die_with_parent()
    mount = ctypes.CDLL(None).mount  # so that /proc has the numbers that hold here
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
