"""The bank of answers: per task, wrong ones that people really give, and right ones unlike ours.

Each wrong answer is named by the misconception that the check has to see in it. None of them is written with the check
in mind: they are what one types who believes the thing.
"""

import importlib
import inspect
import linecache
import re
import sys
import textwrap
import types
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from gpipe_edu.judge.exercise import all_exercises


class Entry(NamedTuple):
    """An answer to the task `key`. slip: the misconception, "" for a right answer. make: gives the function."""

    key: str
    name: str
    slip: str
    make: Callable[[], Callable[..., Any]]

    @property
    def function(self) -> Callable[..., Any]:
        """What a learner has typed."""
        return self.make()


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

    def changed(self, slip, name, *texts, of=None):
        """Adds a wrong answer that is a right one but for a line: `of`, or the first right one; see `changed`.

        It is made when it is judged: making all of them takes longer than collecting all other tests.
        """
        base = of or next(entry.function for entry in self.entries if not entry.slip)
        self.entries.append(Entry(self.key, name, slip, cache(partial(changed, base, name, *texts))))

    def _add(self, slip, function):
        self.entries.append(Entry(self.key, function.__name__, slip, lambda: function))
        return function


def changed(right, name, *texts):
    """The function or class `right`, made from its source with the second text for the first, and so on in pairs.

    It lives in a module of its own, which sees what the module of `right` sees, and has lines that reports can quote.
    """
    source = textwrap.dedent(inspect.getsource(right))
    source = source[re.search("^(def|class) ", source, re.MULTILINE).start() :]  # without its decorators
    for old, new in zip(texts[::2], texts[1::2], strict=True):
        if source.count(old) != 1:
            raise ValueError(f"{name}: {old!r} is {source.count(old)} times in {right.__name__}, not once")
        source = source.replace(old, new)
    module = types.ModuleType(f"{right.__module__}.{name}")
    vars(module).update(vars(sys.modules[right.__module__]), __name__=module.__name__, __file__=f"{module.__name__}.py")
    sys.modules[module.__name__] = module
    linecache.cache[module.__file__] = (len(source), None, source.splitlines(keepends=True), module.__file__)
    exec(compile(source, module.__file__, "exec"), vars(module))
    return getattr(module, right.__name__)


def bank(key) -> list[Entry]:
    """All answers to one task."""
    return importlib.import_module(f"{__name__}.{re.sub('[/-]', '_', key)}").BANK.entries


def everything() -> list[Entry]:
    """All answers to all tasks."""
    return [entry for key in all_exercises() for entry in bank(key)]
