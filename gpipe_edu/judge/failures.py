"""How a run of several processes that did not come to its end is judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from gpipe_edu.judge.findings import Trouble
from gpipe_edu.judge.guest.processes import Failure

from .case import Case, Signs


def judge_failure(case: Case, failure: Failure, about: Callable[[Trouble], Signs]) -> NoReturn:
    """Raise Wrong, Unwritten. about: what the exercise itself knows of such an error; else it is one like others."""
    where = case.exam.lines(failure.lines)
    trouble = Trouble(failure.kind, failure.message.partition("\n")[0], where)
    case.judge(about(trouble))
    if failure.reason == "late":
        trouble = Trouble("stopped", "", where, seconds=failure.seconds)
    if failure.reason in ("died", "exit"):
        trouble = Trouble("exit", failure.message, where)
    case.fail(trouble)
