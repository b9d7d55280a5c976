"""Processes with nothing left to import: forked from one that has loaded all libraries and run no learner's code.

Judging hundreds of answers would otherwise be mostly importing. What such a process starts is forked, too:
`as_this_process` says how.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from time import monotonic, sleep
from typing import BinaryIO, Final, NoReturn

from . import orphans
from .child import Start, fresh

FORKED: Final = "GPIPE_EDUFORKED"
"""The environment variable of a process that `start` has started."""


class Forked:
    """The part of `subprocess.Popen` that is used here."""

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid, self.returncode = pid, None
        self.stdin = os.fdopen(stdin, "wb")
        self.stdout, self.stderr = os.fdopen(stdout, "rb"), os.fdopen(stderr, "rb")

    returncode: int | None

    def kill(self) -> None:
        """Kill it."""
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
        """Wait for its end and return its exit status. Raises subprocess.TimeoutExpired."""
        until = None if timeout is None else monotonic() + timeout
        while (status := self.poll()) is None:
            if until is not None and monotonic() > until:
                raise subprocess.TimeoutExpired("forked", timeout or 0)
            sleep(0.002)
        return status


def start(module: str, environment: Mapping[str, str], session: bool) -> Forked:
    """A process that runs `main` of `module`, with pipes for its standard input, output and error."""
    pipes = [os.pipe() for _ in range(3)]  # (read, write) for its standard input, output and error
    theirs = (pipes[0][0], pipes[1][1], pipes[2][1])
    pid = fork()
    if pid == 0:
        become(theirs, module, {**environment, FORKED: "1"}, session)
    for end in theirs:
        os.close(end)
    return Forked(pid, pipes[0][1], pipes[1][0], pipes[2][0])


def as_this_process() -> Start:
    """The way in which this process was started, for the processes that it starts."""
    return start if FORKED in os.environ else fresh


def fork() -> int:
    """`os.fork`, without the warning of newer Pythons about threads; ours only wait for messages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def piped(run: Callable[[BinaryIO], None]) -> tuple[int, BinaryIO]:
    """Fork a process that does `run(pipe)`, and ends with this one at the latest: its id, and what it writes.

    It exits with 0, or with 1 where `run` raises something.
    """
    reading, writing = os.pipe()
    pid = fork()
    if pid == 0:
        status = 1
        try:
            os.close(reading)
            orphans.die_with_parent()
            with os.fdopen(writing, "wb") as pipe:
                run(pipe)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    return pid, os.fdopen(reading, "rb", buffering=0)


def read_all(pipe: BinaryIO, seconds: float, most: float = math.inf, asker: BinaryIO | None = None) -> bytes | None:
    """What is written until `pipe` is closed.

    None if it takes longer or is more than that, or if `asker`, who has nothing to say meanwhile, has gone.
    """
    deadline, data = monotonic() + seconds, b""
    while (left := deadline - monotonic()) > 0 and len(data) < most:
        ready = select.select(list(filter(None, [pipe, asker])), [], [], left)[0]
        if asker in ready:
            return None
        if ready:
            piece = pipe.read(2**20)
            if not piece:
                return data
            data += piece
    return None


def become(ends: Iterable[int], module: str, environment: Mapping[str, str], session: bool) -> NoReturn:
    """In the forked process: do what a fresh Python would, with `ends` as standard input, output and error."""
    status = 1
    try:
        orphans.die_with_parent()
        if session:
            os.setsid()
        for number, end in enumerate(ends):
            os.dup2(end, number)
        os.closerange(3, 4096)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None  # which caches its folder
        importlib.import_module(module).main()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)
