"""What untrusted code may do: read Python and this package, and write to one folder. It has no network.

Linux's Landlock lets a process give up rights for good, for itself and all it will start, without being root and
without a container. A process must enter before it has a second thread, because existing threads keep their rights.
Besides Landlock there are a network of its own, where the system allows one, and resource limits.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from . import namespaces

FILE_BYTES: Final = 50_000_000
"""The largest size of a file that it writes."""

JUDGES: Final = "gpipe_edu.exercises"
"""The package of the judges, which know what is expected of an answer."""

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PATH_BENEATH: Final = 1
_EXECUTE, _WRITE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_FILES: Final = ((1, 13), (2, 14), (3, 15), (5, 16))
"""From which version of Landlock on there are how many kinds of file access."""
_TCP: Final = 3
_SCOPES: Final = 3
"""Scopes of Landlock: abstract sockets, and signals."""

_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38


class Held(NamedTuple):
    """What is shut off. network: "own" (a network with only itself), "TCP" (no TCP, but UDP), or "" for open.

    processes: whether the kernel itself kills all that is started there, in a PID namespace.
    """

    files: bool = False
    signals: bool = False
    network: str = ""
    processes: bool = False

    def __str__(self) -> str:
        network = {"own": "the network", "TCP": "TCP (not UDP)", "": ""}[self.network]
        shut = [name for name, held in (("files", self.files), ("signals and tracing", self.signals)) if held]
        return ", ".join(filter(None, [*shut, network])) or "nothing"


def version() -> int:
    """The version of Landlock; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc().syscall(_CREATE, None, 0, 1)))


def enter(scratch: str, cpu_seconds: float, talks: bool = False) -> Held:
    """Give up, for good, the rights that an answer does not need; returns what is now shut off.

    scratch: the only folder to write to, which becomes the working directory. cpu_seconds: after so many the process is
    killed. talks: TCP stays open if there is no network of its own. Raises OSError where the system refuses, and
    RuntimeError in a process that has other threads.
    """
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("this process has other threads already, which would stay outside")
    os.chdir(scratch)
    network = "own" if namespaces.own_network() else ""
    limit(cpu_seconds)
    _drop_capabilities()
    held = _landlock(scratch, tcp=not talks)
    return held._replace(network=network or held.network)


def readable_paths() -> list[str]:
    """What a caged process may read: Python, installed packages, this one, and what they load from the system.

    Packages may be installed in several places: for one user, for all, below a virtual environment.
    """
    package = Path(__file__).resolve().parents[1]
    # All rooms but the judges': what is expected of an answer is not to be had there.
    rooms = {str(room) for room in package.iterdir() if room.name != JUDGES.rpartition(".")[2]}
    paths = {*rooms, sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.realpath(sys.executable)}
    paths |= {
        path for name, path in sysconfig.get_paths().items() if name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    paths |= {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    system = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime"]
    devices = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"]
    machine = ["/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat"]
    machine += ["/sys/devices", "/sys/bus/pci", "/sys/class/net"]  # gloo looks for the network's hardware
    return sorted(path for path in {*paths, *system, *devices, *machine, "/usr/share/zoneinfo"} if os.path.exists(path))


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _must(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def _landlock(scratch: str, tcp: bool) -> Held:
    known = version()
    if known < 1:
        return Held()
    libc = _libc()
    files = (1 << max(count for since, count in _FILES if known >= since)) - 1
    network, scopes = _TCP if tcp and known >= 4 else 0, _SCOPES if known >= 6 else 0
    rules = struct.pack("QQQ", files, network, scopes)[: 24 if known >= 6 else 16 if known >= 4 else 8]
    ruleset = _must(libc.syscall(_CREATE, rules, len(rules), 0), "Landlock")
    try:
        allowed = dict.fromkeys(readable_paths(), _READ) | {scratch: files, "/dev/null": _READ | _WRITE}
        allowed[str(Path(__file__).resolve().parents[1])] = _READ_DIR  # in which Python looks for its rooms
        for path, access in allowed.items():
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                # Rights on folders and their content are not valid for a file.
                of_this = access if os.path.isdir(path) else access & (_EXECUTE | _WRITE | _READ_FILE)
                rule = struct.pack("=Qi", of_this & files, descriptor)
                _must(libc.syscall(_ADD, ruleset, _PATH_BENEATH, rule, 0), f"Landlock, {path}")
            finally:
                os.close(descriptor)
        _must(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        _must(libc.syscall(_RESTRICT, ruleset, 0), "Landlock")
    finally:
        os.close(ruleset)
    return Held(True, bool(scopes), "TCP" if network else "")


def _drop_capabilities() -> None:
    """Drop root's other powers, such as setting the clock."""
    libc = _libc()
    for capability in range(64):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
    _must(libc.capset(header, nothing), "capabilities")


def limit(cpu_seconds: float) -> None:
    """Set resource limits for this process and all it starts. cpu_seconds: after so many each is killed."""
    import resource

    for kind, most in (
        (resource.RLIMIT_CPU, int(cpu_seconds) + 1),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(ValueError):  # the limit is already lower
            resource.setrlimit(kind, (most, most))
