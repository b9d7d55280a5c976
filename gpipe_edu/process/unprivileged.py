"""The way in inside a container, without bubblewrap: as a user who owns one folder, and no process but its own.

A container isolates answers from the machine, but not from the judge, which is in it, too. So the judge runs as root
there, and answers as a user without rights. What the container should shut off is tested here, not assumed.
"""

from __future__ import annotations

import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Final

from . import orphans, process_count, system_calls
from .probes import Confinement, leads_out, refuses_calls
from .resource_limits import limit_use

_NOBODY: Final = 65534


def enter(scratch: str, cpu_seconds: float, outside: str) -> Confinement:
    """Become another user, in a container where this process is root. outside: unused; it may see what it can't change.

    Raises PermissionError where that user can't even read this package, which is not the answer's fault.
    """
    user = _user()
    os.chown(scratch, user, _NOBODY)
    os.chdir(scratch)
    limit_use(cpu_seconds)
    process_count.limit_user(2 * process_count.TASKS)  # of all of nobody's processes, in which several answers may run
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(user, user, user)
    _check_package_is_readable()
    orphans.die_with_parent()  # again, since changing the user resets it
    with suppress(OSError):  # then `calls` stays open
        system_calls.forbid()
    return Confinement(
        files=not any(os.access(path, os.W_OK) for path in _folders(scratch)),
        processes=not _may_signal(os.getppid()),
        network=not leads_out(),
        calls=refuses_calls(scratch),
    )


def _check_package_is_readable() -> None:
    try:
        Path(__file__).read_bytes()
    except PermissionError as error:
        package = Path(__file__).parents[1]
        raise PermissionError(
            f"answers run as a user without rights, who may not read {package}: it lies below a folder that others "
            "can't enter. Move it to one that all may enter, such as /opt, or let others enter that folder (chmod o+x)"
        ) from error


def _user() -> int:
    """One of the container's own users for answers, drawn at random; `nobody` where it has none.

    The system counts a user's processes over all containers: those of one answer must not count towards another's
    limit.
    """
    import pwd  # which Windows and browsers lack

    own = [one.pw_uid for one in pwd.getpwall() if one.pw_name.startswith("answer-")]
    return random.SystemRandom().choice(own or [_NOBODY])


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
