"""A process that judges one answer after another, each in a process forked from it, so that imports are done once.

It reads a message and answers with the report, or with the reason why there is none, and whether it is to be asked
again. Answers run in a sandbox of which
this process holds the other end, a new one for each student. Every process that an answer has started is killed before
the next message is read, and also if the grader goes away in between.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cache, partial
from typing import Any, BinaryIO, Final

from gpipe_edu.judge.exercise import PYTORCH, all_exercises, find_exercise
from gpipe_edu.judge.host import FOLDERS, START, MachineBusy, probe
from gpipe_edu.judge.judging import NotJudged, judge
from gpipe_edu.process import bubblewrap, forked, frames, orphans, plain
from gpipe_edu.process.child import Start
from gpipe_edu.process.enclosure import CONTAINER, SANDBOX, Enclosure
from gpipe_edu.process.fork_server import ForkServer
from gpipe_edu.process.limits import limit_memory
from gpipe_edu.process.packing import Packed
from gpipe_edu.process.time_limit import wall

_LARGEST: Final = 20_000_000
"""Bytes of a report."""

_MEMORY: Final = 6 * 2**30
"""Bytes of memory for the judge, which reads the answer's output."""


def main(enclosure: Enclosure = SANDBOX) -> None:
    """Judge, with answers in `enclosure`, until the pipe to the grader is closed."""
    orphans.adopt()
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    with suppress(EOFError, OSError), closing(_OwnSandbox()) as sandbox:
        while True:
            message = plain.decode(frames.read(questions))
            answer = _answer(message, questions, enclosure, sandbox)
            frames.write(answers, plain.encode(answer | {"last": _something_is_left(enclosure)}))
            orphans.die_with_parent()  # what follows may take seconds, and there is nothing to kill now
            # Only now, so that the first answer waits only for what it needs.
            _load(_needed(message))
            orphans.outlive_parent()


class _OwnSandbox:
    """The sandbox of the student whose answers are being judged. The next student, or a next try, gets a new one."""

    def __init__(self) -> None:
        self._server: ForkServer | None = None
        self._whose: Any = None

    def start_for(self, whose: Any, modules: Sequence[str]) -> Start:
        """How a process of this student's answers is started. Raises OSError, with a sentence, where it can't be."""
        if self._server is None or whose != self._whose:
            self.close()
            self._server, self._whose = bubblewrap.start(), whose
        self._server.load(modules)
        return self._server.start

    def tidy(self) -> None:
        """End all that an answer has started, and delete its files."""
        try:
            if self._server is not None:
                self._server.end_all()
        except OSError:
            self.close()

    def close(self) -> None:
        """End it."""
        if self._server is not None:
            self._server.close()
        self._server = None


def _something_is_left(enclosure: Enclosure) -> bool:
    """Whether an answer has left in a container what can't be deleted, so that it has to be the last one there."""
    return enclosure is CONTAINER and any(name.startswith(FOLDERS) for name in os.listdir(tempfile.gettempdir()))


def _needed(message: dict[str, Any]) -> tuple[str, ...]:
    """What answers need, and nothing of the judges. PyTorch only where it is needed: each fork takes longer with it."""
    performing = (exercise.module for exercise in all_exercises().values())
    torch = (PYTORCH,) if "key" in message and find_exercise(message["key"]).needs_torch else ()
    return ("gpipe_edu.judge.guest.main", "gpipe_edu.distributed.rank", "gpipe_edu.reference", *performing, *torch)


@cache
def _load(modules: tuple[str, ...]) -> None:
    """Import once what judges need, and the answers that are forked from this process."""
    for module in modules:
        importlib.import_module(module)
    for exercise in all_exercises().values():
        _ = exercise.check


def _answer(message: dict[str, Any], asker: BinaryIO, enclosure: Enclosure, sandbox: _OwnSandbox) -> dict[str, Any]:
    """{"report": ...}, {"held": ...}, or {"why": ..., "busy": whether it was the machine's fault}."""
    seconds = 2 * START
    if "key" in message:
        exercise = find_exercise(message["key"])
        _ = exercise.perform, exercise.check
        seconds += wall(exercise.seconds)
    if enclosure is not SANDBOX or not message["confined"]:
        found = _apart(message, seconds, asker, enclosure, forked.start)
        orphans.end()
        return found
    try:
        start = sandbox.start_for(message["student"], _needed(message))
    except OSError as error:
        sandbox.close()
        return {"why": str(error), "busy": True}
    found = _apart(message, seconds, asker, enclosure, start)
    if found.get("busy"):
        sandbox.close()
    else:
        sandbox.tidy()
    return found


def _apart(
    message: dict[str, Any], seconds: float, asker: BinaryIO, enclosure: Enclosure, start: Start
) -> dict[str, Any]:
    """The same, by a process of its own."""
    pid, pipe = forked.piped(partial(_do, message, enclosure, start))
    try:
        with pipe:
            data = forked.read_all(pipe, seconds, _LARGEST, asker)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if data is None:
        return {"why": "the judge did not come to an end", "busy": True}
    try:
        found: dict[str, Any] = plain.decode(data)
        return found
    except ValueError:
        return {"why": "the judge's own process was ended, perhaps for want of memory", "busy": True}


def _do(message: dict[str, Any], enclosure: Enclosure, start: Start, pipe: BinaryIO) -> None:
    """In the forked process: judge, and write the result to the pipe."""
    try:
        orphans.adopt()
        if "probe" in message:
            found: dict[str, Any] = {"held": tuple(probe(enclosure, start))}
        else:
            limit_memory(_MEMORY)
            found = _judge(message, enclosure if message["confined"] else None, start)
        orphans.end()
        pipe.write(plain.encode(found))
    except BaseException:
        sys.excepthook(*sys.exc_info())


def _judge(message: dict[str, Any], enclosure: Enclosure | None, start: Start) -> dict[str, Any]:
    packed = Packed.from_message(message["packed"])
    try:
        report = judge(
            find_exercise(message["key"]),
            packed,
            message["seed"],
            enclosure=enclosure,
            start=start,
            passing_over=frozenset(message["passing_over"]),
        )
        return {"report": report}
    except NotJudged as error:
        return {"why": error.why, "busy": error.busy}
    except (MachineBusy, OSError) as error:  # such as that of a sandbox which has ended
        return {"why": str(error) or "the machine was too busy", "busy": True}
