"""The process that a learner's function runs in: it unpacks the function, then answers one question after another.

What the function prints must not mix with the answers, so they leave through a copy of standard output, and standard
output itself becomes standard error.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import queue
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, BinaryIO, Final

from . import carry, plain

_MARGIN: Final = 0.8
"""Of the time limit: then the process writes down where it is, while it still can."""

_MEMORY: Final = 6 * 2**30


def main() -> None:
    """Read a start message and a function, then a question a message, until the other side hangs up."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    start = plain.decode(read(questions))
    sys.path += [folder for folder in start["path"] if folder not in sys.path]
    sys.dont_write_bytecode = True
    warnings.formatwarning = _text_alone
    exercise: Any = importlib.import_module(start["module"])
    limit_memory()
    _hide(getattr(exercise, "HIDDEN", {}))
    try:
        function = getattr(exercise, "unpack", carry.unpack)(read(questions))
    except BaseException as error:
        _write(answers, None, _trouble(error, start))
        return
    _write(answers, None, None)
    left = start["seconds"]
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(questions, waiting), daemon=True).start()
    while True:
        given = plain.decode(waiting.get())
        faulthandler.dump_traceback_later(max(0.01, left * _MARGIN), exit=False, file=2)
        started = monotonic()
        try:
            value, trouble = exercise.perform(function, **given), None
        except BaseException as error:  # sys.exit and a keyboard interrupt too
            value, trouble = None, _trouble(error, start)
        faulthandler.cancel_dump_traceback_later()
        left -= monotonic() - started
        _write(answers, value, trouble)


def _text_alone(message: Warning | str, *_: Any, **__: Any) -> str:
    """A warning without the file and the line that it came from: they are no business of a learner's report."""
    return f"{message}\n"


def listen(questions: BinaryIO, waiting: queue.SimpleQueue[bytes]) -> None:
    """Take questions, and end this process when nobody can ask any more, even in the middle of an endless loop."""
    with suppress(EOFError):
        while True:
            waiting.put(read(questions))
    os._exit(0)


def read(pipe: BinaryIO) -> bytes:
    """A message: its length in 8 bytes, then itself. Raises EOFError if the other side has hung up."""
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    return pipe.read(int.from_bytes(head, "big"))


def _write(pipe: BinaryIO, value: Any, trouble: tuple[Any, ...] | None) -> None:
    sys.stdout.flush()
    data = plain.encode((value, trouble))
    pipe.write(len(data).to_bytes(8, "big") + data)
    pipe.flush()


def _trouble(error: BaseException, start: Mapping[str, Any]) -> tuple[Any, ...]:
    """The error as plain data, with the lines of the learner's own code that led to it."""
    kind = "exit" if isinstance(error, SystemExit) else type(error).__name__
    message = str(error)
    missing = start["missing"].get(getattr(error, "name", None) or "")
    if isinstance(error, NameError) and missing:
        message += f" here: it is a {missing} of your notebook, which cannot be taken along; make it in the function"
    frames = [(frame.filename, frame.lineno, frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    where = [frame for frame in frames if frame[0] in start["sources"]]
    return kind, message[:1000], where[-6:], [base.__name__ for base in type(error).__mro__]


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


def limit_memory() -> None:
    """An allocation without end becomes a MemoryError before the machine suffers. Not where there are no limits."""
    try:
        import resource
    except ImportError:  # Windows
        return
    # Of data, not of addresses: torch reserves far more of those than it uses.
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
