"""A process that judges one answer after another, each in a process forked from it, so that nobody waits for imports.

It hears a message, and says what was found: the report, or why there is none. All that an answer has started is ended
before the next one is taken.
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import os
import select
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from typing import Any, Final

from gpipe_edu.course.exercise import exercises, find
from gpipe_edu.course.judging import NotJudged, judge
from gpipe_edu.course.sandbox import START, Crowded
from gpipe_edu.process import cage, child, forked, frames, orphans, plain
from gpipe_edu.process.packing import Packed
from gpipe_edu.process.patience import wall

_LARGEST: Final = 20_000_000
"""Bytes of a report."""

_MEMORY: Final = 6 * 2**30
"""Bytes for the judge, who reads what an answer has handed over."""


def main() -> None:
    """Judge until nobody asks any more."""
    cage.die_with_parent()
    orphans.adopt()
    _load()
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    with suppress(EOFError, OSError):
        while True:
            message = plain.decode(frames.read(questions))
            seconds = 0.0 if "probe" in message else wall(find(message["key"]).seconds)
            frames.write(answers, plain.encode(_apart(message, seconds + 2 * START)))


def _load() -> None:
    """What answers and judges import, once for all."""
    import gpipe_edu.distributed.rank
    import gpipe_edu.reference

    if importlib.util.find_spec("torch"):
        import torch

        import gpipe_edu.distributed.watch
        import gpipe_edu.pytorch  # noqa: F401

        torch.set_num_threads(1)
    for exercise in exercises().values():
        importlib.import_module(exercise.module)


def _apart(message: dict[str, Any], seconds: float) -> dict[str, Any]:
    """{"report": ...}, {"held": ...}, {"can": ...}, or {"why": ..., "busy": whether it was the machine's fault}."""
    reading, writing = os.pipe()
    pid = forked.fork()
    if pid == 0:
        os.close(reading)
        _do(message, writing)
    os.close(writing)
    try:
        data = _until(reading, seconds)
    finally:
        os.close(reading)
        orphans.end()
    if data is None:
        return {"why": "the judge did not come to an end", "busy": True}
    try:
        found: dict[str, Any] = plain.decode(data)
        return found
    except ValueError:
        return {"why": "the judge's own process was ended, perhaps for want of memory", "busy": True}


def _until(reading: int, seconds: float) -> bytes | None:
    """All that is written until it is closed; None if it takes longer, or is too much."""
    deadline, data = time.monotonic() + seconds, b""
    while (left := deadline - time.monotonic()) > 0 and len(data) < _LARGEST:
        if select.select([reading], [], [], left)[0]:
            piece = os.read(reading, 2**16)
            if not piece:
                return data
            data += piece
    return None


def _do(message: dict[str, Any], writing: int) -> None:
    """In the forked process: judge, and write down what was found."""
    try:
        cage.die_with_parent()
        if "probe" in message:
            found = _PROBES[message["probe"]]()
        else:
            orphans.adopt()
            _limit_memory()
            child.start = partial(forked.start, nobody=message["nobody"])
            found = _judge(message)
            orphans.end()
        data = plain.encode(found)
        while data:
            data = data[os.write(writing, data) :]
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def _held() -> dict[str, Any]:
    return {"held": tuple(cage.enter(os.getcwd(), START))}


def _nobody() -> dict[str, Any]:
    """Whether answers can run as nobody here: root can become so, and Python and its packages are there for all."""
    if os.geteuid() != 0:
        return {"can": False}
    cage.become_nobody(tempfile.mkdtemp())  # it goes with the folder of all judges
    return {"can": all(os.access(path, os.R_OK) for path in cage.readable())}


_PROBES: Final = {"cage": _held, "nobody": _nobody}


def _judge(message: dict[str, Any]) -> dict[str, Any]:
    packed = Packed(**{**message["packed"], "body": base64.b64decode(message["packed"]["body"])})
    try:
        return {
            "report": judge(
                message["key"], packed, message["seed"], (), message["caged"], frozenset(message["passing_over"])
            )
        }
    except NotJudged as error:
        return {"why": str(error), "busy": error.busy}
    except Crowded:
        return {"why": "the machine was too busy", "busy": True}


def _limit_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
