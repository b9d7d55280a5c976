"""Exercise 07: 1F1B, judged by what it promises: it alternates, holds few micro-batches, and takes no longer.

These promises, for every K and M and for several ratios of F and B, leave one schedule; how it is made is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from gpipe_edu import Costs, Op, Schedule, formulas, gpipe, simulate
from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.task import Chart, Success, Task

from .schedules import Answer, ask, judge_legal, judge_places, train_with
from .schedules import perform as perform
from .sizes import judge_size

TASK: Final = Task(
    key="ex07/1f1b",
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

HIDDEN: Final = {"gpipe_edu.one_f_one_b": TASK.function}


def examine(examiner: Examiner, rng: Random) -> Success:
    """Small sizes with M below and above K, random ones; then digits are trained."""
    sizes = [(3, 5), (4, 2), (1, 3), (3, 1), (2, 2), (4, 8)]
    sizes += [(rng.randint(1, 7), rng.randint(1, 12)) for _ in range(15)]
    error = train_with(lambda K, M: _judge(examiner, K, M), sizes, rng)
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
    because = "Fewer micro-batches than devices are allowed: the warm-up then ends when there are no more of them."
    traps = dict.fromkeys(("ValueError", "IndexError", "StopIteration"), ("few-micro-batches", because))
    answer = ask(examiner, TASK.function, K, M, _rule(K, M), "1F1B", traps if M < K else {})
    _judge_ends(answer)
    judge_size(answer)
    _judge_direction(answer)
    judge_legal(answer)
    judge_places(answer)
    if any(set(row) != {"F", "B"} for row in answer.kinds):
        others = ", ".join(sorted({op.kind for op in answer.ops} - set("FB")))
        because = f"1F1B has only forwards F and backwards B, and nothing is recomputed: there is no {others} in it."
        raise answer.wrong("other-kinds", because)
    _judge_peaks(answer)
    _judge_order(answer)
    _judge_pace(answer)
    return answer.schedule


def _judge_ends(answer: Answer) -> None:
    """A loop that goes on too long, or stops when the forwards do."""
    K, M = answer.K, answer.M
    if answer.schedule.devices != K:
        return
    named = {op.micro_batch for op in answer.ops}
    if max(named, default=0) >= M and named != set(range(1, M + 1)):
        because = (
            "Some ops belong to micro-batches that don't exist. With few micro-batches the warm-up ends sooner, and at "
            "the end there are no more forwards."
        )
        raise answer.wrong("beyond-M", because)
    without_drain = [list(range(M - min(M, K - 1 - k))) for k in range(K)]
    if K > 1 and [answer.order(k, "B") for k in range(K)] == without_drain:
        because = "Backwards are missing: what was warmed up has to drain. In the end only backwards are left."
        raise answer.wrong("no-drain", because)


def _warm_ups(answer: Answer) -> list[int]:
    """How many forwards each row starts with."""
    return [len(row) - len(row.lstrip("F")) for row in answer.kinds]


def _judge_direction(answer: Answer) -> None:
    problems = answer.schedule.problems()
    if (
        problems
        and problems[0].code == "deadlock"
        and _warm_ups(answer) == [min(answer.M, k + 1) for k in range(answer.K)]
    ):
        because = (
            "The warm-up grows from device to device, and it should shrink: the first device feeds all the others, the "
            "last one none. This way devices wait for each other for ever."
        )
        raise answer.wrong("reversed", because)


def _judge_peaks(answer: Answer) -> None:
    K, M, kinds, ahead = answer.K, answer.M, answer.kinds, _warm_ups(answer)
    peaks = simulate(answer.schedule).peak_in_flight
    allowed = [min(M, K - k) for k in range(K)]
    over = next((k for k in range(K) if peaks[k] > allowed[k]), None)
    if over is None:
        return
    first = f"device {over} holds up to {peaks[over]} micro-batches instead of {allowed[over]}"
    if not any("BF" in row for row in kinds):
        because = "This is F-then-B. 1F1B goes back as soon as it can, so that activations are freed early."
        raise answer.wrong("f-then-b", because, first)
    if "BBF" in kinds[over]:
        because = (
            "Forwards and backwards come in blocks. After the warm-up they take turns, one forward, one backward: "
            "a block of forwards holds as many micro-batches more."
        )
        raise answer.wrong("blocks", because, first)
    if K > 1 and ahead == [min(M, 2 * (K - k) - 1) for k in range(K)]:
        because = (
            "Two forwards ahead for each stage behind, as if a gradient needed a warm-up for its way back too. It "
            "runs, and holds about twice as much; one for each stage is enough."
        )
        raise answer.wrong("round-trip", because, first)
    if ahead == [min(M, K - k + 1) for k in range(K)]:
        because = (
            "One forward too many in the warm-up: with it, and the first of the pairs, device k holds one "
            "micro-batch more than the K - k it needs."
        )
        raise answer.wrong("one-more", because, first)
    if K > 1 and len(set(ahead)) == 1:
        because = (
            "All devices warm up alike. The nearer a device is to the loss, the sooner its first gradient comes, "
            "and the fewer forwards it needs ahead."
        )
        raise answer.wrong("same-warm-up", because, first)
    because = "A device holds more micro-batches than 1F1B allows: K - k on device k."
    raise answer.wrong("holds-too-much", because, first)


def _judge_order(answer: Answer) -> None:
    for device, row in enumerate(answer.schedule.rows):
        if _is_stack(row):
            because = (
                "The newest micro-batch goes back first, and the oldest is held to the end. What came first has its "
                "gradient first, so it goes back first: a queue, not a stack."
            )
            place = ", ".join(f"B{m}" for m in answer.order(device, "B"))
            raise answer.wrong("newest-first", because, f"device {device} goes back in the order {place}")
    for device in range(answer.K):
        for kind in "FB":
            if answer.order(device, kind) != list(range(answer.M)):
                raise answer.wrong("order", "1F1B takes the micro-batches in order, both ways: 0, 1, 2, ...")


def _is_stack(row: Sequence[Op]) -> bool:
    """Whether each backward takes the newest micro-batch there is, and there are several of them once."""
    held: list[int] = []
    several = False
    for op in row:
        if op.kind == "F":
            held.append(op.micro_batch)
        elif held.pop() != op.micro_batch:
            return False
        else:
            several = several or bool(held)
    return several


def _judge_pace(answer: Answer) -> None:
    K, M, ahead = answer.K, answer.M, _warm_ups(answer)
    for F, B in ((1, 2), (1, 1), (2, 1)):
        makespan, best = simulate(answer.schedule, Costs(F=F, B=B)).makespan, formulas.makespan(K, M, F, B)
        if makespan > best:
            first = f"makespan {makespan:g} instead of {best:g} (F = {F}, B = {B})"
            if all(row == "FB" * M for row in answer.kinds):
                because = (
                    "Without a warm-up, each micro-batch goes all the way and back before the next one starts: one "
                    "device works at a time."
                )
                raise answer.wrong("no-warm-up", because, first)
            if ahead == [min(M, max(1, K - k - 1)) for k in range(K)]:
                because = (
                    "One forward too few in the warm-up, so that each device waits for its gradient with nothing to do "
                    "in every round."
                )
                raise answer.wrong("one-less", because, first)
            because = "It holds little enough, but takes longer than F-then-B. 1F1B does not."
            raise answer.wrong("too-slow", because, first)
    for k, row in enumerate(answer.kinds):
        warm = min(M, K - 1 - k)
        if row != "F" * warm + "FB" * (M - warm) + "B" * warm:
            raise answer.wrong("not-alternating", "After the warm-up a device alternates: one forward, one backward.")
