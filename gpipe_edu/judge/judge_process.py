"""The judge's process, as the learner's sees it. It is kept between two checks, with what answers load already loaded.

It never runs a learner's code: on Linux, each answer is judged in a process forked from it; elsewhere the answer's own
process is a fresh one.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import queue
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final

from gpipe_edu.judge.findings import Report
from gpipe_edu.judge.host import START, MachineBusy
from gpipe_edu.process import forked, orphans, plain
from gpipe_edu.process.child import Child
from gpipe_edu.process.packing import Packed
from gpipe_edu.process.parent import Parent
from gpipe_edu.process.time_limit import is_stopped, wall

from .exercise import Exercise, find_exercise
from .judging import NotJudged, judge, unpack_report

_LOOK: Final = 0.5
"""Seconds between two looks whether a judge was stopped. Once may be a Ctrl-Z in our terminal."""

_idle: list[JudgeProcess] = []
"""Those that wait for the next check."""


def judge_apart(
    exercise: Exercise,
    packed: Packed,
    seed: int,
    path: Sequence[str] = (),
    tell: Callable[[int], None] | None = None,
) -> Report:
    """As `judge`, in a process of its own; in a browser, which has none, here. Raises NotJudged."""
    if sys.platform == "emscripten":
        return judge(exercise, packed, seed, path, same_process=True, tell=tell)
    message = {"key": exercise.key, "packed": packed.as_message(), "seed": seed, "path": list(path)}
    process = _take()
    try:
        report = process.ask({**message, "folder": os.getcwd()}, START + wall(exercise.seconds) + START, tell)
    except BaseException:
        process.close()
        raise
    _idle.append(process)
    return report


def close_idle() -> None:
    """End the processes that wait for another check."""
    while _idle:
        _idle.pop().close()


def _take() -> JudgeProcess:
    """One that waits, if it still fits: what a program was started with is part of how it behaves."""
    while _idle:
        process = _idle.pop()
        if process.fits:
            return process
        process.close()
    return JudgeProcess()


class JudgeProcess:
    """A process that judges one answer after another."""

    def __init__(self) -> None:
        self._replies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._environment = dict(os.environ)
        self._child = Child(__name__, self._replies.put, session=False)

    @property
    def fits(self) -> bool:
        """Whether one that is started now would be the same."""
        return not self._child.ended and self._environment == dict(os.environ)

    def ask(self, message: dict[str, Any], seconds: float, tell: Callable[[int], None] | None) -> Report:
        """The report. Raises NotJudged."""
        self._child.send(json.dumps(message).encode())
        deadline, stopped = time.monotonic() + seconds, 0
        while True:
            try:
                data = self._replies.get(timeout=_LOOK)
            except queue.Empty:
                stopped = stopped + 1 if is_stopped(self._child.pid) else 0
                if stopped > 1:
                    raise NotJudged("its process was stopped") from None
                if time.monotonic() > deadline:
                    raise NotJudged("it did not come to an end", busy=True) from None
                continue
            if data is None:
                status = self._child.status()
                raise NotJudged(_end_by(status) if status < 0 else self._child.last_line())
            found = plain.decode(data)
            if "report" in found:
                return unpack_report(found["report"])
            if "why" in found:
                raise NotJudged(found["why"], found["busy"])
            if tell:
                tell(found["case"])

    def close(self) -> None:
        """End it."""
        self._child.close()


def _end_by(status: int) -> str:
    return f"its process was ended by signal {-status}"


def main() -> None:
    """The judge's process: for each message some numbers of cases, then the report, until nobody asks any more."""
    orphans.adopt()
    parent = Parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks is interrupted, too, and ends us
    while True:
        message = json.loads(parent.hear())
        if sys.platform == "linux":
            _judge_forked(parent, message)
        else:
            found = _judge(parent, message)
            orphans.end()  # before anybody hears of the verdict, and may end us
            parent.say(plain.encode(found))
        _load(message["key"])  # for the next one, while this answer is being changed


def _judge(parent: Parent, message: dict[str, Any], **how: Any) -> dict[str, Any]:
    packed = Packed.from_message(message["packed"])

    def tell(case: int) -> None:
        parent.say(plain.encode({"case": case}))

    try:
        report = judge(find_exercise(message["key"]), packed, message["seed"], message["path"], tell=tell, **how)
    except MachineBusy as error:
        return {"why": f"{error or 'this machine is too busy'}. Try again when it has less to do", "busy": True}
    except NotJudged as error:
        return {"why": error.why, "busy": error.busy}
    except Exception as error:  # of the judge's own
        return {"why": f"{type(error).__name__}: {error}", "busy": False}
    return {"report": report}


def _judge_forked(parent: Parent, message: dict[str, Any]) -> None:
    """Judge in a forked process, as that of the answer then is, too: with nothing left to import."""
    pid = forked.fork()
    if pid == 0:
        status = 1
        try:
            orphans.die_with_parent()
            orphans.adopt()
            with suppress(OSError):
                os.chdir(message["folder"])
            importlib.invalidate_caches()
            found = _judge(parent, message, start=forked.start)
            orphans.end()  # before anybody hears of the verdict, and may end us
            parent.say(plain.encode(found))
            status = 0
        finally:
            os._exit(status)
    why = _wait(pid)
    orphans.end()
    if why:
        parent.say(plain.encode({"why": why, "busy": False}))


def _wait(pid: int) -> str:
    """Wait for the end of a forked judge. Returns why it has not said what it found; "" if it has."""
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            code = os.waitstatus_to_exitcode(status)
            return _end_by(code) if code < 0 else "it came to an end without a verdict" if code else ""
        time.sleep(_LOOK)
        if is_stopped(pid):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "its process was stopped"


@cache
def _load(key: str) -> None:
    """Import what judges of this exercise and its answers' processes need."""
    find_exercise(key).load()
    gc.collect()
    gc.freeze()  # else the collector of each forked process goes through all of it, and copies its pages
