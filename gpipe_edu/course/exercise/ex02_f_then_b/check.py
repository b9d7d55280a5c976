"""Exercise 02, second part: every forward, then every backward, as a schedule that runs.

Any order of the backwards is right that does not make the step longer: the paper's, the opposite one, or another.
"""

from __future__ import annotations

from random import Random
from typing import Final

from gpipe_edu import Costs, Op, Schedule, formulas, gpipe, simulate
from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.task import Chart, Success, Task, Wrong

from .schedules import Answer, ask, judge_legal, judge_places, train_with
from .schedules import perform as perform
from .sizes import judge_size

TASK: Final = Task(
    key="ex02/f-then-b",
    function="f_then_b",
    title="F-then-B, GPipe's schedule",
    notebook="exercise_02_clock",
    hints=(
        "The rule is the same for every device, so write the row of device k first, and then a list of K such rows.",
        "A row has 2 M ops: a loop over the micro-batches makes the forwards, another one the backwards. Device k runs "
        'stage k, so every op of its row ends in k: `ge.Op("F", m, k)`.',
        "`reversed(range(M))` counts M - 1, ..., 1, 0, with both ends. `range(M - 1, 0, -1)` stops at 1, and a "
        "backward is missing.",
    ),
)

HIDDEN: Final = {"gpipe_edu.gpipe": TASK.function}


def examine(examiner: Examiner, rng: Random) -> Success:
    """Small and random sizes; then the digits are trained with some of them."""
    sizes = [(3, 4), (2, 3), (1, 2), (4, 1), (1, 1), (4, 2)]
    sizes += [(rng.randint(1, 6), rng.randint(1, 8)) for _ in range(15)]
    error = train_with(lambda K, M: _judge(examiner, K, M), sizes, rng)
    words = (
        f"Your schedules trained the digits on the reference engine: gradients differ from those of one device by at "
        f"most {error:.0e}, which is rounding. Below, the plan of the one for 4 devices and 6 micro-batches."
    )
    return Success(words, (Chart("your F-then-B", str(_judge(examiner, 4, 6))),))


def _judge(examiner: Examiner, K: int, M: int) -> Schedule:
    answer = ask(examiner, TASK.function, K, M, gpipe(K, M), "F-then-B")
    judge_size(answer)
    _judge_beliefs(answer)
    judge_legal(answer)
    judge_places(answer)
    if any(set(row) != {"F", "B"} for row in answer.kinds):
        raise answer.wrong("other-kinds", "F-then-B has only forwards F and backwards B.")
    if any("BF" in row for row in answer.kinds):
        raise _mixed(answer)
    makespan, best = _makespan(answer.schedule), formulas.makespan(K, M, 1, 2)
    if makespan > best:
        in_order = [sorted(row[:M]) + list(row[M:]) for row in answer.schedule.rows]
        helps = _makespan(Schedule(in_order)) < makespan
        slip, which = ("forward-orders", "forwards") if helps else ("backward-orders", "backwards")
        because = (
            f"It runs, but devices take their {which} in different orders, so that they wait for each other: "
            f"{makespan:g} units instead of {best:g} (F = 1, B = 2)."
        )
        raise answer.wrong(slip, because)
    return answer.schedule


def _makespan(schedule: Schedule) -> float:
    return simulate(schedule, Costs(F=1, B=2)).makespan


def _mixed(answer: Answer) -> Wrong:
    if all("BF" not in row for row in answer.kinds[:-1]):
        because = (
            "The last device could go back at once, and 1F1B does so. In F-then-B it, too, finishes all its forwards "
            "first."
        )
        return answer.wrong("last-at-once", because)
    if all(row == "FB" * answer.M for row in answer.kinds):
        because = "Each micro-batch goes back before the next goes forward: one device works, the others wait."
        return answer.wrong("naive", because)
    return answer.wrong("mixed-order", "A backward stands before a forward: in F-then-B, all forwards come first.")


def _judge_beliefs(answer: Answer) -> None:
    """What is wrong in every row alike says more than the first rule that it breaks."""
    K, M, ops, rows = answer.K, answer.M, answer.ops, answer.schedule.rows
    if K == 1:
        return
    homes = [{op.stage for op in row if op.kind == kind} for kind in "FB" for row in rows]
    if homes == [{k} for k in range(K)] + [{K - 1 - k} for k in range(K)]:
        because = (
            "The backwards are on the wrong devices: going back, a micro-batch meets the stages in reverse order by "
            "itself, because each waits for the gradient. Device k still runs stage k, where the weights are."
        )
        raise answer.wrong("mirrored", because)
    if M > 1 and {(m, k) for m in range(M) for k in range(K)} - _cells(ops, "B") == {(0, k) for k in range(K)}:
        because = "The backward of micro-batch 0 is missing on every device: where does your range stop?"
        raise answer.wrong("stops-at-one", because)


def _cells(ops: list[Op], kind: str) -> set[tuple[int, int]]:
    return {(op.micro_batch, op.stage) for op in ops if op.kind == kind}
