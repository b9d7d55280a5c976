"""Exercise 09, second part: one board, a memory cap, and a makespan to beat. Any legal schedule may do it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from gpipe_edu import Op, Schedule, gpipe, one_f_one_b, simulate
from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.task import Chart, Finding, Success, Task, Wrong
from gpipe_edu.schedule.recompute import with_recompute
from gpipe_edu.timeline.memory import peak_memory

from .schedules import Answer, gradient_error, judge_legal, rows_of

K, M, CAP, GOAL, BEST = 3, 6, 2, 26, 24
"""The board; BEST was proved by a search over all schedules (the puzzle's)."""

TASK: Final = Task(
    key="09-cap",
    function="under_cap",
    title="Beat a makespan under a memory cap",
    notebook="exercise_09_recompute",
    hints=(
        "Recompute costs time only where a device would otherwise be busy. Start from 1F1B: which devices hold more "
        "than 2 micro-batches? Only those have to recompute.",
        "Only device 0 holds 3. Recompute everything there and you get 27: it has no wait left to hide all of it. But "
        "it may *hold* two at a time. So which of its micro-batches need no R?",
        "Device 0 can do without R for the micro-batch that comes back first, and for the last ones, which go in when "
        "the others are gone. Every R that you leave out saves a unit, as long as the cap holds.",
    ),
)


def perform(under_cap: Any) -> Any:
    """The rows, as lists even where they are generators."""
    found = under_cap()
    return found if isinstance(found, str | Schedule) or not hasattr(found, "__iter__") else list(found)


def examine(examiner: Examiner, rng: Random) -> Success:
    """Legal, of the right size, under the cap, quick enough; then it trains."""
    schedule = _judge(examiner, K, M)
    timeline = simulate(schedule)
    makespan, held = timeline.makespan, ", ".join(f"{peak:g}" for peak in peak_memory(timeline))
    error = gradient_error(schedule, rng)
    if error > 1e-10:
        because = "The schedule runs, but the gradients are not those of one device."
        raise Wrong(Finding("other-gradient", because))
    last = f"No schedule is below {BEST}" if makespan == BEST else f"There are shorter ones: the best take {BEST}"
    words = (
        f"Makespan {makespan:g}, held {held}. {last}, which is what 1F1B takes without any cap. The digits were "
        f"trained with it: gradients differ from one device's by {error:.0e}."
    )
    return Success(words, (Chart("your schedule", str(schedule)), Chart("early GPipe", str(gpipe(K, M, "early")))))


def _judge(examiner: Examiner, K: int, M: int) -> Schedule:
    call = "under_cap()"
    right = with_recompute(one_f_one_b(K, M), "always")
    answer = Answer(rows_of(examiner.ask(call), call), right, K, M, call, "recomputes everything")
    schedule = answer.schedule
    if any(op.kind in "IW" for op in answer.ops):
        raise _wrong(answer, "other-kinds", "Here a backward is one op: use F, B, R and C.")
    named = [{int(op[index]) for op in answer.ops} for index in (1, 2)]
    if schedule.devices != K or (all(schedule.rows) and named != [set(range(M)), set(range(K))]):
        size = f"{schedule.devices} devices, stages {_list(named[1])}, micro-batches {_list(named[0])}"
        raise _wrong(answer, "other-size", "The board has 3 devices with a stage each, and 6 micro-batches.", size)
    judge_legal(answer)
    timeline = simulate(schedule)
    held, makespan = peak_memory(timeline), timeline.makespan
    figures = f"makespan {makespan:g}, held {', '.join(f'{peak:g}' for peak in held)}"
    if max(held) > CAP:
        device = held.index(max(held))
        raise _over(answer, device, figures, f"device {device} holds {held[device]:g} micro-batches")
    if makespan > GOAL:
        raise _slow(answer, makespan, figures, f"{makespan - GOAL:g} too many")
    return schedule


def _wrong(answer: Answer, slip: str, because: str, came: str = "", first: str = "") -> Wrong:
    """There is no one right schedule to be shown beside."""
    target = f"3 devices, 6 micro-batches, at most {CAP} held on a device, makespan at most {GOAL}"
    shown = f"{answer.schedule}\n{came}" if came else str(answer.schedule)
    return Wrong(Finding(slip, because, answer.call, target, shown, first, (Chart("yours", str(answer.schedule)),)))


def _list(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _over(answer: Answer, device: int, figures: str, first: str) -> Wrong:
    if answer.schedule == one_f_one_b(K, M):
        because = "1F1B holds K - k on device k: device 0 is over the cap. It has to recompute something."
        return _wrong(answer, "plain-1f1b", because, figures, first)
    if {op.kind for op in answer.ops} == {"F", "B"} and all("BF" not in row for row in answer.kinds):
        because = "F-then-B without recompute holds all 6 micro-batches."
        return _wrong(answer, "plain-gpipe", because, figures, first)
    if _recompute_is_too_soon(answer.schedule.rows[device]):
        because = (
            "A device holds more than the cap. A recomputed micro-batch holds its activations again from its R on, "
            "so an R that comes too early takes the room of another."
        )
        return _wrong(answer, "over-the-cap", because, figures, first)
    return _wrong(answer, "holds-too-much", "A device goes forward too often before it goes back.", figures, first)


def _recompute_is_too_soon(row: Sequence[Op]) -> bool:
    """Whether a recompute has taken some of the room while the device is over the cap."""
    again = {op.micro_batch for op in row if op.kind in "RC"}
    held: dict[int, str] = {}
    for op in row:
        if op.kind in "FRC":
            held[op.micro_batch] = op.kind
        if len(held) > CAP and {"R", "C"} & set(held.values()):
            return True
        if op.kind in "BC" or (op.kind == "F" and op.micro_batch in again):
            del held[op.micro_batch]
    return False


def _slow(answer: Answer, makespan: float, figures: str, first: str) -> Wrong:
    again = {(op.micro_batch, op.stage) for op in answer.ops if op.kind in "RC"}
    if not again:
        because = (
            "It keeps the cap by waiting: a device with two micro-batches stands still until one has gone back. "
            "Recomputing would take it less time than waiting does."
        )
        return _wrong(answer, "waits", because, figures, first)
    if again == {(m, k) for m in range(M) for k in range(K)}:
        because = "Everything is recomputed everywhere. That saves more memory than the cap asks for, and costs time."
        return _wrong(answer, "everything", because, figures, first)
    late = any(op.kind == "C" for op in answer.ops)
    if again == {(m, 0) for m in range(M)} and not late:
        because = (
            "Only device 0 recomputes, which is right, but it recomputes everything. The cap leaves room for two: some "
            "of its micro-batches can do without."
        )
        return _wrong(answer, "all-on-device-0", because, figures, first)
    if late and any(_is_faster(_earlier(answer.schedule, steps), makespan) for steps in range(3)):
        because = "C waits for the gradient. R can run before it comes, while the device waits anyway."
        return _wrong(answer, "late", because, figures, first)
    because = "It keeps the cap, but something waits or is recomputed that need not. Look for gaps on the last device."
    return _wrong(answer, "too-slow", because, figures, first)


def _is_faster(schedule: Schedule, makespan: float) -> bool:
    timeline = simulate(schedule)
    return max(peak_memory(timeline)) <= CAP and timeline.makespan < makespan


def _earlier(schedule: Schedule, steps: int) -> Schedule:
    """Every C as R and B, with the R so many backwards before its own, but never before its forward."""
    rows = []
    for row in schedule.rows:
        ops: list[Op] = []
        for op in row:
            if op.kind == "C":
                backwards = [*(place for place, other in enumerate(ops) if other.kind == "B"), len(ops)]
                place = backwards[max(0, len(backwards) - 1 - steps)]
                ops.insert(max(ops.index(op._replace(kind="F")) + 1, place), op._replace(kind="R"))
                op = op._replace(kind="B")
            ops.append(op)
        rows.append(ops)
    return Schedule(rows)
