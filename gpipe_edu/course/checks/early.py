"""Exercise 09, first part: F-then-B in which every micro-batch is recomputed, early and one at a time."""

from __future__ import annotations

from random import Random
from typing import Final

from gpipe_edu import Costs, Op, Schedule, formulas, gpipe, simulate
from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.task import Blame, Chart, Finding, Success, Task, Wrong
from gpipe_edu.timeline.memory import peak_memory

from .f_then_b import perform as perform
from .schedules import difference, gradient_error, judge_legal, rows_of

TASK: Final = Task(
    key="09-early",
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

HIDDEN: Final = {
    "gpipe_edu.gpipe": TASK.function,
    "gpipe_edu.schedule.gpipe": TASK.function,
    "gpipe_edu.schedule.recipes.gpipe": TASK.function,
    "gpipe_edu.schedule.recompute.with_recompute": TASK.function,
}


def examine(examiner: Examiner, rng: Random) -> Success:
    """Small and random sizes; the digits are trained with some of them."""
    small = [(3, 4), (2, 3), (4, 2), (1, 3), (3, 1), (1, 1)]
    error = 0.0
    for K, M in small + [(rng.randint(1, 6), rng.randint(1, 8)) for _ in range(12)]:
        schedule = _judge(examiner, K, M)
        if K * M <= 12:
            error = max(error, gradient_error(schedule, rng))
    if error > 1e-10:
        raise Wrong(Finding("other-gradient", "The schedule runs, but the gradients are not those of one device."))
    schedule = _judge(examiner, 4, 6)
    late = gpipe(4, 6, "late")
    words = (
        f"Your schedules trained the digits: gradients differ from one device's by at most {error:.0e}. "
        f"For K = 4 and M = 6, early recompute takes {simulate(schedule).makespan:g} units and late "
        f"{simulate(late).makespan:g}: on K - 1 = 3 devices one recompute fits into the wait."
    )
    return Success(words, (Chart("your early recompute", str(schedule)), Chart("late recompute", str(late))))


def _judge(examiner: Examiner, K: int, M: int) -> Schedule:
    call = f"early(K={K}, M={M})"
    schedule = rows_of(examiner.ask(call, K=K, M=M), call)
    right = gpipe(K, M, "early")

    def wrong(slip: str, because: str, first: str = "") -> Wrong:
        charts = Chart("yours", str(schedule)), Chart("early", str(right))
        first = first or difference(schedule, right)
        return Wrong(Finding(slip, because, call, str(right), str(schedule), first, charts))

    if schedule.devices != K:
        raise wrong("rows", f"There are {schedule.devices} rows, but {K} devices.")
    _judge_kinds(schedule, K, M, wrong)
    judge_legal(schedule, call, right)
    if (schedule.stages, schedule.micro_batches) != (K, M):
        raise wrong("other-M", f"There are {M} micro-batches, 0 to {M - 1}; the ops name {schedule.micro_batches}.")
    if any(row[0].stage != device for device, row in enumerate(schedule.rows)):
        raise wrong("upside-down", "Row k belongs to device k, which holds stage k: your rows are in another order.")
    timeline = simulate(schedule)
    held = max(peak_memory(timeline))
    if any("BF" in "".join(op.kind for op in row if op.kind != "R") for row in schedule.rows):
        raise wrong("mixed-order", "F-then-B: all forwards of a device come before its first backward.")
    if held > 1:
        first = f"a device holds the activations of {held:g} micro-batches at once"
        kinds = ["".join(op.kind for op in row) for row in schedule.rows]
        if all("FR" in row and row.startswith("FR") for row in kinds):
            because = (
                "Recomputed right after its forward, a micro-batch holds its activations until its backward, as if "
                "nothing had been thrown away."
            )
            raise wrong("at-once", because, first)
        because = (
            "All recomputes come before the backwards, so all activations are there at once: the memory that was saved "
            "is needed after all. One R, its B, then the next R."
        )
        raise wrong("all-first", because, first)
    for F, R, B in ((1, 1, 2), (2, 2, 1), (1, 3, 2)):
        makespan, best = simulate(schedule, Costs(F=F, R=R, B=B)).makespan, formulas.makespan_early(K, M, F, B, R)
        if makespan > best:
            because = "It runs and saves the memory, but devices wait for each other: are their orders the same?"
            raise wrong("too-slow", because, f"makespan {makespan:g} instead of {best:g}")
    return schedule


def _judge_kinds(schedule: Schedule, K: int, M: int, wrong: Blame) -> None:
    ops = [op for row in schedule.rows for op in row]
    if any(op.kind == "C" for op in ops) and not any(op.kind == "R" for op in ops):
        because = (
            "C recomputes and goes back as one op, which waits for the gradient: that is late. R needs only what its "
            "own stage has kept, so write R and B."
        )
        raise wrong("late", because)
    cells = {(op.micro_batch, op.stage) for op in ops if op.kind == "F"}
    again = {(op.micro_batch, op.stage) for op in ops if op.kind == "R"}
    spared = cells - again
    if not again:
        raise wrong("no-recompute", "Nothing is recomputed: every micro-batch keeps its activations on every stage.")
    if K > 1 and spared == {(m, K - 1) for m in range(M)}:
        because = (
            "The last stage recomputes nothing. Its backwards, too, come after all its forwards, so it holds M "
            "micro-batches."
        )
        raise wrong("last-stage-spared", because)
    if M > 1 and spared == {(M - 1, k) for k in range(K)}:
        because = (
            "Micro-batch M - 1 is not recomputed. That is clever, for its backward comes first, and engines offer it "
            'as "except last". Here every micro-batch is to be.'
        )
        raise wrong("except-last", because)
    if spared and {op for op in ops if op.kind == "B"} >= {Op("B", m, k) for m, k in spared}:
        raise wrong("some-spared", "Some micro-batches are not recomputed on some stage. Here all are.")
