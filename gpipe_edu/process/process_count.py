"""How many processes and threads a sandbox may have: a fork in a loop doubles them faster than anyone can count.

For a plain user it is a limit on the sandbox's user, counted in its user namespace alone since Linux 5.14. No such
limit holds for root, who can make a cgroup instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Final

TASKS: Final = 256
"""Processes and threads at once in a sandbox; four ranks with PyTorch take a fifth of them."""

_CGROUPS: Final = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
"""Where the kernel limits their number: in a hierarchy of its own, or in the only one."""

_PATIENCE: Final = 2.0
"""Seconds for the last process of a sandbox to be gone."""

_numbers = count()


def limit_user(most: int = TASKS) -> None:
    """From now on, no more than this many of the user that this process is, or becomes, unless that is root outside."""
    import resource

    version = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if version and tuple(map(int, version.groups())) >= (5, 14):  # before, all of the user's outside would count
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


class Group:
    """A cgroup for one command and all that it starts, where this user may make one; else it does nothing."""

    def __init__(self) -> None:
        self._folder = next(filter(None, map(_make, _CGROUPS)), None)

    def enter(self, command: Sequence[str]) -> list[str]:
        """The command line that starts `command` in the group."""
        if self._folder is None:
            return list(command)
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self._folder / "cgroup.procs"), *command]

    def close(self) -> None:
        """Remove it once all have ended."""
        until = monotonic() + _PATIENCE
        while self._folder is not None and self._folder.exists() and monotonic() < until:
            with suppress(OSError):  # some are still ending
                self._folder.rmdir()
                return
            sleep(0.01)


def _make(base: Path) -> Path | None:
    for left in base.glob("gpipe_edu-*"):  # by one that ended before the last of its processes was gone
        if not Path("/proc", left.name.split("-")[1]).exists():
            with suppress(OSError):
                left.rmdir()
    folder = base / f"gpipe_edu-{os.getpid()}-{next(_numbers)}"
    with suppress(OSError):
        folder.mkdir()
        with suppress(OSError):
            if (folder / "pids.max").exists():  # else the kernel counts nothing here
                (folder / "pids.max").write_text(str(TASKS))
                return folder
        folder.rmdir()
    return None
