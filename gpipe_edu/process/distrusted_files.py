"""A function in forked processes with limits: what a hostile file makes endless must not hold up, or end, the others.

Only our own code runs in there, on data that nobody has checked; untrusted code runs in an enclosure.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, BinaryIO, Final, TypeVar

import psutil

from . import frames
from .fork_server import piped
from .resource_limits import MEMORY, limit_memory

CPU: Final = 60
"""Seconds of computing for one item."""

WALL: Final = 300.0
"""Seconds on the clock, which pass where a disk does not answer."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class TooMuch(Exception):
    """An item took more time or memory than it may; the message says which, as the end of a sentence."""


def each(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result | TooMuch]:
    """`function(item)` of each, in order, each in a process of its own. An error that it raises is raised here.

    All are forked from one process, itself forked at the first item, when this one may still have only one thread.
    Where nothing can be forked there are no limits.
    """
    if not hasattr(os, "fork"):
        yield from map(function, items)
        return
    pid, results = piped(partial(_serve, function, items))
    try:
        with results:
            for _ in items:
                found, error = pickle.loads(frames.read(results))
                if error is not None and not isinstance(error, TooMuch):
                    raise error
                yield error or found
    finally:
        with suppress(ProcessLookupError, ChildProcessError):  # whoever ends a command may have ended its children
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _serve(function: Callable[[Item], Result], items: Iterable[Item], results: BinaryIO) -> None:
    for item in items:
        frames.write(results, _result(function, item))


def _result(function: Callable[[Item], Result], item: Item) -> bytes:
    """What comes of one item, as a pickled pair of a result and an error."""
    pid, pipe = piped(partial(_run, function, item))
    with pipe:
        data = _read(pipe)
    if data is None:
        os.kill(pid, signal.SIGKILL)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if ended == 0 and data:
        return data
    limit = f"{CPU} seconds of computing" if ended == -signal.SIGXCPU else f"{MEMORY / 2**30:.0f} GB of memory"
    return pickle.dumps((None, TooMuch(f"takes more than {f'{WALL:.0f} seconds' if data is None else limit}")))


def _read(pipe: BinaryIO) -> bytes | None:
    """What is written until `pipe` is closed; None if that takes too long."""
    deadline, data = monotonic() + WALL, b""
    while select.select([pipe], [], [], max(0.0, deadline - monotonic()))[0]:
        piece = pipe.read(2**20)
        if not piece:
            return data
        data += piece
    return None


def _run(function: Callable[[Item], Any], item: Item, pipe: BinaryIO) -> None:
    import resource

    # The process that this was forked from may hold more than that by itself, and shares it.
    limit_memory(getattr(psutil.Process().memory_info(), "data", 0) + MEMORY)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU + 1))
    try:
        pair: tuple[Any, BaseException | None] = (function(item), None)
    except BaseException as error:
        pair = (None, error)
    try:
        pipe.write(pickle.dumps(pair))
    except (pickle.PicklingError, TypeError, AttributeError):
        pipe.write(pickle.dumps((None, RuntimeError(repr(pair[1] or pair[0])))))
