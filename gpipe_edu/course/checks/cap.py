"""Exercise 09, second part: one board, a memory cap, and a makespan to beat. Any legal schedule may do it."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from gpipe_edu import Schedule, gpipe, one_f_one_b, simulate
from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.task import Blame, Chart, Finding, Success, Task, Wrong
from gpipe_edu.schedule.recompute import with_recompute
from gpipe_edu.timeline.memory import peak_memory

from .schedules import gradient_error, judge_legal, rows_of

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
    call = "under_cap()"
    schedule = rows_of(examiner.ask(call), call)
    target = f"3 devices, 6 micro-batches, at most {CAP} held on a device, makespan at most {GOAL}"

    def wrong(slip: str, because: str, came: str = "", first: str = "") -> Wrong:
        shown = f"{schedule}\n{came}" if came else str(schedule)
        return Wrong(Finding(slip, because, call, target, shown, first, (Chart("yours", str(schedule)),)))

    if any(op.kind in "IW" for row in schedule.rows for op in row):
        raise wrong("other-kinds", "Here a backward is one op: use F, B, R and C.")
    judge_legal(schedule, call, with_recompute(one_f_one_b(K, M), "always"))
    if (schedule.devices, schedule.stages, schedule.micro_batches) != (K, K, M):
        size = f"{schedule.devices} devices, {schedule.stages} stages, {schedule.micro_batches} micro-batches"
        raise wrong("other-size", "The board has 3 devices with a stage each, and 6 micro-batches.", size)
    timeline = simulate(schedule)
    held, makespan = peak_memory(timeline), timeline.makespan
    figures = f"makespan {makespan:g}, held {', '.join(f'{peak:g}' for peak in held)}"
    kinds = {op.kind for row in schedule.rows for op in row}
    if max(held) > CAP:
        device = held.index(max(held))
        first = f"device {device} holds {held[device]:g} micro-batches"
        if schedule == one_f_one_b(K, M):
            because = "1F1B holds K - k on device k: device 0 is over the cap. It has to recompute something."
            raise wrong("plain-1f1b", because, figures, first)
        if kinds == {"F", "B"} and all("BF" not in "".join(op.kind for op in row) for row in schedule.rows):
            raise wrong("plain-gpipe", "F-then-B without recompute holds all 6 micro-batches.", figures, first)
        if kinds & {"R", "C"}:
            because = (
                "A device holds more than the cap. A recomputed micro-batch holds its activations again from its R on, "
                "so an R that comes too early takes the room of another."
            )
            raise wrong("over-the-cap", because, figures, first)
        raise wrong("holds-too-much", "A device goes forward too often before it goes back.", figures, first)
    if makespan > GOAL:
        first = f"{makespan - GOAL:g} too many"
        raise _slow(schedule, makespan, wrong, figures, first)
    error = gradient_error(schedule, rng)
    if error > 1e-10:
        raise wrong("other-gradient", "The schedule runs, but the gradients are not those of one device.")
    last = f"No schedule is below {BEST}" if makespan == BEST else f"There are shorter ones: the best take {BEST}"
    words = (
        f"Makespan {makespan:g}, held {', '.join(f'{peak:g}' for peak in held)}. {last}, which is what 1F1B takes "
        f"without any cap. The digits were trained with it: gradients differ from one device's by {error:.0e}."
    )
    return Success(words, (Chart("your schedule", str(schedule)), Chart("early GPipe", str(gpipe(K, M, "early")))))


def _slow(schedule: Schedule, makespan: float, wrong: Blame, figures: str, first: str) -> Wrong:
    kinds = {op.kind for row in schedule.rows for op in row}
    again = {(op.micro_batch, op.stage) for row in schedule.rows for op in row if op.kind in "RC"}
    everything = {(m, k) for m in range(M) for k in range(K)}
    if not again:
        because = (
            "It keeps the cap by waiting: a device with two micro-batches stands still until one has gone back. "
            "Recomputing would take it less time than waiting does."
        )
        return wrong("waits", because, figures, first)
    if again == everything:
        because = "Everything is recomputed everywhere. That saves more memory than the cap asks for, and costs time."
        return wrong("everything", because, figures, first)
    if again == {(m, 0) for m in range(M)} and "C" not in kinds:
        because = (
            "Only device 0 recomputes, which is right, but it recomputes everything. The cap leaves room for two: some "
            "of its micro-batches can do without."
        )
        return wrong("all-on-device-0", because, figures, first)
    if "C" in kinds:
        because = "C waits for the gradient. R can run before it comes, while the device waits anyway."
        return wrong("late", because, figures, first)
    because = "It keeps the cap, but something waits or is recomputed that need not. Look for gaps on the last device."
    return wrong("too-slow", because, figures, first)
