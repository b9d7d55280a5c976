"""An error of a learner's code as plain data: its type, its words, and the learner's own lines that led to it."""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, Final

from gpipe_edu.process.lines import lines_to

_LONGEST, _LONGEST_NAME, _MOST_LINES, _MOST_BASES = 1000, 200, 6, 50
"""The most characters of a message and of a name, lines and types: a report of any length might never arrive."""


_PLACES: Final = {sys.prefix, sys.base_prefix, str(Path(__file__).parents[3])}
_TOLD_SHORT: Final = sorted((place for place in _PLACES if Path(place).parts[1:2] not in ((), ("usr",))), key=len)
"""Where Python and this package are, which an error may name: on a student's page, the teacher's own folders."""


def describe_error(error: BaseException, sources: Container[str], missing: Mapping[str, str]) -> tuple[Any, ...]:
    """(kind, message, where, bases) as `findings.Trouble` has them.

    sources: the learner's files. missing: what in the notebook could not come along, by name, with its type.
    """
    kind = "exit" if isinstance(error, SystemExit) else type(error).__name__
    message = _words(error)
    lost = _lost(error, missing)
    if lost:
        message += f" here: it is a {lost} of your notebook, which cannot be taken along; make it in the function"
    where = [line for line in lines_to(error) if line.file in sources]
    return cut_to_length(kind, message, where, [base.__name__ for base in type(error).__mro__])


def cut_to_length(kind: Any, message: Any, where: Any, bases: Any) -> tuple[str, str, list[Any], tuple[str, ...]]:
    """What `describe_error` has given, or something else in its place, cut to length."""
    lines = [(file, number, str(function)[:_LONGEST_NAME]) for file, number, function, *_ in where[-_MOST_LINES:]]
    names = tuple(str(base)[:_LONGEST_NAME] for base in bases[:_MOST_BASES])
    return str(kind)[:_LONGEST_NAME], str(message)[:_LONGEST], lines, names


def _words(error: BaseException) -> str:
    """Its message, as plain text; or why there is none to be had."""
    try:
        words = "".join(str.__iter__(str(error)))
        for place in reversed(_TOLD_SHORT):
            words = words.replace(place, "...")
        return words
    except (Exception, SystemExit) as another:
        return f"(its own text can't be had: {type(another).__name__[:_LONGEST_NAME]})"


def _lost(error: BaseException, missing: Mapping[str, str]) -> str:
    """The type of what the error did not find, if it is something that could not come along."""
    names: list[str] = []
    if isinstance(error, NameError):
        names = [str(error.name)]
    elif isinstance(error, AttributeError):
        owner = error.obj if isinstance(error.obj, type) else type(error.obj)
        names = [f"{base.__name__}.{error.name}" for base in owner.__mro__]
    return next((missing[name] for name in names if name in missing), "")
