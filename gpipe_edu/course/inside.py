"""The process that a learner's function runs in: it unpacks the function, then answers one question after another."""

from __future__ import annotations

import gc
import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from gpipe_edu.process import cage, last_words, packing, plain
from gpipe_edu.process.limits import limit_memory
from gpipe_edu.process.lines import lines_to
from gpipe_edu.process.parent import Parent, look_also_in


def main() -> None:
    """Hear a start message and a function, then a question a message, until the other side hangs up."""
    parent = Parent()
    start = plain.decode(parent.hear())
    look_also_in(start["path"])
    warnings.formatwarning = _text_alone
    exercise: Any = importlib.import_module(start["module"])
    limit_memory()
    _hide(getattr(exercise, "HIDDEN", {}))
    held = None
    if start["cage"]:
        held = tuple(cage.enter(start["folder"], start["cpu"], getattr(exercise, "TALKS", False)))
    parent.listen()
    _answer(parent, held, None)  # from now on the time that passes is the learner's
    body = parent.hear()
    try:
        with last_words.ready(start["seconds"]):
            function = getattr(exercise, "unpack", packing.unpack)(body)
    except BaseException as error:
        _answer(parent, None, _trouble(error, start))
        return
    _answer(parent, None, None)
    while True:
        given = plain.decode(parent.hear())
        try:
            with last_words.ready(start["seconds"]):
                value, trouble = exercise.perform(function, **given), None
        except BaseException as error:  # sys.exit and a keyboard interrupt too
            value, trouble = None, _trouble(error, start)
        _answer(parent, value, trouble)


def _text_alone(message: Warning | str, *_: Any, **__: Any) -> str:
    """A warning without the file and the line that it came from: they are no business of a learner's report."""
    return f"{message}\n"


def _answer(parent: Parent, value: Any, trouble: tuple[Any, ...] | None) -> None:
    sys.stdout.flush()
    try:
        data = plain.encode((value, trouble))
    except MemoryError:  # the answer itself fits, but not a second time
        data = plain.encode((None, ("MemoryError", "the answer is too large to be handed over", [], ["MemoryError"])))
    parent.say(data)


def _trouble(error: BaseException, start: Mapping[str, Any]) -> tuple[Any, ...]:
    """The error as plain data, with the lines of the learner's own code that led to it."""
    kind = "exit" if isinstance(error, SystemExit) else type(error).__name__
    message = str(error)
    missing = _missing(error, start["missing"])
    if missing:
        message += f" here: it is a {missing} of your notebook, which cannot be taken along; make it in the function"
    where = [line for line in lines_to(error) if line.file in start["sources"]]
    return kind, message[:1000], where[-6:], [base.__name__ for base in type(error).__mro__]


def _missing(error: BaseException, missing: Mapping[str, str]) -> str:
    """The type of what the error did not find, if it is something that could not come along."""
    names: list[str] = []
    if isinstance(error, NameError):
        names = [str(error.name)]
    elif isinstance(error, AttributeError):
        owner = error.obj if isinstance(error.obj, type) else type(error.obj)
        names = [f"{base.__name__}.{error.name}" for base in owner.__mro__]
    return next((missing[name] for name in names if name in missing), "")


def _hide(names: Mapping[str, str]) -> None:
    """Take away what an exercise asks for: {"gpipe_edu.split.split_batch": "split"}.

    A function has many names, in the modules that import it and in tables such as that of the recipes; each goes.
    """
    for path, task in names.items():
        module, _, name = path.rpartition(".")
        function = getattr(importlib.import_module(module), name)
        refusal = _hidden(name, task)
        for table in [found for found in gc.get_referrers(function) if isinstance(found, dict)]:
            table.update((key, refusal) for key, value in list(table.items()) if value is function)


def _hidden(name: str, task: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{name} is not there in this exercise, because it is what `{task}` is to be: write it")

    return refuse
