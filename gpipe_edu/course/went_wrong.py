"""An error of a learner's code as plain data: its type, its words, and the learner's own lines that led to it."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from gpipe_edu.process.lines import lines_to

_LONGEST, _MOST_LINES = 1000, 6


def told(error: BaseException, sources: Container[str], missing: Mapping[str, str]) -> tuple[Any, ...]:
    """(kind, message, where, bases) as `sandbox.Trouble` has them.

    sources: the learner's files. missing: what of the notebook could not come along, by name, with its type.
    """
    kind = "exit" if isinstance(error, SystemExit) else type(error).__name__
    message = str(error)
    lost = _lost(error, missing)
    if lost:
        message += f" here: it is a {lost} of your notebook, which cannot be taken along; make it in the function"
    where = [line for line in lines_to(error) if line.file in sources]
    return kind, message[:_LONGEST], where[-_MOST_LINES:], [base.__name__ for base in type(error).__mro__]


def _lost(error: BaseException, missing: Mapping[str, str]) -> str:
    """The type of what the error did not find, if it is something that could not come along."""
    names: list[str] = []
    if isinstance(error, NameError):
        names = [str(error.name)]
    elif isinstance(error, AttributeError):
        owner = error.obj if isinstance(error.obj, type) else type(error.obj)
        names = [f"{base.__name__}.{error.name}" for base in owner.__mro__]
    return next((missing[name] for name in names if name in missing), "")
