"""Which system calls an answer may not make, as a seccomp filter: what namespaces and read-only mounts leave open.

libseccomp, which Debian, Ubuntu and Fedora have in their base systems, knows the numbers of system calls and writes the
filter, for whichever machine this is. What needs a capability is not listed, as an answer has none.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Iterator
from functools import cache
from typing import IO, Any, Final, NamedTuple

FORBIDDEN: Final = {
    "the kernel's keyrings": "add_key keyctl request_key",
    "what works past this filter": "io_uring_setup io_uring_enter io_uring_register",
    "other processes' memory, files and limits": (
        "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp migrate_pages move_pages"
    ),
    "other processes' turns": "setpriority ioprio_set sched_setscheduler sched_setparam sched_setattr",
    "large and little used parts of the kernel": "bpf perf_event_open userfaultfd",
    "mounts and namespaces": (
        "mount umount2 pivot_root chroot setns unshare open_tree move_mount fsopen fsconfig fsmount fspick"
        " mount_setattr open_tree_attr"
    ),
    "modes, owners, times and attributes of files": (
        "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat setxattr"
        " lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr"
    ),
    "memory that counts for no process": "memfd_create memfd_secret shmget shmat msgget semget mq_open",
    "what others do with files": "inotify_init inotify_init1 fanotify_init",
    "files by their numbers": "name_to_handle_at open_by_handle_at",
}
"""What is refused, by reason. Files' modes and times are on read-only mounts anyway, but for devices."""

_NEW: Final = (
    {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429}
    | {"fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "pidfd_getfd": 438}
    | {"process_madvise": 440, "mount_setattr": 442, "memfd_secret": 447, "fchmodat2": 452}
    | {"setxattrat": 463, "removexattrat": 466, "open_tree_attr": 467, "file_setattr": 469}
)
"""Numbers that a library may be too old to know; they are the same on all machines."""

_HOLDS_UP: Final = (6, 7, 37, 38, 1024, 1026)
"""Commands of `fcntl`: locks and leases, for which others have to wait, and notices of what happens in a folder.

`flock` stays: PyTorch's processes meet by it, in a file of their own.
"""

_DATAGRAMS: Final = (2, 3)
"""Types of UNIX socket pairs that can send elsewhere after all."""

_FAMILIES: Final = (2, 10, 16)
"""Sockets that an answer may have: IPv4 and IPv6, in its own network, and netlink, which lists that network."""

_NAMESPACES: Final = (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
"""The flags of `clone` for time, mounts, cgroups, host name, shared memory, users, processes and network."""

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NE, _EQ, _GT, _MASKED_EQ = 1, 4, 6, 7


class _Argument(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint), ("is_", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


class Rule(NamedTuple):
    """A call that fails with `error`, always or where its `argument` compares as given."""

    name: str
    error: int = errno.EPERM
    argument: tuple[int, int, int, int] | None = None


def rules() -> Iterator[Rule]:
    """All that is refused."""
    for names in FORBIDDEN.values():
        yield from map(Rule, names.split())
    for name in ("prlimit64", "sched_setaffinity"):
        yield Rule(name, argument=(0, _NE, 0, 0))  # for any process but itself
    for command in _HOLDS_UP:
        yield Rule("fcntl", argument=(1, _EQ, command, 0))
    yield Rule("clone3", errno.ENOSYS)  # a filter does not see its flags; libraries take `clone` then
    for flag in _NAMESPACES:
        yield Rule("clone", argument=(0, _MASKED_EQ, flag, flag))
    # A UNIX socket reaches whoever listens in a folder, AF_VSOCK the host of this machine. A pair stays a pair. The
    # kernel reads 32 bits of the family and the filter 64, so what is larger is refused, too.
    for family in set(range(max(_FAMILIES))) - set(_FAMILIES):
        yield Rule("socket", errno.EACCES, (0, _EQ, family, 0))
    for kind in _DATAGRAMS:
        yield Rule("socketpair", errno.EACCES, (1, _MASKED_EQ, 0xF, kind))
    yield Rule("socket", errno.EACCES, (0, _GT, max(_FAMILIES), 0))


def number(name: str) -> int:
    """The number of a system call on this machine; negative where it has none."""
    known = int(_library().seccomp_syscall_resolve_name(name.encode()))
    return known if known >= 0 else _NEW.get(name, -1)


def write(file: IO[bytes]) -> None:
    """Write the filter, as bubblewrap reads it. Raises OSError where there is no libseccomp."""
    _make("seccomp_export_bpf", file.fileno())


def forbid() -> None:
    """Have this process, and all that it starts, obey the filter for good. Raises OSError."""
    _make("seccomp_load")


def _make(then: str, *arguments: int) -> None:
    library = _library()
    made = library.seccomp_init(_ALLOW)
    try:
        for rule in rules():
            if (call := number(rule.name)) < 0:
                continue  # as on aarch64, which has only the newer of some pairs
            compared = (_Argument * 1)(*([_Argument(*rule.argument)] if rule.argument else []))
            count = 1 if rule.argument else 0
            _must(library.seccomp_rule_add_array(made, _ERRNO | rule.error, call, count, compared), rule.name)
        _must(getattr(library, then)(made, *arguments), then)
    finally:
        library.seccomp_release(made)


@cache
def _library() -> Any:
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.seccomp_rule_add_array.argtypes = [
        *(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint),
        ctypes.c_void_p,
    ]
    return library


def _must(result: int, what: str) -> None:
    if result < 0:
        raise OSError(-result, f"the filter of system calls can't be made: {what}")
