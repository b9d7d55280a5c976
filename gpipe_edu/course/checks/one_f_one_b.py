"""Exercise 07: 1F1B, judged by what it promises: it alternates, holds few micro-batches, and takes no longer.

These promises, for every K and M and for several ratios of F and B, leave one schedule; how it is made is free.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Final

from gpipe_edu import Costs, Op, Schedule, formulas, gpipe, simulate
from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.task import Blame, Chart, Finding, Success, Task, Wrong

from .f_then_b import perform as perform
from .schedules import difference, gradient_error, judge_legal, rows_of

TASK: Final = Task(
    key="07-1f1b",
    function="one_f_one_b",
    title="1F1B from its rule",
    notebook="exercise_07_one_f_one_b",
    hints=(
        "Begin with the last device: it has no next stage to wait for, so it runs F0 B0 F1 B1 ... How many forwards "
        "must the device in front of it have run, before its first gradient can arrive?",
        "Device k warms up with K - 1 - k forwards, or M if there are not so many micro-batches. Then it alternates: "
        "one forward, one backward. At the end only backwards are left.",
        "Count forwards and backwards apart. After a warm-up of w forwards, for m = 0 ... M - 1: forward w + m, if "
        "there is one, then backward m.",
    ),
)

_PLACES: Final = ("one_f_one_b", "schedule.one_f_one_b", "schedule.recipes.one_f_one_b", "schedule.recipes.by_name")

HIDDEN: Final = {f"gpipe_edu.{place}": TASK.function for place in _PLACES}


def examine(examiner: Examiner, rng: Random) -> Success:
    """Small sizes with M below and above K, random ones; then digits are trained."""
    small = [(3, 5), (4, 2), (1, 3), (3, 1), (2, 2), (4, 8)]
    error = 0.0
    for K, M in small + [(rng.randint(1, 7), rng.randint(1, 12)) for _ in range(15)]:
        schedule = _judge(examiner, K, M)
        if K * M <= 15:
            error = max(error, gradient_error(schedule, rng))
    if error > 1e-10:
        raise Wrong(Finding("other-gradient", "The schedule runs, but the gradients are not those of one device."))
    schedule = _judge(examiner, 4, 8)
    held = ", ".join(map(str, simulate(schedule).peak_in_flight))
    words = (
        f"Your schedules trained the digits on the reference engine: gradients differ from those of one device by at "
        f"most {error:.0e}. For 4 devices and 8 micro-batches they hold at most {held} micro-batches, F-then-B 8 on "
        f"each device, and both take the same time."
    )
    return Success(words, (Chart("your 1F1B", str(schedule)), Chart("F-then-B", str(gpipe(4, 8)))))


def _rule(K: int, M: int) -> Schedule:
    """The schedule that the promises leave, for charts and differences."""
    rows = []
    for k in range(K):
        row, forwards, backwards = [], 0, 0
        while backwards < M:
            ahead = forwards - backwards
            if forwards < M and ahead < K - k:
                row.append(Op("F", forwards, k))
                forwards += 1
            else:
                row.append(Op("B", backwards, k))
                backwards += 1
        rows.append(row)
    return Schedule(rows)


def _judge(examiner: Examiner, K: int, M: int) -> Schedule:
    call = f"one_f_one_b(K={K}, M={M})"
    because = "Fewer micro-batches than devices are allowed: the warm-up then ends when there are no more of them."
    traps = dict.fromkeys(("ValueError", "IndexError", "StopIteration"), ("few-micro-batches", because))
    schedule = rows_of(examiner.ask(call, traps if M < K else {}, K=K, M=M), call)
    right = _rule(K, M)

    def wrong(slip: str, because: str, first: str = "") -> Wrong:
        charts = Chart("yours", str(schedule)), Chart("1F1B", str(right))
        return Wrong(
            Finding(slip, because, call, str(right), str(schedule), first or difference(schedule, right), charts)
        )

    _judge_form(schedule, K, M, wrong)
    judge_legal(schedule, call, right)
    if (schedule.stages, schedule.micro_batches) != (K, M):
        raise wrong("other-M", f"There are {M} micro-batches, 0 to {M - 1}; the ops name {schedule.micro_batches}.")
    for device, row in enumerate(schedule.rows):
        if row[0].stage != device:
            raise wrong(
                "upside-down", "Row k belongs to device k, which holds stage k: these rows are in another order."
            )
        if {op.kind for op in row} != {"F", "B"}:
            raise wrong("other-kinds", "1F1B has only forwards F and backwards B.")
    _judge_promises(schedule, K, M, wrong)
    return schedule


def _judge_form(schedule: Schedule, K: int, M: int, wrong: Blame) -> None:
    if schedule.devices != K:
        raise wrong("rows", f"There are {schedule.devices} rows, but {K} devices.")
    ops = [op for row in schedule.rows for op in row]
    if any(op.micro_batch >= M for op in ops):
        because = (
            "Some ops belong to micro-batches that don't exist. With few micro-batches the warm-up ends sooner, and at "
            "the end there are no more forwards."
        )
        raise wrong("beyond-M", because)
    backwards = [sum(op.kind == "B" for op in row) for row in schedule.rows]
    if K > 1 and backwards[0] < M and all(a <= b for a, b in pairwise(backwards)):
        because = "Backwards are missing: what was warmed up has to drain. In the end only backwards are left."
        raise wrong("no-drain", because)


def _judge_promises(schedule: Schedule, K: int, M: int, wrong: Blame) -> None:
    peaks = simulate(schedule).peak_in_flight
    allowed = [min(M, K - k) for k in range(K)]
    over = next((k for k in range(K) if peaks[k] > allowed[k]), None)
    if over is not None:
        first = f"device {over} holds up to {peaks[over]} micro-batches instead of {allowed[over]}"
        kinds = ["".join(op.kind for op in row) for row in schedule.rows]
        if not any("BF" in row for row in kinds):
            because = "This is F-then-B. 1F1B goes back as soon as it can, so that activations are freed early."
            raise wrong("f-then-b", because, first)
        if any("BBF" in row for row in kinds):
            because = (
                "Forwards and backwards come in blocks. After the warm-up they take turns, one forward, one backward: "
                "a block of forwards holds as many micro-batches more."
            )
            raise wrong("blocks", because, first)
        if K > 1 and all(peak == min(M, 2 * (K - k) - 1) for k, peak in enumerate(peaks)):
            because = (
                "Two forwards ahead for each stage behind, as if a gradient needed a warm-up for its way back too. It "
                "runs, and holds about twice as much; one for each stage is enough."
            )
            raise wrong("round-trip", because, first)
        if all(peak == min(M, K - k + 1) for k, peak in enumerate(peaks)):
            because = (
                "One forward too many in the warm-up: with it, and the first of the pairs, device k holds one "
                "micro-batch more than the K - k it needs."
            )
            raise wrong("one-more", because, first)
        if len(set(peaks)) == 1:
            because = (
                "All devices warm up alike. The nearer a device is to the loss, the sooner its first gradient comes, "
                "and the fewer forwards it needs ahead."
            )
            raise wrong("same-warm-up", because, first)
        raise wrong("holds-too-much", "A device holds more micro-batches than 1F1B allows: K - k on device k.", first)
    for device, row in enumerate(schedule.rows):
        ahead, back = ([op.micro_batch for op in row if op.kind == kind] for kind in "FB")
        if ahead == sorted(ahead) and back != sorted(back):
            because = (
                "The newest micro-batch goes back first, and the oldest is held to the end. What came first has its "
                "gradient first, so it goes back first: a queue, not a stack."
            )
            place = next(i for i, (one, other) in enumerate(pairwise(back)) if one > other)
            raise wrong("newest-first", because, f"device {device}: B{back[place]} before B{back[place + 1]}")
    for F, B in ((1, 2), (1, 1), (2, 1)):
        makespan, best = simulate(schedule, Costs(F=F, B=B)).makespan, formulas.makespan(K, M, F, B)
        if makespan > best:
            first = f"makespan {makespan:g} instead of {best:g} (F = {F}, B = {B})"
            if all("".join(op.kind for op in row) == "FB" * M for row in schedule.rows):
                because = (
                    "Without a warm-up, each micro-batch goes all the way and back before the next one starts: one "
                    "device works at a time."
                )
                raise wrong("no-warm-up", because, first)
            if all(peak == min(M, max(1, K - k - 1)) for k, peak in enumerate(peaks)):
                because = (
                    "One forward too few in the warm-up, so that each device waits for its gradient with nothing to do "
                    "in every round."
                )
                raise wrong("one-less", because, first)
            raise wrong("too-slow", "It holds little enough, but takes longer than F-then-B. 1F1B does not.", first)
    for device, row in enumerate(schedule.rows):
        for kind in "FB":
            if [op.micro_batch for op in row if op.kind == kind] != list(range(M)):
                raise wrong("order", "1F1B takes the micro-batches in order, both ways: 0, 1, 2, ...")
        warm = min(M, K - 1 - device)
        if "".join(op.kind for op in row) != "F" * warm + "FB" * (M - warm) + "B" * warm:
            raise wrong("not-alternating", "After the warm-up a device alternates: one forward, one backward.")
