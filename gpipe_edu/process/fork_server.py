"""Processes with nothing left to import: forked from one that has loaded all libraries and run no learner's code.

Judging hundreds of answers would otherwise be mostly importing. `start` forks one from this process, and what that
starts is forked, too (`as_this_process`). A `ForkServer` does the same in a sandbox, of which it is the first process:
the kernel lets no other one there signal it, it may not be looked into, and it can end all others at once. It starts
one at a time, and before each it ends what the last one has left, and deletes its files.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, BinaryIO, Final, NoReturn

from . import orphans, process_count, scratch_folder
from .child import Start, fresh

FORKED: Final = "GPIPE_EDUFORKED"
"""The environment variable that marks a forked process."""

_PATIENCE: Final = 60.0
"""Seconds for the server to load libraries, or to delete what an answer has left."""

_LARGEST: Final = 2**16
"""The most bytes of a request."""

_DONE: Final = b"done"

_PR_SET_DUMPABLE: Final = 4


class Forked:
    """The part of `subprocess.Popen` that is used here. pipes: to its standard input, from its output and error."""

    def __init__(self, pid: int, pipes: Iterable[int]) -> None:
        self.pid, self.returncode = pid, None
        self.stdin, self.stdout, self.stderr = map(os.fdopen, pipes, ("wb", "rb", "rb"))

    returncode: int | None

    def kill(self) -> None:
        """Kill it."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit status if it has ended."""
        if self.returncode is None:
            with suppress(ChildProcessError):
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


class Served(Forked):
    """A process that a server has started, seen from outside the sandbox. above: what it descends from.

    Its exit status is known to the server alone; here it is 0, whatever it was.
    """

    def __init__(self, above: int, handle: int, pipes: Iterable[int]) -> None:
        about = Path(f"/proc/self/fdinfo/{handle}").read_text()  # its number out here, not that in the sandbox
        pid = next(int(line.split()[1]) for line in about.splitlines() if line.startswith("Pid:"))
        super().__init__(pid, pipes)
        self.above, self._handle = above, handle

    def kill(self) -> None:
        """Kill it."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def poll(self) -> int | None:
        """0 if it has ended."""
        if self.returncode is None and select.select([self._handle], [], [], 0)[0]:
            self.returncode = 0
        return self.returncode


class ForkServer:
    """A server in a sandbox, seen from outside; `command` starts it. Any method raises OSError once it is silent.

    descriptor: one that the command needs. The server ends with the thread that made it.
    """

    def __init__(self, command: Sequence[str], descriptor: int) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_PATIENCE)
        self._group = process_count.Group()
        with theirs:
            self._process = subprocess.Popen(
                self._group.enter(command),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[descriptor],
            )
        with self._process.stderr as complaints:  # type: ignore[union-attr]  # it is a pipe
            try:
                self.load([])
            except OSError:
                self.close()
                said = complaints.read().decode(errors="replace").strip().splitlines()
                raise OSError((said or ["it says nothing"])[-1]) from None

    def load(self, modules: Sequence[str]) -> None:
        """Import modules that have not been imported yet."""
        self._ask({"load": list(modules)})

    def start(self, module: str, environment: Mapping[str, str], session: bool) -> Served:
        """A `child.Start`. All that was started before is ended first. The environment is the server's."""
        ours, theirs = _pipes()
        try:
            (handle,) = self._ask({"start": module, "session": session}, theirs)
        finally:
            _close(theirs)
        return Served(self._process.pid, handle, ours)

    def end_all(self) -> None:
        """End all that was started, and delete its files."""
        self._ask({})

    def close(self) -> None:
        """End the server, and with it all."""
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self._group.close()

    def _ask(self, question: dict[str, Any], ends: Sequence[int] = ()) -> list[int]:
        """The descriptors in the answer. Raises OSError."""
        socket.send_fds(self._socket, [json.dumps(question).encode()], ends)
        answer, handles, _, _ = socket.recv_fds(self._socket, _LARGEST, 1)
        if not answer:
            raise OSError("the sandbox has ended")
        if answer != _DONE:
            raise OSError(f"in the sandbox, {answer.decode(errors='replace')}")
        return handles


