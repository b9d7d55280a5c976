"""What would give an answer away is hidden, under every name, while a learner's function runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple

from gpipe_edu.process.judges_files import JUDGES, is_open

_OTHERS: Final = frozenset(("torch", "sympy", "mpmath"))
"""PyTorch and what it brings: 1,500 modules that know nothing of ours. They are loaded only in processes in which no
learner's code has run before the names are hidden, and looking through them takes longer than most answers.
"""


def forget_judges() -> None:
    """Take all judges, which know what is right, out of this process: it may be forked from one that has them.

    The names in a module are taken away, too, and those in its classes: a function that somebody still holds, or finds
    among all objects, has nothing left to work with. In the sandbox, their files can't be read again.
    """
    for name in [name for name in sys.modules if name.startswith(f"{JUDGES}.") and not is_open(name)]:
        above, _, last = name.rpartition(".")
        if above in sys.modules:
            vars(sys.modules[above]).pop(last, None)
        names = vars(sys.modules.pop(name))
        for value in names.values():
            if isinstance(value, type) and value.__module__ == name:
                for attribute in list(vars(value)):
                    with suppress(AttributeError, TypeError):
                        delattr(value, attribute)
        names.clear()


class ReadyMade(RuntimeError):
    """A call of what would give the answer away."""


class Hidden:
    """`with Hidden({"gpipe_edu.split.split_batch": "split"}):` a call of `split_batch` says to write `split`.

    A function has many names, in the modules that import it and in tables such as that of the recipes; each goes, and
    comes back at the end. Each module is looked through once, because all of them take tens of milliseconds. Raises
    RuntimeError for a function that no module has a name for, which could not be hidden.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        functions = {path: _named(path) for path in names}
        pairs = [
            _Pair(function, _refusal(path.rpartition(".")[2], names[path])) for path, function in functions.items()
        ]
        self._pairs = {id(one): pair for pair in pairs for one in pair}
        self._seen: set[str] = set()
        self._places: list[_Place] = []
        self._look()
        found = {id(place.pair.function) for place in self._places}
        for path, function in functions.items():
            if id(function) not in found:
                raise RuntimeError(f"{path} can't be hidden: no module has a name for it")

    def hide(self) -> None:
        """Put a refusal in every place; for good, if `show` is not called."""
        self._look()
        for table, key, pair in self._places:
            if table.get(key) is pair.function:
                table[key] = pair.refusal

    def show(self) -> None:
        """Put everything back, also in modules imported meanwhile that have picked up a refusal."""
        self._look()
        for table, key, pair in self._places:
            if table.get(key) is pair.refusal:
                table[key] = pair.function

    def __enter__(self) -> Hidden:
        self.hide()
        return self

    def __exit__(self, *error: object) -> None:
        self.show()

    def _look(self) -> None:
        """Find the places in modules that have come since the last time."""
        for name, module in list(sys.modules.items()):
            if name in self._seen or name.partition(".")[0] in _OTHERS or not isinstance(module, ModuleType):
                continue
            self._seen.add(name)
            for table in _tables(module):
                if self._pairs.keys().isdisjoint(map(id, dict.values(table))):
                    continue  # true of nearly all, and quick to tell
                for key, value in list(dict.items(table)):
                    if id(value) in self._pairs:
                        self._places.append(_Place(table, key, self._pairs[id(value)]))


class _Pair(NamedTuple):
    function: Callable[..., Any]
    refusal: Callable[..., Any]


class _Place(NamedTuple):
    table: dict[Any, Any]
    key: Any
    pair: _Pair


def _named(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def _tables(module: ModuleType) -> Iterator[dict[Any, Any]]:
    """Where a module may have a name for a function: its own names, its tables, and the defaults of its functions."""
    names = vars(module)
    yield names
    for value in list(names.values()):
        kind = type(value)  # isinstance would ask the value itself, and some do more than answer
        if issubclass(kind, dict):
            yield value
        elif kind is FunctionType and value.__kwdefaults__:
            yield value.__kwdefaults__


def _refusal(name: str, task: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise ReadyMade(f"{name} is not available in this exercise: write `{task}` without it")

    return refuse
