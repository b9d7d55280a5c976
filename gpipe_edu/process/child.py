"""A child process as its parent sees it: send it questions, receive its answers, and kill it with all it has started.

It starts afresh instead of being forked, so it has none of the changes that a notebook made to libraries, and this
works the same on Linux, macOS and Windows.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from . import frames, orphans, stack_on_timeout
from .lines import Line
from .resource_limits import ENVIRONMENT

KEPT, _TAIL = 2_000, 20_000
"""Characters kept of what it prints, at its beginning and at its end."""

_FAREWELL: Final = 3.0
"""Seconds it has for writing down where it is; a moment is enough where the machine is not busy."""

FLOOD: Final = 50_000_000
"""Bytes: a process that prints more is killed."""

_LEAST: Final = 1_000
"""Bytes that each message counts as at least: thousands of small ones take as long as a large one."""


def command(module: str) -> list[str]:
    """The command line of a fresh Python that calls `main` of one of our modules.

    It loads this very copy of the package. The folders of PYTHONPATH come last, because a learner's sitecustomize.py or
    numpy/ must not replace the real one; packages may still be found only there.
    """
    package = Path(__file__).resolve().parents[1]
    last = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    code = (
        "import sys, importlib.util as util\n"
        "for pipe in sys.stdout, sys.stderr: pipe.reconfigure(encoding='utf-8', errors='replace')\n"
        f"sys.path += {[str(package.parent), *last]!r}\n"
        f"found = util.spec_from_file_location({package.name!r}, {str(package / '__init__.py')!r})\n"
        "module = sys.modules[found.name] = util.module_from_spec(found)\n"
        "found.loader.exec_module(module)\n"
        f"from {module} import main\n"
        "main()"
    )
    # -P: a learner's random.py beside the notebook must not replace Python's. -E: nor what environment variables tell
    # Python to load. -u: what a process has printed must not be lost when it is killed.
    return [sys.executable, "-P", "-E", "-u", "-c", code]


def fresh(module: str, environment: Mapping[str, str], session: bool) -> subprocess.Popen[bytes]:
    """A fresh process that runs `main` of `module`, with pipes for its standard input, output and error."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(module), stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=session
    )


Start: TypeAlias = Callable[[str, Mapping[str, str], bool], Any]
"""How a process is started: `fresh`, `fork_server.start`, or `ForkServer.start` in a sandbox."""


class Child:
    """Runs `main` of `module`. `hear` gets each of its messages, in a thread, and None once no more can come.

    session: whether it has one of its own, so that all it has started is killed with it; else it ends with ours. most:
    bytes of all its messages; with more, it is killed, and `talked` is true.
    """

    def __init__(
        self,
        module: str,
        hear: Callable[[bytes | None], Any],
        *,
        start: Start = fresh,
        session: bool = True,
        most: float = math.inf,
        **environment: str,
    ) -> None:
        self._hear, self._session, self._most = hear, session, most
        self._head, self._tail = "", ""
        self.flooded = self.talked = False
        self._process: subprocess.Popen[bytes] = start(module, {**os.environ, **ENVIRONMENT, **environment}, session)
        # Reading and writing are done in threads: a message that is cut short, or not read, must block only them.
        self._sender = frames.Sender(self._process.stdin)
        threading.Thread(target=self._listen, daemon=True).start()
        self._drainer = threading.Thread(target=self._drain, daemon=True)
        self._drainer.start()

    def send(self, data: bytes) -> None:
        """Send a message, without waiting until it is read; if the process has ended, `hear` gets None."""
        self._sender.send(data)

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._process.pid

    @property
    def ancestors(self) -> list[int]:
        """The processes from which all that it has started descends, even if disowned; itself among them."""
        above: int | None = getattr(self._process, "above", None)
        return [self.pid, *orphans.find_orphans(self.pid)] if above is None else [above, self.pid]

    @property
    def ended(self) -> bool:
        """Whether it has ended; processes that it started may still run, and hold its pipes open."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kill it. It holds nothing that needs to be cleaned up."""
        if self._session and hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(OSError):
            self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Kill it and collect all that it has printed, unless another process keeps the pipe open."""
        self.kill()
        self._sender.close()
        self._drainer.join(timeout=1)

    def hang_up(self, seconds: float) -> None:
        """Send no more, so that it ends what it has started, and itself; then `close`."""
        self._sender.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=seconds)
        self.close()

    def status(self) -> int:
        """Its exit status, negative if a signal killed it; if it has only closed its pipes, it is killed."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        self.kill()
        return self._process.wait()

    @property
    def printed(self) -> str:
        """The beginning of what it has printed."""
        return stack_on_timeout.text_before(self._head)

    def last_line(self) -> str:
        """The last line that it printed before it ended."""
        self._drainer.join(timeout=1)
        return (self._tail.strip().splitlines() or ["it said nothing"])[-1]

    def last_words(self) -> list[Line]:
        """Where it is when its time is up, outermost first. To be called before it is killed."""
        stack_on_timeout.ask(self.pid)
        until = time.monotonic() + _FAREWELL
        while time.monotonic() < until and not stack_on_timeout.is_complete(self._tail):
            time.sleep(0.02)
        return stack_on_timeout.read(self._tail)

    def _listen(self) -> None:
        left = self._most
        with suppress(EOFError, OSError, MemoryError), self._process.stdout as pipe:  # type: ignore[union-attr]
            while not self.talked:
                try:
                    data = frames.read(pipe, left)
                    left -= max(len(data), _LEAST)
                    self._hear(data)
                except frames.TooLong:
                    self.talked = True
                    self.kill()
        self._hear(None)

    def _drain(self) -> None:
        """Read all it prints, so that the pipe never fills, and keep a little of it. If it prints too much, kill it."""
        size = 0
        with suppress(OSError), self._process.stderr as pipe:  # type: ignore[union-attr]
            while data := os.read(pipe.fileno(), 65536):
                size += len(data)
                if size > FLOOD:
                    self.flooded = True
                    self.kill()
                    return
                text = data.decode(errors="replace")
                self._head = (self._head + text)[:KEPT] if len(self._head) < KEPT else self._head
                self._tail = (self._tail + text)[-_TAIL:]
