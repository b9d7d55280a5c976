"""The judge: calls a learner's function with inputs nobody has seen, and says what is wrong with the first bad answer.

It runs in a process of its own, because whatever a notebook has done to numpy must not reach the verdict.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Sequence
from random import Random
from typing import Any

from gpipe_edu.process import plain
from gpipe_edu.process.child import command
from gpipe_edu.process.lines import Line
from gpipe_edu.process.packing import Packed

from .exercise import find
from .exercise.case import Exam, Sign, Wrong
from .findings import Chart, Finding, Report, Success, Unwritten
from .in_place import InPlace
from .sandbox import Sandbox, Trouble

STRICT = False
"""In tests: an error of the judge's own is raised."""


def judge(
    key: str, packed: Packed, seed: int, path: Sequence[str] = (), asked: type[Sandbox | InPlace] = Sandbox
) -> Report:
    """Examine one function with the inputs of `seed`.

    path: where the learner's own modules are found. asked: what runs the function.
    """
    exercise = find(key)
    with asked(exercise.module, packed, exercise.seconds, path) as sandbox:
        exam = Exam(exercise, sandbox)
        finding, success, state = None, None, "wrong"
        try:
            success, state = exercise.check.examine(exam, Random(seed)), "passed"
        except Wrong as wrong:
            finding = wrong.finding
        except Unwritten:
            state = "unwritten"
        except Exception:  # an answer so strange that judging it failed is no right one, and no reason for a traceback
            if STRICT:
                raise
            finding = exam.case().wrong(Sign("strange")).finding
    return Report(exercise.key, state, seed, exam.calls, finding, success, sandbox.printed)


def judge_apart(key: str, packed: Packed, seed: int, path: Sequence[str] = ()) -> Report:
    """As `judge`, in a process of its own; in a browser, which has none, here."""
    if sys.platform == "emscripten":
        return judge(key, packed, seed, path, InPlace)
    body = base64.b64encode(packed.body).decode()
    message = {"key": key, "packed": {**packed._asdict(), "body": body}, "seed": seed, "path": list(path)}
    done = subprocess.run(command(__name__), input=json.dumps(message).encode(), capture_output=True, check=False)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"the check itself failed, and your answer was not judged: {' '.join(last)}")
    return unpack_report(plain.decode(done.stdout))


def main() -> None:
    """The judge's process: a message on standard input, the report on standard output."""
    message = json.loads(sys.stdin.buffer.read())
    packed = Packed(**{**message["packed"], "body": base64.b64decode(message["packed"]["body"])})
    report = judge(message["key"], packed, message["seed"], message["path"])
    sys.stdout.buffer.write(plain.encode(report))
    sys.stdout.flush()


def unpack_report(data: tuple[Any, ...]) -> Report:
    """A report from the tuples that it travelled as."""
    report = Report(*data)
    finding, success = report.finding, report.success
    if finding is not None:
        found = Finding(*finding)
        trouble = None
        if found.trouble is not None:
            trouble = Trouble(*found.trouble)
            trouble = trouble._replace(where=tuple(Line(*line) for line in trouble.where))
        finding = found._replace(charts=tuple(Chart(*chart) for chart in found.charts), trouble=trouble)
    if success is not None:
        words, charts = success
        success = Success(words, tuple(Chart(*chart) for chart in charts))
    return report._replace(finding=finding, success=success)
