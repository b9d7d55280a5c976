"""A process that judges one answer after another, each in a process forked from it, so that imports are done once.

It reads a message and answers with the report, or with the reason why there is none. Every process that an answer has
started is killed before the next message is read, and also if the grader goes away in between.
"""

from __future__ import annotations

import base64
import os
import select
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from typing import Any, BinaryIO, Final

from gpipe_edu.exercises import all_exercises, find_exercise
from gpipe_edu.exercises.judging import NotJudged, judge
from gpipe_edu.process import forked, frames, namespaces, orphans, plain
from gpipe_edu.process.enclosure import CAGE, Enclosure
from gpipe_edu.process.packing import Packed
from gpipe_edu.process.time_limit import wall
from gpipe_edu.sandbox.outside import START, Crowded

_LARGEST: Final = 20_000_000
"""Bytes of a report."""

_MEMORY: Final = 6 * 2**30
"""Bytes of memory for the judge, which reads the answer's output."""


def main(enclosure: Enclosure = CAGE) -> None:
    """Judge, with answers in `enclosure`, until the pipe to the grader is closed."""
    orphans.adopt()
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    with suppress(EOFError, OSError):
        while True:
            message = plain.decode(frames.read(questions))
            if "probe" in message:
                frames.write(answers, plain.encode(_apart(message, 2 * START, questions, enclosure)))
                continue
            exercise = find_exercise(message["key"])
            _ = exercise.harness, exercise.check
            seconds = wall(exercise.seconds) + 2 * START
            frames.write(answers, plain.encode(_apart(message, seconds, questions, enclosure)))
            namespaces.die_with_parent()  # what follows may take seconds, and there is nothing to kill now
            _load()  # only now, so that the first answer waits only for what it needs
            exercise.load()  # PyTorch not before it is needed: each fork takes longer for it
            namespaces.outlive_parent()


@cache
def _load() -> None:
    """Import once what answers and judges need."""
    import gpipe_edu.distributed.rank
    import gpipe_edu.reference  # noqa: F401

    for exercise in all_exercises().values():
        _ = exercise.harness, exercise.check


def _apart(message: dict[str, Any], seconds: float, asker: BinaryIO, enclosure: Enclosure) -> dict[str, Any]:
    """{"report": ...}, {"held": ...}, or {"why": ..., "busy": whether it was the machine's fault}."""
    reading, writing = os.pipe()
    pid = forked.fork()
    if pid == 0:
        os.close(reading)
        _do(message, writing, enclosure)
    os.close(writing)
    try:
        data = _until(reading, seconds, asker)
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


def _until(reading: int, seconds: float, asker: BinaryIO) -> bytes | None:
    """All that is written until the pipe is closed; None if it takes too long, is too much, or the grader has gone."""
    deadline, data = time.monotonic() + seconds, b""
    while (left := deadline - time.monotonic()) > 0 and len(data) < _LARGEST:
        ready = select.select([reading, asker.fileno()], [], [], left)[0]
        if asker.fileno() in ready:  # the grader sends nothing while it waits: it has closed the pipe
            return None
        if ready:
            piece = os.read(reading, 2**16)
            if not piece:
                return data
            data += piece
    return None


def _do(message: dict[str, Any], writing: int, enclosure: Enclosure) -> None:
    """In the forked process: judge, and write the result to the pipe."""
    try:
        namespaces.die_with_parent()
        if "probe" in message:
            apart = enclosure.separate()
            held = enclosure.enter(tempfile.mkdtemp(), START, False)
            found: dict[str, Any] = {"held": tuple(held._replace(processes=apart))}
        elif message["apart"] and not enclosure.separate():
            found = {"why": "the system allows no process namespace any more", "busy": True}
        else:
            orphans.adopt()
            _limit_memory()
            found = _judge(message, enclosure if message["caged"] else None)
            orphans.end()
        data = plain.encode(found)
        while data:
            data = data[os.write(writing, data) :]
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def _judge(message: dict[str, Any], enclosure: Enclosure | None) -> dict[str, Any]:
    packed = Packed(**{**message["packed"], "body": base64.b64decode(message["packed"]["body"])})
    try:
        report = judge(
            find_exercise(message["key"]),
            packed,
            message["seed"],
            enclosure=enclosure,
            start=forked.start,
            passing_over=frozenset(message["passing_over"]),
        )
        return {"report": report}
    except NotJudged as error:
        return {"why": str(error), "busy": error.busy}
    except Crowded:
        return {"why": "the machine was too busy", "busy": True}


def _limit_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