def start(module: str, environment: Mapping[str, str], session: bool) -> Forked:
    """A `child.Start`: a process forked from this one, which runs `main` of `module`."""
    ours, theirs = _pipes()
    pid = fork()
    if pid == 0:
        _become(theirs, module, environment, session)
    _close(theirs)
    return Forked(pid, ours)


def as_this_process() -> Start:
    """The way in which this process was started, for the processes that it starts."""
    return start if FORKED in os.environ else fresh


def fork() -> int:
    """`os.fork`, without the warning of newer Pythons about threads; ours only wait for messages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def piped(run: Callable[[BinaryIO], None]) -> tuple[int, BinaryIO]:
    """Fork a process that does `run(pipe)`, and ends with this one at the latest; returns its id and what it writes.

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


def load(modules: Sequence[str]) -> None:
    """Import modules that are not imported yet, for the processes that are forked from this one."""
    new = [module for module in modules if module not in sys.modules]
    gc.disable()  # it would go through all that has been imported again and again: a fifth of the time
    try:
        for module in new:
            importlib.import_module(module)
    finally:
        gc.enable()
    if new:
        gc.collect()
        gc.freeze()  # else each fork's collector goes through all of it, and copies its pages


def main() -> None:
    """Serve until nobody asks any more."""
    _let_others_look(False)
    process_count.limit_user()
    orphans.adopt()
    nothing = os.open(os.devnull, os.O_RDWR)
    with socket.socket(fileno=os.dup(0)) as control:
        os.dup2(nothing, 0)
        started = 0
        while True:
            if not select.select([control], [], [], 0.05)[0]:
                orphans.find_orphans(started)  # which reaps those that have ended, so that what they used counts
                continue
            asked, ends, _, _ = socket.recv_fds(control, _LARGEST, 3)
            if not asked:
                return
            question, answer, handles = json.loads(asked), _DONE, []
            if "load" in question:
                try:
                    load(question["load"])
                except Exception as error:
                    answer = f"{type(error).__name__}: {error}".encode()[:_LARGEST]
            else:
                _end_all()
            if "start" in question:
                started = fork()
                if started == 0:
                    _let_others_look(True)
                    _become(ends, question["start"], dict(os.environ), question["session"])
                handles = [os.pidfd_open(started)]
            socket.send_fds(control, [answer], handles)
            os.dup2(nothing, 2)  # after the first answer nobody reads it
            _close((*ends, *handles))


def _pipes() -> tuple[list[int], list[int]]:
    """Our ends of the pipes for a process's standard input, output and error, and its own."""
    stdin, stdout, stderr = (os.pipe() for _ in range(3))  # each to read, and to write
    return [stdin[1], stdout[0], stderr[0]], [stdin[0], stdout[1], stderr[1]]


def _close(descriptors: Iterable[int]) -> None:
    for one in descriptors:
        os.close(one)


def _become(ends: Iterable[int], module: str, environment: Mapping[str, str], session: bool) -> NoReturn:
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
        os.environ.update({**environment, FORKED: "1"})
        tempfile.tempdir = None  # which caches its folder
        importlib.import_module(module).main()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _end_all() -> None:
    """End every other process of the sandbox, and delete what they have written. Exits where that can't be done."""
    if os.getpid() != 1:
        sys.exit("a server ends all processes that it can reach, and so runs in a sandbox only")
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.wait()
    try:
        scratch_folder.empty(os.getcwd())
    except OSError as error:
        sys.exit(f"what an answer has written can't be deleted: {error}")


def _let_others_look(may: bool) -> None:
    """Set whether another process of the same user may look into this one, at its memory and its files."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, int(may), 0, 0, 0)
