"""Questions to the judge while a learner's function runs, for what only a judge outside can say or see."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

Ask = Callable[[Any], Any]

MARK: Final = b"?"
"""What a question begins with, unlike any answer."""

_current: list[Ask] = []
_lock = threading.Lock()


def ask_judge(question: Any) -> Any:
    """The judge's answer, in plain data; from any thread."""
    with _lock:
        return _current[-1](question)


@contextmanager
def asking(ask: Ask) -> Iterator[None]:
    """While this lasts, `ask` brings questions to the judge."""
    _current.append(ask)
    try:
        yield
    finally:
        _current.remove(ask)
