"""Exercise 09, first part: F-then-B in which every micro-batch is recomputed, early and one at a time."""

from __future__ import annotations

from random import Random
from typing import Final

from gpipe_edu import Costs, Schedule, formulas, gpipe, simulate
from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.task import Chart, Success, Task, Wrong
from gpipe_edu.timeline.memory import peak_memory

from .schedules import Answer, ask, judge_legal, judge_places, train_with
from .schedules import perform as perform
from .sizes import judge_size

TASK: Final = Task(
    key="ex09/early",
    function="early",
    title="Recompute early, in the bubble",
    notebook="exercise_09_recompute",
    hints=(
        "Start from F-then-B, device k: F0 ... F(M-1), then the backwards. Every backward needs the activations that "
        "its own R brings back. Where does the R go in the row?",
        "A row has 3 M ops. If all R's come first, all activations are back at once, and nothing was saved. So each R "
        "stands as near before its B as it can.",
        "Forwards, then for m = M - 1 ... 0: R, then B of the same m. The chart shows the rest: the device runs the R "
        "while the gradient is still on its way.",
    ),
)

HIDDEN: Final = dict.fromkeys(("gpipe_edu.gpipe", "gpipe_edu.schedule.recompute.with_recompute"), TASK.function)


def examine(examiner: Examiner, rng: Random) -> Success:
    """Small and random sizes; the digits are trained with some of them."""
    sizes = [(3, 4), (2, 3), (4, 2), (1, 3), (3, 1), (1, 1)]
    sizes += [(rng.randint(1, 6), rng.randint(1, 8)) for _ in range(12)]
    error = train_with(lambda K, M: _judge(examiner, K, M), sizes, rng)
    schedule = _judge(examiner, 4, 6)
    late = gpipe(4, 6, "late")
    words = (
        f"Your schedules trained the digits: gradients differ from one device's by at most {error:.0e}. "
        f"For K = 4 and M = 6, early recompute takes {simulate(schedule).makespan:g} units and late "
        f"{simulate(late).makespan:g}: on K - 1 = 3 devices one recompute fits into the wait."
    )
    return Success(words, (Chart("your early recompute", str(schedule)), Chart("late recompute", str(late))))


def _judge(examiner: Examiner, K: int, M: int) -> Schedule:
    answer = ask(examiner, TASK.function, K, M, gpipe(K, M, "early"), "early")
    judge_size(answer)
    _judge_recomputes(answer)
    judge_legal(answer)
    judge_places(answer)
    if any("BF" in row.replace("R", "") for row in answer.kinds):
        raise answer.wrong("mixed-order", "F-then-B: all forwards of a device come before its first backward.")
    held = max(peak_memory(simulate(answer.schedule)))
    if held > 1:
        raise _held(answer, f"a device holds the activations of {held:g} micro-batches at once")
    for F, R, B in ((1, 1, 2), (2, 2, 1), (1, 3, 2)):
        makespan = simulate(answer.schedule, Costs(F=F, R=R, B=B)).makespan
        best = formulas.makespan_early(K, M, F, B, R)
        if makespan > best:
            because = "It runs and saves the memory, but devices wait for each other: are their orders the same?"
            raise answer.wrong("too-slow", because, f"makespan {makespan:g} instead of {best:g}")
    return answer.schedule


def _held(answer: Answer, first: str) -> Wrong:
    M = answer.M
    if all(row == "FR" * M + "B" * M for row in answer.kinds):
        because = (
            "Recomputed right after its forward, a micro-batch holds its activations until its backward, as if "
            "nothing had been thrown away."
        )
        return answer.wrong("at-once", because, first)
    if all(row == "F" * M + "R" * M + "B" * M for row in answer.kinds):
        because = (
            "All recomputes come before the backwards, so all activations are there at once: the memory that was saved "
            "is needed after all. One R, its B, then the next R."
        )
        return answer.wrong("all-first", because, first)
    because = (
        "A recompute comes too soon: it brings activations back while those of another micro-batch are there. First "
        "all forwards, then one R, its B, and the next R."
    )
    return answer.wrong("two-at-once", because, first)


def _judge_recomputes(answer: Answer) -> None:
    """Whether every micro-batch is recomputed on every stage, and as an op of its own."""
    K, M = answer.K, answer.M
    there = {kind: {(op.micro_batch, op.stage) for op in answer.ops if op.kind == kind} for kind in "FRCB"}
    if there["C"] - there["R"] - there["B"]:
        because = (
            "C recomputes and goes back as one op, which waits for the gradient: that is late. R needs only what its "
            "own stage has kept, so write R and B."
        )
        raise answer.wrong("late", because)
    again = there["R"] | there["C"]
    spared = there["F"] - again
    if not again:
        because = "Nothing is recomputed: every micro-batch keeps its activations on every stage."
        raise answer.wrong("no-recompute", because)
    if K > 1 and spared == {(m, K - 1) for m in range(M)}:
        because = (
            "The last stage recomputes nothing. Its backwards, too, come after all its forwards, so it holds M "
            "micro-batches."
        )
        raise answer.wrong("last-stage-spared", because)
    if M > 1 and spared == {(M - 1, k) for k in range(K)}:
        because = (
            "Micro-batch M - 1 is not recomputed. That is clever, for its backward comes first, and engines offer it "
            'as "except last". Here every micro-batch is to be.'
        )
        raise answer.wrong("except-last", because)
    if spared & there["B"]:
        raise answer.wrong("some-spared", "Some micro-batches are not recomputed on some stage. Here all are.")
