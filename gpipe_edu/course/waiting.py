"""What a check waits for, said while it runs: on a busy machine it may take a minute."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from gpipe_edu.base.words import shown
from gpipe_edu.judge.case import Tell
from gpipe_edu.judge.exercise import Exercise

from .notebook import frontend

AFTER: Final = 3.0
"""Seconds after which a notebook says what is waited for; on a quiet machine most checks have ended by then."""

_EVERY: Final = 1.0
"""Seconds between two updates of the line."""

_THREADS: Final = sys.platform != "emscripten"
"""Python in a browser has none: there the line is written when a case begins."""


class Waiting:
    """What the check of one exercise waits for now, as text. `tell` keeps it up to date."""

    def __init__(self, exercise: Exercise) -> None:
        self._exercise, self._began, self._now = exercise, time.monotonic(), "starting a process for your answer"

    def tell(self, number: int, call: str) -> None:
        """A case begins."""
        self._now = f"case {number} of {max(number, self._exercise.cases)}" + f", {shown(call, 60)}" * bool(call)

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return time.monotonic() - self._began

    def __str__(self) -> str:
        busy = ", this machine is busy" * _is_busy()
        return f"{self._exercise.key}, {self.seconds:.0f} s so far{busy}: {self._now}"


def _is_busy() -> bool:
    """Whether twice as many processes want to run as there are cores."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > 2 * (os.cpu_count() or 1)


@contextmanager
def in_a_notebook(exercise: Exercise) -> Iterator[Tell]:
    """A line that appears after `AFTER` seconds, and says in the end how long it took. Elsewhere nothing is shown."""
    notebook, waiting, over = frontend.current(), Waiting(exercise), threading.Event()
    write: Callable[[str], None] | None = None

    def show() -> None:
        nonlocal write
        if write:
            write(str(waiting))
        elif notebook and waiting.seconds >= AFTER:
            write = notebook.open_line(str(waiting))

    def keep_showing() -> None:
        while not over.wait(_EVERY):
            show()

    thread = threading.Thread(target=keep_showing, daemon=True, name="what a check waits for")

    def end() -> None:
        over.set()
        if thread.is_alive():
            thread.join()
        if write:
            write(f"{exercise.key}: checked in {waiting.seconds:.0f} s")

    def tell(number: int, call: str) -> None:
        if number == 0:
            end()
            return
        waiting.tell(number, call)
        if not _THREADS:
            show()

    if notebook and _THREADS:
        thread.start()
    try:
        yield tell
    finally:
        if not over.is_set():
            end()
