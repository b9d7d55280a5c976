"""Where a learner sees what the course shows: in Jupyter, on a page that runs Python, or, with neither, in a terminal.

This is the only place that knows. Anything other than Jupyter announces itself with `use`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol


class Frontend(Protocol):
    """What renders more than printed text."""

    def display(self, shown: object) -> None:
        """Show a value as if a cell had ended with it; a dict is a mime bundle, each form by its type."""

    def open_line(self, words: str) -> Callable[[str], None]:
        """Show a line; returns a function that overwrites it."""

    def abort_queued_cells(self) -> None:
        """Return, unrun, the cells that were sent but have not begun: they would show an open question's answer."""


_given: list[Frontend] = []


def use(frontend: Frontend) -> None:
    """From now on everything is shown there."""
    _given[:] = [frontend]


def current() -> Frontend | None:
    """What shows things here; None in a terminal."""
    if _given:
        return _given[0]
    return _Jupyter() if hasattr(jupyter_shell(), "kernel") else None


def jupyter_shell() -> Any:
    """IPython's shell, None where there is none. IPython is only asked if it has been loaded already."""
    ipython: Any = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


class _Jupyter:
    def display(self, shown: object) -> None:
        _display()(shown, raw=isinstance(shown, dict))

    def open_line(self, words: str) -> Callable[[str], None]:
        handle = _display()({"text/plain": words}, raw=True, display_id=True)
        return lambda words: handle.update({"text/plain": words}, raw=True)

    def abort_queued_cells(self) -> None:
        """As a kernel does after an error. No error is raised here, so that a lesson runs to its end where cells are
        sent one by one, as tests and site builders do. In kernels without this private part all cells run.
        """
        abort = getattr(jupyter_shell().kernel, "_abort_queues", None)
        if callable(abort):
            abort()


def _display() -> Callable[..., Any]:
    found: Callable[..., Any] = import_module("IPython.display").display
    return found
