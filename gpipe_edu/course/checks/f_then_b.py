"""Exercise 02, second part: every forward, then every backward, as a schedule that runs.

Any order of the backwards is right that does not make the step longer: the paper's, the opposite one, or another.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from gpipe_edu import Costs, Op, Schedule, formulas, gpipe, simulate
from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.task import Blame, Chart, Finding, Success, Task, Wrong

from .schedules import difference, gradient_error, judge_legal, rows_of

TASK: Final = Task(
    key="02-f-then-b",
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

HIDDEN: Final = {f"gpipe_edu{module}.gpipe": TASK.function for module in ("", ".schedule", ".schedule.recipes")}


def perform(f_then_b: Any, K: int, M: int) -> Any:
    """The rows, as lists even where they are generators."""
    found = f_then_b(K, M)
    if isinstance(found, str | dict | Schedule | Op) or not hasattr(found, "__iter__"):
        return found
    loose = [row if isinstance(row, str | dict | Op) or not hasattr(row, "__iter__") else list(row) for row in found]
    return tuple(loose) if isinstance(found, tuple) and not isinstance(found, list) else loose


def examine(examiner: Examiner, rng: Random) -> Success:
    """Small and random sizes; then the digits are trained with some of them."""
    small = [(3, 4), (2, 3), (1, 2), (4, 1), (1, 1), (4, 2)]
    error = 0.0
    for K, M in small + [(rng.randint(1, 6), rng.randint(1, 8)) for _ in range(15)]:
        schedule = _judge(examiner, K, M)
        if K * M <= 12:
            error = max(error, gradient_error(schedule, rng))
    if error > 1e-10:
        because = "The schedule runs, but the gradients are not those of one device."
        raise Wrong(Finding("other-gradient", because))
    schedule = _judge(examiner, 4, 6)
    words = (
        f"Your schedules trained the digits on the reference engine: gradients differ from those of one device by at "
        f"most {error:.0e}, which is rounding. Below, the plan of the one for 4 devices and 6 micro-batches."
    )
    return Success(words, (Chart("your F-then-B", str(schedule)),))


def _judge(examiner: Examiner, K: int, M: int) -> Schedule:
    call = f"f_then_b(K={K}, M={M})"
    value = examiner.ask(call, K=K, M=M)
    right = gpipe(K, M)
    schedule = rows_of(value, call)

    def wrong(slip: str, because: str, first: str = "") -> Wrong:
        charts = Chart("yours", str(schedule)), Chart("F-then-B", str(right))
        first = first or difference(schedule, right)
        return Wrong(Finding(slip, because, call, str(right), str(schedule), first, charts))

    _judge_numbers(schedule, K, M, wrong)
    judge_legal(schedule, call, right)
    for device, row in enumerate(schedule.rows):
        if row[0].stage != device:
            raise wrong(
                "upside-down", "Row k belongs to device k, which holds stage k: your rows are in another order."
            )
        kinds = "".join(op.kind for op in row)
        if set(kinds) != {"F", "B"}:
            raise wrong("other-kinds", "F-then-B has only forwards F and backwards B.")
        if "BF" in kinds:
            if device == K - 1 and all("BF" not in "".join(op.kind for op in other) for other in schedule.rows[:-1]):
                because = (
                    "The last device could go back at once, and 1F1B does so. In F-then-B it, too, finishes all its "
                    "forwards first."
                )
                raise wrong("last-at-once", because)
            if all(len(other) < 2 or other[1].kind == "B" for other in schedule.rows):
                because = "Each micro-batch goes back before the next goes forward: one device works, the others wait."
                raise wrong("naive", because)
            raise wrong("mixed-order", "A backward stands before a forward: in F-then-B, all forwards come first.")
    makespan = simulate(schedule, Costs(F=1, B=2)).makespan
    best = formulas.makespan(K, M, 1, 2)
    if makespan > best:
        orders = {tuple(op.micro_batch for op in row if op.kind == "F") for row in schedule.rows}
        slip, which = ("forward-orders", "forwards") if len(orders) > 1 else ("backward-orders", "backwards")
        because = (
            f"It runs, but devices take their {which} in different orders, so that they wait for each other: "
            f"{makespan:g} units instead of {best:g} (F = 1, B = 2)."
        )
        raise wrong(slip, because)
    return schedule


def _judge_numbers(schedule: Schedule, K: int, M: int, wrong: Blame) -> None:
    ops = [op for row in schedule.rows for op in row]
    if schedule.devices == M != K and all(len({op.micro_batch for op in row}) == 1 for row in schedule.rows):
        raise wrong("by-micro-batch", "There is a row for each micro-batch. A row is what one *device* runs.")
    if schedule.devices != K:
        raise wrong("rows", f"There are {schedule.devices} rows, but {K} devices.")
    if ops and {op.stage for op in ops} == {0} and K > 1:
        raise wrong(
            "stage-zero", "Every op says stage 0. The third entry of an op is its stage, here the device's number."
        )
    swapped = all(op.micro_batch == device for device, row in enumerate(schedule.rows) for op in row)
    if ops and swapped and K > 1 and schedule.stages == M:
        raise wrong("swapped", "Micro-batch and stage are the wrong way round: `ge.Op(kind, micro_batch, stage)`.")
    homes = [{op.stage for op in row if op.kind == kind} for kind in "FB" for row in schedule.rows]
    if K > 1 and homes == [{k} for k in range(K)] + [{K - 1 - k} for k in range(K)]:
        because = (
            "The backwards are on the wrong devices: going back, a micro-batch meets the stages in reverse order by "
            "itself, because each waits for the gradient. Device k still runs stage k, where the weights are."
        )
        raise wrong("mirrored", because)
    without = sorted((op.micro_batch, op.stage) for op in ops if op.kind == "B")
    if M > 1 and without == sorted((m, k) for m in range(1, M) for k in range(K)):
        because = "The backward of micro-batch 0 is missing on every device: where does your range stop?"
        raise wrong("stops-at-one", because)
    if schedule.micro_batches != M:
        because = f"There are {M} micro-batches, 0 to {M - 1}; the ops name {schedule.micro_batches}."
        raise wrong("other-M", because)
