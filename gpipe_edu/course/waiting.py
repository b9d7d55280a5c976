"""Long work shows itself: how far it is and how much longer it takes, on one line that is written over."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from importlib import import_module
from typing import Any, Final, TypeVar

from . import page

Item = TypeVar("Item")

_OFTEN: Final = 0.25
"""Seconds between two looks at the clock that write a line."""


def track(items: Collection[Item], what: str) -> Iterator[Item]:
    """The items one by one; a line in the notebook tells how many `what` are done and how long the rest takes.

    Outside of a notebook nothing is shown.
    """
    line = _Line(what, len(items)) if page.in_a_notebook() else None
    for done, item in enumerate(items):
        if line:
            line.show(done)
        yield item
    if line:
        line.end()


class _Line:
    """The line in a notebook: shown at most every quarter of a second."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total = what, total
        self.began = self.written = time.monotonic()
        display: Any = import_module("IPython.display").display
        self.handle = display(self._bundle(f"{what}: 0 of {total} ..."), raw=True, display_id=True)

    def show(self, done: int) -> None:
        now = time.monotonic()
        if done and now - self.written >= _OFTEN:
            self.written = now
            left = (now - self.began) / done * (self.total - done)
            self._write(f"{self.what}: {done} of {self.total}, about {max(1, round(left))} s to go")

    def end(self) -> None:
        self._write(f"{self.what}: {self.total} of {self.total}, {time.monotonic() - self.began:.0f} s")

    def _write(self, words: str) -> None:
        self.handle.update(self._bundle(words), raw=True)

    @staticmethod
    def _bundle(words: str) -> dict[str, str]:
        return {"text/plain": words}
