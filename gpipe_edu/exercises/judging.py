"""The judge: calls a learner's function with new inputs, and says what is wrong with the first bad answer.

It runs in a process of its own, because what a notebook has done to NumPy must not reach the verdict.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from gpipe_edu.process import frames, orphans, plain
from gpipe_edu.process.child import Start, fresh
from gpipe_edu.process.enclosure import Enclosure
from gpipe_edu.process.limits import ENVIRONMENT
from gpipe_edu.process.lines import Line
from gpipe_edu.process.packing import Packed
from gpipe_edu.process.time_limit import is_stopped, wall
from gpipe_edu.sandbox.findings import Chart, Finding, Report, Success, Trouble, Unwritten
from gpipe_edu.sandbox.outside import START, Crowded, Sandbox
from gpipe_edu.sandbox.same_process import SameProcess

from . import Exercise, find_exercise
from .case import Exam, Sign, Wrong

_CROWDED: Final = 3
"""The exit status of a judge that could not judge because the machine was too busy."""

STRICT = False
"""In tests: an error of the judge's own is raised."""


class NotJudged(RuntimeError):
    """Nothing is known of an answer, for a reason that need not be the answer's. busy: it was the machine's."""

    def __init__(self, why: str, busy: bool = False) -> None:
        super().__init__(f"the check itself failed, and your answer was not judged: {why}")
        self.busy = busy


def judge(
    exercise: Exercise,
    packed: Packed,
    seed: int,
    path: Sequence[str] = (),
    *,
    enclosure: Enclosure | None = None,
    start: Start = fresh,
    passing_over: Collection[str] = (),
    same_process: bool = False,
) -> Report:
    """Examine one function with the inputs of `seed`. `path`: where the learner's own modules are found.

    enclosure: where the learner's process runs, if not as the learner. start: how it is started. passing_over: slips
    that do not end the exam; a report that is "passed" may have some. same_process: where there is no other, in a
    browser. Raises Crowded on a machine that is too busy, NotJudged where an enclosure would stand open.
    """
    asked = SameProcess if same_process else partial(Sandbox, enclosure=enclosure, start=start)
    with asked(exercise.module, packed, exercise.seconds, path) as sandbox:
        if isinstance(sandbox, Sandbox) and enclosure:
            missing = enclosure.missing(sandbox.held)
            if missing:
                raise NotJudged(f"the {enclosure.name} does not shut {' and '.join(missing)} here")
        exam = Exam(exercise, sandbox, passing_over, seed)
        finding, success, state = None, None, "wrong"
        try:
            success, state = exercise.check.examine(exam, Random(seed)), "passed"
        except Wrong as wrong:
            finding = wrong.finding
        except Unwritten:
            state = "unwritten"
        except Crowded:
            raise
        except Exception:  # an answer so strange that judging it failed is no right one, and no reason for a traceback
            if STRICT:
                raise
            finding = exam.case().wrong(Sign("strange")).finding
    over = tuple(exam.passed_over)
    return Report(exercise.key, state, seed, exam.calls, finding, success, sandbox.printed, over)


def judge_apart(exercise: Exercise, packed: Packed, seed: int, path: Sequence[str] = ()) -> Report:
    """As `judge`, in a process of its own; in a browser, which has none, here. Raises NotJudged."""
    if sys.platform == "emscripten":
        return judge(exercise, packed, seed, path, same_process=True)
    body = base64.b64encode(packed.body).decode()
    message = {"key": exercise.key, "packed": {**packed._asdict(), "body": body}, "seed": seed, "path": list(path)}
    with fresh(__name__, {**os.environ, **ENVIRONMENT}, session=False) as process:
        # `communicate` forgets what it has not written when its time is over: of a message that is longer than a pipe
        # holds, a judge that starts late would wait for the rest for ever.
        questions = frames.Sender(process.stdin)  # type: ignore[arg-type]  # it is a pipe
        process.stdin = None  # else `communicate` closes it
        questions.send(json.dumps(message).encode())
        questions.close()
        said, complaints = _waited_for(process, START + wall(exercise.seconds) + START)
    if process.returncode == _CROWDED:
        raise NotJudged("this machine is too busy. Try again when it has less to do", busy=True)
    if process.returncode:
        last = complaints.decode(errors="replace").strip().splitlines()[-1:]
        raise NotJudged(" ".join(last) or f"its process was ended by signal {-process.returncode}")
    return unpack_report(plain.decode(said))


def _waited_for(judge: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bytes]:
    """What a judge says and complains of; one that is late or was stopped is ended."""
    deadline, stopped = time.monotonic() + seconds, 0
    while True:
        try:
            return judge.communicate(timeout=0.5)
        except subprocess.TimeoutExpired:
            stopped = stopped + 1 if is_stopped(judge.pid) else 0
            if time.monotonic() > deadline or stopped > 1:  # once may be a Ctrl-Z in our terminal
                judge.kill()
                why = "its process was stopped" if stopped else "it did not come to an end"
                raise NotJudged(why, busy=not stopped) from None
        except BaseException:
            judge.kill()
            raise


def main() -> None:
    """The judge's process: a message on standard input, the report on standard output."""
    orphans.adopt()
    message = json.loads(frames.read(sys.stdin.buffer))
    packed = Packed(**{**message["packed"], "body": base64.b64decode(message["packed"]["body"])})
    try:
        report = judge(find_exercise(message["key"]), packed, message["seed"], message["path"])
    except Crowded:
        sys.exit(_CROWDED)
    finally:
        orphans.end()
    sys.stdout.buffer.write(plain.encode(report))
    sys.stdout.flush()


def unpack_report(data: tuple[Any, ...]) -> Report:
    """A report from the tuples that it travelled as."""
    report = Report(*data)
    finding, success = report.finding and _finding(report.finding), report.success
    if success is not None:
        words, charts = success
        success = Success(words, tuple(Chart(*chart) for chart in charts))
    return report._replace(finding=finding, success=success, passed_over=tuple(map(_finding, report.passed_over)))


def _finding(data: tuple[Any, ...]) -> Finding:
    found, trouble = Finding(*data), None
    if found.trouble is not None:
        trouble = Trouble(*found.trouble)
        trouble = trouble._replace(where=tuple(Line(*line) for line in trouble.where))
    return found._replace(charts=tuple(Chart(*chart) for chart in found.charts), trouble=trouble)
