"""The process that has started this one, as we see it: hear what it asks, answer, and end when it has gone.

What a learner's function prints must not mix with the answers, so they leave through a copy of standard output, and
standard output itself becomes standard error.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress

from . import frames


class Parent:
    """Made once, first of all. From `listen` on questions are taken whatever else this process does.

    Before, there is only one thread: what a process forbids itself holds for threads that it starts afterwards.
    """

    def __init__(self) -> None:
        self._questions: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._answers, self._lock = os.fdopen(os.dup(1), "wb"), threading.Lock()
        self._pipe = os.fdopen(os.dup(0), "rb", buffering=0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        sys.dont_write_bytecode = True
        self._listening = False

    def listen(self) -> None:
        """Take questions as they come, and end this process when nobody can ask any more, even in an endless loop."""
        self._listening = True
        threading.Thread(target=self._listen, daemon=True).start()

    def hear(self) -> bytes:
        """Wait for the next message."""
        if self._listening:
            return self._questions.get()
        try:
            return frames.read(self._pipe)
        except (EOFError, OSError):
            os._exit(0)

    def say(self, data: bytes) -> None:
        """Send a message, from any thread."""
        with self._lock:
            frames.write(self._answers, data)

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._questions.put(frames.read(self._pipe))
        os._exit(0)


def look_also_in(folders: Iterable[str]) -> None:
    """Find modules in the folders where the parent finds them, after those that are installed."""
    sys.path += [folder for folder in folders if folder not in sys.path]
