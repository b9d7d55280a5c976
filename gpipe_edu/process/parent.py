"""The parent process as its child sees it: receive its questions, answer, and end when it has ended.

What a learner's function prints must not mix with the answers, so they are written to a copy of standard output, and
standard output itself is redirected to standard error.
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
    """Created once, first of all. From `listen` on questions are received in a thread, also while this process works.

    Before that there is only one thread: rights that it gives up are given up for all threads that start later.
    pipe: where messages come from, for code that also waits for something else.
    """

    def __init__(self) -> None:
        self._questions: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._answers, self._lock = os.fdopen(os.dup(1), "wb"), threading.Lock()
        self.pipe = os.fdopen(os.dup(0), "rb", buffering=0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        sys.dont_write_bytecode = True
        self._listening = False

    def listen(self) -> None:
        """Receive questions in a thread, and end this process once the parent is gone, even in an endless loop."""
        self._listening = True
        threading.Thread(target=self._listen, daemon=True).start()

    def hear(self) -> bytes:
        """Wait for the next message."""
        if self._listening:
            return self._questions.get()
        try:
            return frames.read(self.pipe)
        except (EOFError, OSError):
            os._exit(0)

    def say(self, data: bytes) -> None:
        """Send a message, from any thread."""
        with self._lock:
            frames.write(self._answers, data)

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._questions.put(frames.read(self.pipe))
        os._exit(0)


def look_also_in(folders: Iterable[str]) -> None:
    """Find modules also in the folders where the parent finds them, after the installed ones."""
    sys.path += [folder for folder in folders if folder not in sys.path]
