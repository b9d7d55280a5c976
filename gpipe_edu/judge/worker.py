"""A process that judges one answer after another, and keeps what judges and answers load. `pool.py` asks it.

It never runs a learner's code. On Linux each answer is judged in a process forked from it, and the answer's own process
is forked, too, or started in a sandbox that this process controls, a new one for each student; elsewhere
the answer's process is a fresh one. Every process that an answer has started is killed before the report is told, and
also if the asking process goes away in between.
"""

from __future__ import annotations

import importlib
import os
import select
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import cache, partial
from typing import Any, BinaryIO, Final

from gpipe_edu.process import bubblewrap, fork_server, frames, orphans, plain
from gpipe_edu.process.child import Start, fresh
from gpipe_edu.process.enclosure import CONTAINER, ENCLOSURES, SANDBOX
from gpipe_edu.process.packing import Packed
from gpipe_edu.process.parent import Parent
from gpipe_edu.process.resource_limits import limit_memory
from gpipe_edu.process.time_limit import is_stopped

from .exercise import Exercise, find_exercise
from .judging import NotJudged, judge
from .learner_process import FOLDERS, MachineBusy, probe

LOOK: Final = 0.5
"""Seconds between two checks for a stopped process. A single hit may be a Ctrl-Z in somebody's terminal."""

STOPPED: Final = "its process was stopped"

_LARGEST: Final = 20_000_000
"""Bytes of a report."""

_MEMORY: Final = 6 * 2**30
"""Bytes of memory for the judge, which reads the answer's output."""


def main() -> None:
    """Answer each message with the numbers of the cases, then what was found, until nobody asks any more."""
    orphans.adopt()
    parent = Parent()
    if sys.platform == "win32":  # no sessions there: Ctrl-C reaches the asking process, too, which ends us
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, OSError), closing(_OwnSandbox()) as sandbox:
        while True:
            message = plain.decode(frames.read(parent.pipe))
            found = _answer(parent, message, sandbox)
            parent.say(plain.encode(found | {"last": _something_is_left(message["enclosure"])}))


def ended_by(status: int) -> str:
    """What is said of a process with this exit status, where it has found nothing."""
    return f"its process was ended by signal {-status}" if status < 0 else "it came to an end without a verdict"


class _OwnSandbox:
    """The sandbox of the student whose answers are being judged. The next student, or a next try, gets a new one."""

    def __init__(self) -> None:
        self._server: fork_server.ForkServer | None = None
        self._whose: Any = None

    def start_for(self, whose: Any, modules: Sequence[str]) -> Start:
        """How to start a process for this student's answers. Raises OSError, with a sentence, if that can't be done."""
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


def _something_is_left(enclosure: str | None) -> bool:
    """Whether an answer has left in a container what can't be deleted, so that it must be the last one there."""
    return enclosure == CONTAINER.name and any(name.startswith(FOLDERS) for name in os.listdir(tempfile.gettempdir()))


def _needed(exercise: Exercise | None) -> list[str]:
    """What answers need, and nothing of the judges. PyTorch only where it is needed: each fork takes longer with it."""
    needed = ["gpipe_edu.judge.guest.main", "gpipe_edu.distributed.rank", "gpipe_edu.reference"]
    if exercise:
        needed.append(exercise.module)
    if exercise and exercise.needs_torch:
        needed.append("gpipe_edu.judge.guest.with_pytorch")
    return needed


@cache
def _load(key: str) -> None:
    """Import what this exercise's judge needs, and what its answers need, as both are forked from this process."""
    exercise = find_exercise(key)
    orphans.die_with_parent()  # loading may take seconds, in which nobody checks if the asking process has gone
    try:
        fork_server.load([*_needed(exercise), exercise.check.__name__])
    finally:
        orphans.outlive_parent()


def _answer(parent: Parent, message: dict[str, Any], sandbox: _OwnSandbox) -> dict[str, Any]:
    """{"report": ...}, {"held": ...}, {"busy": what the machine could not do}, or {"why": there is none, "again":
    whether it is worth asking again}.
    """
    exercise = find_exercise(message["key"]) if "key" in message else None
    try:
        if sys.platform != "linux":
            return _found(message, fresh, parent.say)
        if exercise:
            _load(exercise.key)
        if message["enclosure"] != SANDBOX.name:
            return _apart(parent, message, fork_server.start)
        found = _apart(parent, message, sandbox.start_for(message["student"], _needed(exercise)))
    except OSError as error:  # such as that of a sandbox which does not start
        sandbox.close()
        return {"why": str(error), "again": True}
    except Exception as error:  # of a check that can't be imported
        return {"why": f"{type(error).__name__}: {error}", "again": False}
    if "busy" in found or found.get("again"):
        sandbox.close()
    else:
        sandbox.tidy()
    return found


def _apart(parent: Parent, message: dict[str, Any], start: Start) -> dict[str, Any]:
    """The same, by a process forked from this one."""
    pid, pipe = fork_server.piped(partial(_do, message, start))
    with pipe:
        found = _hear(parent, pid, pipe)
    if found is not None:  # else it has ended, or is about to
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if start is fork_server.start:
        orphans.end()
    return found or {"why": ended_by(status), "again": True}


def _hear(parent: Parent, pid: int, pipe: BinaryIO) -> dict[str, Any] | None:
    """What a judge has found, passing on its cases; None if it has ended before."""
    stopped = 0
    with suppress(EOFError, frames.TooLong):
        while stopped < 2:
            ready = select.select([parent.pipe, pipe], [], [], LOOK)[0]
            if parent.pipe in ready:  # the asking process says nothing while it waits: it has gone
                return {"why": "nobody asks any more", "again": False}
            if not ready:
                stopped = stopped + 1 if is_stopped(pid) else 0
                continue
            found: dict[str, Any] = plain.decode(frames.read(pipe, _LARGEST))
            if "case" not in found:
                return found
            parent.say(plain.encode(found))
        return {"why": STOPPED, "again": True}
    return None


def _do(message: dict[str, Any], start: Start, pipe: BinaryIO) -> None:
    """In the forked process: judge, and write the result to the pipe."""
    orphans.adopt()
    limit_memory(_MEMORY)
    found = _found(message, start, partial(frames.write, pipe))
    orphans.end()  # before anybody hears of the verdict
    frames.write(pipe, plain.encode(found))


def _found(message: dict[str, Any], start: Start, say: Callable[[bytes], None]) -> dict[str, Any]:
    enclosure = ENCLOSURES.get(message["enclosure"])
    try:
        if enclosure and "key" not in message:
            return {"held": tuple(probe(enclosure, start))}
        with suppress(OSError):
            os.chdir(message["folder"])
        importlib.invalidate_caches()
        report = judge(
            find_exercise(message["key"])._replace(seconds=message["seconds"]),
            Packed.from_message(message["packed"]),
            message["seed"],
            message["path"],
            enclosure=enclosure,
            start=start,
            tell=lambda case, call: say(plain.encode({"case": case, "call": call})),
        )
    except MachineBusy as error:
        return {"busy": str(error)}
    except NotJudged as error:
        return {"why": error.why, "again": False}
    except OSError as error:  # such as that of a sandbox which has ended
        return {"why": str(error), "again": True}
    except Exception as error:  # of the judge's own
        return {"why": f"{type(error).__name__}: {error}", "again": False}
    return {"report": report}
