"""A sandbox of bubblewrap: one student's answers run in it, one after another, each forked from one loaded Python.

In it there are Python and this package, read-only, one folder to write to, which is deleted with it, a network that
reaches only itself, and no processes but its own. The judge is outside, unseen. bubblewrap is the tool that Flatpak
runs programs in; it needs no root, and its sandbox ends with the process that started it, however that ends.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from . import system_calls
from .child import command
from .fork_server import ForkServer
from .judges_files import FOLDER, open_files
from .resource_limits import ENVIRONMENT

SCRATCH: Final = "/scratch"
"""The only folder to write to. Not /tmp, where this package may lie."""

HOST: Final = "sandbox"

_SCRATCH_BYTES: Final = 500_000_000

_PROGRAM: Final = "bwrap"

_INSTALL: Final = (
    "answers run in bubblewrap, which is not installed: sudo apt install bubblewrap (Debian 12, Ubuntu 24.04 or newer) "
    "or sudo dnf install bubblewrap (Fedora); elsewhere grade with --in podman or --in docker"
)

_ALLOW: Final = (
    "It has to be version 0.8 or newer, and the system has to let it make namespaces; docs/grading.md tells how. Or "
    "grade with --in podman or --in docker"
)

_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")


_TELLS_OF_OTHERS: Final = ("keys", "key-users", "timer_list", "sched_debug", "latency_stats")
"""Files in /proc about the whole machine, or its user outside, and not only about the processes in here."""

_PACKAGE: Final = Path(__file__).resolve().parents[1]


def installed() -> bool:
    """Whether bubblewrap is here; whether the system lets it work is seen when a sandbox is started."""
    return sys.platform == "linux" and shutil.which(_PROGRAM) is not None


def start() -> ForkServer:
    """A sandbox with a server in it, which has loaded nothing yet. Raises OSError with a sentence where none works."""
    if not installed():
        raise OSError(_INSTALL)
    with tempfile.TemporaryFile() as calls:
        system_calls.write(calls)
        calls.seek(0)
        inside = command(ForkServer.__module__)
        try:
            return ForkServer([_PROGRAM, *_options(), "--seccomp", str(calls.fileno()), "--", *inside], calls.fileno())
        except OSError as error:
            raise OSError(f"bubblewrap does not work here: {error}. {_ALLOW}") from error


def _options() -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL")
    yield from ("--die-with-parent", "--new-session", "--as-pid-1", "--clearenv")
    yield from ("--hostname", HOST)  # else an answer could put the teacher's machine's name on a student's page
    home = {"HOME": SCRATCH, "TMPDIR": SCRATCH, "PATH": os.defpath, "LANG": "C.UTF-8", "CUDA_VISIBLE_DEVICES": ""}
    for name, value in {**home, **ENVIRONMENT, "OPENBLAS_NUM_THREADS": "1"}.items():
        yield from ("--setenv", name, value)
    for path in readable_paths():
        yield from ("--ro-bind", path, path)
    for path in _DEVICES:
        yield from ("--dev-bind", path, path)
    # Whatever is bound above them, these folders show only what calls a function: nothing in them tells what is
    # expected of an answer.
    for secret in _secrets():
        yield from ("--tmpfs", str(secret))
        if secret.name == FOLDER.name:
            for file in map(str, open_files(secret)):
                yield from ("--ro-bind", file, file)
        yield from ("--remount-ro", str(secret))
    # Where root grades, root could write to /proc/sys, whatever the user is called inside.
    yield from ("--proc", "/proc", "--remount-ro", "/proc")
    for path in (f"/proc/{name}" for name in _TELLS_OF_OTHERS):
        if os.path.exists(path):
            yield from ("--ro-bind", "/dev/null", path)
    yield from ("--size", str(_SCRATCH_BYTES), "--tmpfs", SCRATCH, "--chdir", SCRATCH, "--remount-ro", "/")


def _secrets() -> list[Path]:
    """The judges' folder and the solutions that a wheel carries, by each path that leads to them."""
    packages = {_PACKAGE, *(Path(place, _PACKAGE.name) for place in (*sys.path, *sysconfig.get_paths().values()))}
    ours = [path for path in packages if path.is_dir() and path.samefile(_PACKAGE)]
    return sorted(path / room for path in ours for room in (FOLDER.name, "carried") if (path / room).is_dir())


def readable_paths() -> list[str]:
    """What answers may read: Python, installed packages, this one, and what they load from the system.

    Packages may be installed in several places: for one user, for all, below a virtual environment.
    """
    paths = {str(_PACKAGE), sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.realpath(sys.executable)}
    paths |= {
        path for name, path in sysconfig.get_paths().items() if name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    paths |= {path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    system = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/usr/share/zoneinfo"]
    system += ["/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives", "/sys/devices/system/cpu"]
    return sorted(path for path in {*paths, *system} if os.path.exists(path))
