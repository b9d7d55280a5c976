"""Fresh processes that need load nothing: forked from one that has loaded all libraries and run nobody's code.

Whoever judges hundreds of answers would spend most of the time on importing. What such a process starts in its turn is
forked, too: `as_this_process` says how.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from time import monotonic, sleep
from typing import Final, NoReturn

from . import namespaces
from .child import Start, fresh

FORKED: Final = "GPIPE_EDUFORKED"
"""Stands in the environment of a process that `start` has started."""


class Forked:
    """What is used of `subprocess.Popen`."""

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid, self.returncode = pid, None
        self.stdin = os.fdopen(stdin, "wb")
        self.stdout, self.stderr = os.fdopen(stdout, "rb"), os.fdopen(stderr, "rb")

    returncode: int | None

    def kill(self) -> None:
        """End it at once."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit status if it has ended."""
        if self.returncode is None:
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        until = None if timeout is None else monotonic() + timeout
        while (status := self.poll()) is None:
            if until is not None and monotonic() > until:
                raise subprocess.TimeoutExpired("forked", timeout or 0)
            sleep(0.002)
        return status


def start(module: str, environment: Mapping[str, str], session: bool) -> Forked:
    """A process that runs `main` of `module`, with pipes for all it hears and says."""
    pipes = [os.pipe() for _ in range(3)]  # (read, write) for what it hears, says and prints
    theirs = (pipes[0][0], pipes[1][1], pipes[2][1])
    pid = fork()
    if pid == 0:
        become(theirs, module, {**environment, FORKED: "1"}, session)
    for end in theirs:
        os.close(end)
    return Forked(pid, pipes[0][1], pipes[1][0], pipes[2][0])


def as_this_process() -> Start:
    """How this process was started, for what it starts itself."""
    return start if FORKED in os.environ else fresh


def fork() -> int:
    """`os.fork`, of which newer Pythons warn wherever there are threads; ours only wait for messages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def become(ends: Iterable[int], module: str, environment: Mapping[str, str], session: bool) -> NoReturn:
    """In the forked process: what a fresh Python would do, with `ends` for what it hears, says and prints."""
    status = 1
    try:
        namespaces.die_with_parent()
        if session:
            os.setsid()
        for number, end in enumerate(ends):
            os.dup2(end, number)
        os.closerange(3, 4096)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None  # it remembers where it has looked
        importlib.import_module(module).main()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)
