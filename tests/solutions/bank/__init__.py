"""The bank of answers: per task, wrong ones that people really give, and right ones unlike ours.

Each wrong answer is named by the misconception that the check has to see in it. None of them is written with the check
in mind: they are what one types who believes the thing.
"""

import importlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from gpipe_edu.course.exercise import exercises


class Entry(NamedTuple):
    """An answer to the task `key`. slip: the misconception, "" for a right answer."""

    key: str
    name: str
    slip: str
    function: Callable[..., Any]


class Bank:
    """The answers to one task."""

    def __init__(self, key):
        self.key = key
        self.entries = []

    def wrong(self, slip):
        """Decorates an answer that must be refused with this misconception."""
        return lambda function: self._add(slip, function)

    def right(self, function):
        """Decorates an answer that must be accepted."""
        return self._add("", function)

    def _add(self, slip, function):
        self.entries.append(Entry(self.key, function.__name__, slip, function))
        return function


def bank(key) -> list[Entry]:
    """All answers to one task."""
    return importlib.import_module(f"{__name__}.{re.sub('[/-]', '_', key)}").BANK.entries


def everything() -> list[Entry]:
    """All answers to all tasks."""
    return [entry for key in exercises() for entry in bank(key)]
