"""The judge: calls a learner's function with inputs nobody has seen, and says what is wrong with the first bad answer.

It runs in a process of its own, because whatever a notebook has done to numpy must not reach the verdict.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final, NoReturn

from gpipe_edu.process import plain
from gpipe_edu.process.child import command
from gpipe_edu.process.lines import Line
from gpipe_edu.process.packing import Packed

from .sandbox import Reply, Sandbox, Trouble
from .task import Chart, Finding, Report, Success, Unwritten, Wrong, module_of

SLIPS: Final = {
    "no-return": "The function gave back `None`: is there a `return`, and does every way through it reach one?",
    "endless": "It was stopped after {} seconds: a loop that never ends, or a wait for something that never comes.",
    "printed": "It printed more than {}, and was stopped: is there a `print` in a loop that never ends?",
    "exit": "The function ended its own process. A function hands back its answer with `return`, and never exits.",
    "memory": "It asked for more memory than there is: does a loop append without end?",
    "arguments": "The function cannot be called this way. Keep the arguments of the stub: their names and their order.",
    "error": "Your own code stopped with an error.",
    "other-error": "You refuse it, but with {}; asked is ValueError. A caller catches what is promised, and no other.",
    "strange": "The answer has a form that can't be compared with anything. What does the docstring say it is?",
}
"""What can go wrong in any exercise."""

STRICT = False
"""In tests: an error of the judge's own is raised."""

Traps = Mapping[str, tuple[str, str]]
"""Errors that betray a misconception: type of the error -> (slip, because)."""


class Examiner:
    """Asks for answers on behalf of one task, and turns trouble into findings."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.calls = 0

    def ask(self, call: str, traps: Traps | None = None, **given: Any) -> Any:
        """The value for `given`; `call` is how a learner would write it. Raises Wrong, Unwritten."""
        answer = self.answer(**given)
        if answer.trouble:
            self.fail(answer.trouble, call, traps or {})
        if answer.value is None:
            raise Wrong(Finding("no-return", SLIPS["no-return"], call, came="None"))
        return answer.value

    def refuses(
        self, call: str, slip: str, because: str, shown: Callable[[Any], str] | None = None, **given: Any
    ) -> None:
        """Make sure that the function raises ValueError for `given`. Raises Wrong, Unwritten.

        shown: tells what the learner returned, where `perform` adds something to it.
        """
        answer = self.answer(**given)
        trouble = answer.trouble
        if trouble is None:
            raise Wrong(Finding(slip, because, call, "ValueError", (shown or _brief)(answer.value)))
        if "ValueError" not in trouble.bases:
            if trouble.kind in ("stopped", "printed", "ended", "exit", "unreadable"):
                self.fail(trouble, call, {})
            if _on_purpose(trouble):
                slip, because = "other-error", SLIPS["other-error"].format(trouble.kind)
            came = f"{trouble.kind}: {trouble.message}".rstrip(": ")
            raise Wrong(Finding(slip, because, call, "ValueError", came, trouble=trouble))

    def answer(self, **given: Any) -> Reply:
        """Whatever comes back. Raises Unwritten."""
        self.calls += 1
        answer = self._sandbox(**given)
        if answer.trouble and answer.trouble.kind == "NotImplementedError":
            raise Unwritten
        return answer

    def places(self, frames: Iterable[tuple[str, int, str]]) -> tuple[Line, ...]:
        """Those of `frames`, (file, line, function), that are in the learner's own code."""
        return self._sandbox.lines(frames)

    def fail(self, trouble: Trouble, call: str, traps: Traps) -> NoReturn:
        """Raise Wrong for an error of the learner's code."""
        slip, because = "error", SLIPS["error"]
        if trouble.kind in traps:
            slip, because = traps[trouble.kind]
        elif trouble.kind == "stopped":
            slip, because = "endless", SLIPS["endless"].format(f"{trouble.seconds:g}")
        elif trouble.kind == "printed":
            slip, because = "printed", SLIPS["printed"].format(trouble.message)
        elif trouble.kind in ("ended", "exit", "unreadable"):
            slip, because = "exit", SLIPS["exit"]
        elif trouble.kind == "MemoryError":
            slip, because = "memory", SLIPS["memory"]
        elif trouble.kind == "TypeError" and not trouble.where:
            slip, because = "arguments", SLIPS["arguments"]
        raise Wrong(Finding(slip, because, call, trouble=trouble))


def judge(key: str, packed: Packed, seed: int, path: Sequence[str] = ()) -> Report:
    """Examine one function with the inputs of `seed`. `path`: where the learner's own modules are found."""
    module = module_of(key)
    with Sandbox(module.__name__, packed, module.TASK.seconds, path) as sandbox:
        examiner = Examiner(sandbox)
        finding, success, state = None, None, "wrong"
        try:
            success, state = module.examine(examiner, Random(seed)), "passed"
        except Wrong as wrong:
            finding = wrong.finding
        except Unwritten:
            state = "unwritten"
        except Exception:  # an answer so strange that judging it failed is no right one, and no reason for a traceback
            if STRICT:
                raise
            finding = Finding("strange", SLIPS["strange"])
    return Report(key, state, seed, examiner.calls, finding, success, sandbox.printed)


def judge_apart(key: str, packed: Packed, seed: int, path: Sequence[str] = ()) -> Report:
    """As `judge`, in a process of its own."""
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


def _on_purpose(trouble: Trouble) -> bool:
    """Whether the learner's own code refused, with a `raise` or an `assert`; else something broke."""
    return bool(trouble.where) and re.search(r"\b(raise|assert)\b", trouble.where[-1].text) is not None


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
