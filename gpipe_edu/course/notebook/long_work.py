"""Progress of long work, on one line that is overwritten: how far it is, or at least how long it has been running."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from . import frontend

Item = TypeVar("Item")

_OFTEN: Final = 0.25
"""Seconds between two updates of a line."""

_THREADS: Final = sys.platform != "emscripten"
"""Python in a browser has none: there the seconds are shown only at the end."""


def track(items: Collection[Item], what: str) -> Iterator[Item]:
    """Yield the items; a line in the notebook says how many `what` are done and how long the rest takes.

    Outside of a notebook nothing is shown.
    """
    notebook = frontend.current()
    line = _HowFar(notebook, what, len(items)) if notebook else None
    for done, item in enumerate(items):
        if line:
            line.show(done)
        yield item
    if line:
        line.end()


@contextmanager
def counting(what: str, about: int) -> Iterator[None]:
    """Around work without progress reports, such as another process's: a line in the notebook counts its seconds.

    about: how many seconds it takes on most machines. Outside of a notebook nothing is shown.
    """
    notebook = frontend.current()
    if notebook is None:
        yield
        return
    began, over = time.monotonic(), threading.Event()
    write = notebook.open_line(f"{what}: about {about} s ...")

    def count() -> None:
        while not over.wait(1):
            write(f"{what}: {time.monotonic() - began:.0f} s of about {about}")

    counter = threading.Thread(target=count, daemon=True)
    if _THREADS:
        counter.start()
    try:
        yield
    finally:
        over.set()
        if _THREADS:
            counter.join()
        write(f"{what}: {time.monotonic() - began:.0f} s")


class _HowFar:
    """How many items are done: updated at most every quarter of a second."""

    def __init__(self, notebook: frontend.Frontend, what: str, total: int) -> None:
        self.what, self.total = what, total
        self.began = self.written = time.monotonic()
        self.write = notebook.open_line(f"{what}: 0 of {total} ...")

    def show(self, done: int) -> None:
        now = time.monotonic()
        if done and now - self.written >= _OFTEN:
            self.written = now
            left = (now - self.began) / done * (self.total - done)
            self.write(f"{self.what}: {done} of {self.total}, about {max(1, round(left))} s to go")

    def end(self) -> None:
        self.write(f"{self.what}: {self.total} of {self.total}, {time.monotonic() - self.began:.0f} s")
