"""Processes forked from one that runs elsewhere, in a sandbox, and has loaded all libraries and no learner's code.

Loading PyTorch for each answer would take longer than judging it. The server is the first process of its sandbox: the
kernel lets no other one there signal it, it may not be looked into, and it can end all others at once. It starts one at
a time, and before each it ends what the last one has left, and deletes its files.
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from . import forked, orphans, scratch_folder, task_limit

_PATIENCE: Final = 60.0
"""Seconds for the server to load libraries, or to delete what an answer has left."""

_LARGEST: Final = 2**16
"""Bytes of a request."""

_DONE: Final = b"done"

_PR_SET_DUMPABLE: Final = 4


class Served(forked.Forked):
    """A process that the server has started, as its user outside of the sandbox sees it. above: what it descends from.

    Its exit status is known to the server alone; here it is 0, whatever it was.
    """

    def __init__(self, above: int, handle: int, stdin: int, stdout: int, stderr: int) -> None:
        about = Path(f"/proc/self/fdinfo/{handle}").read_text()  # its number out here, not that in the sandbox
        pid = next(int(line.split()[1]) for line in about.splitlines() if line.startswith("Pid:"))
        super().__init__(pid, stdin, stdout, stderr)
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
    """The server as its user sees it; `command` starts it. Any method raises OSError once the server does not answer.

    descriptor: one that the command needs. It ends with the thread that has made it.
    """

    def __init__(self, command: Sequence[str], descriptor: int) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_PATIENCE)
        self._group = task_limit.Group()
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
        pipes = [os.pipe() for _ in range(3)]  # (read, write) for its standard input, output and error
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        (handle,) = self._ask({"start": module, "session": session}, theirs)
        for end in theirs:
            os.close(end)
        return Served(self._process.pid, handle, pipes[0][1], pipes[1][0], pipes[2][0])

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
        """The descriptors that are answered. Raises OSError."""
        socket.send_fds(self._socket, [json.dumps(question).encode()], ends)
        answer, handles, _, _ = socket.recv_fds(self._socket, _LARGEST, 1)
        if not answer:
            raise OSError("the sandbox has ended")
        if answer != _DONE:
            raise OSError(f"in the sandbox, {answer.decode(errors='replace')}")
        return handles


def main() -> None:
    """Serve until nobody asks any more."""
    _let_others_look(False)
    task_limit.limit_user()
    orphans.adopt()
    nothing = os.open(os.devnull, os.O_RDWR)
    with socket.socket(fileno=os.dup(0)) as control:
        os.dup2(nothing, 0)
        started = 0
        while True:
            if not select.select([control], [], [], 0.05)[0]:
                orphans.find_orphans(started)  # which reaps those that have ended, and so knows what they have used
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
                started = forked.fork()
                if started == 0:
                    _let_others_look(True)
                    environment = {**os.environ, forked.FORKED: "1"}
                    forked.become(ends, question["start"], environment, question["session"])
                handles = [os.pidfd_open(started)]
            socket.send_fds(control, [answer], handles)
            os.dup2(nothing, 2)  # from the first answer on nobody reads it
            for descriptor in (*ends, *handles):
                os.close(descriptor)


def load(modules: Sequence[str]) -> None:
    """Import modules for the processes that are forked from this one, as far as that has not been done."""
    new = [module for module in modules if module not in sys.modules]
    for module in new:
        importlib.import_module(module)
    if new:
        gc.collect()
        gc.freeze()  # else each fork's collector goes through all of it, and copies its pages


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
    """Whether another process of the same user may look into this one, at its memory and its files."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, int(may), 0, 0, 0)
