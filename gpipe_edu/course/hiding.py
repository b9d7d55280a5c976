"""What of this package would give an answer away is not there while a learner's function runs, under any name."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any


class Hidden:
    """`with Hidden({"gpipe_edu.split.split_batch": "split"}):` whoever calls `split_batch` is told to write `split`.

    A function has many names, in the modules that import it and in tables such as that of the recipes; each goes, and
    comes back at the end. They are looked for once, because that takes tens of milliseconds.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._places: list[tuple[dict[Any, Any], Any, Any, Any]] = []
        for path, task in names.items():
            module, _, name = path.rpartition(".")
            function = getattr(importlib.import_module(module), name)
            refusal = _refusal(name, task)
            for table in [found for found in gc.get_referrers(function) if isinstance(found, dict)]:
                keys = [key for key, value in table.items() if value is function]
                self._places += [(table, key, function, refusal) for key in keys]

    def __enter__(self) -> Hidden:
        for table, key, function, refusal in self._places:
            _exchange(table, key, function, refusal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for table, key, function, refusal in self._places:
            _exchange(table, key, refusal, function)


def _exchange(table: dict[Any, Any], key: Any, old: Any, new: Any) -> None:
    if table.get(key) is old:
        table[key] = new


def _refusal(name: str, task: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{name} is not there in this exercise, because it is what `{task}` is to be: write it")

    return refuse
