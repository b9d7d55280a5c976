"""Exercise 09, second part: one board, a memory cap, and a makespan to beat. Any legal schedule may do it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any, Final

from gpipe_edu import Op, Schedule, gpipe, one_f_one_b, simulate
from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.task import Chart, Finding, Success, Task, Wrong
from gpipe_edu.timeline.memory import peak_memory

from .schedules import Answer, gradient_error, rows_of

K, M, CAP, GOAL, BEST = 3, 6, 2, 26, 24
"""The board; BEST was proved by a search over all schedules (the puzzle's)."""

TASK: Final = Task(
    key="ex09/cap",
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
    if isinstance(found, str | dict | Schedule) or not hasattr(found, "__iter__"):
        return found
    return [row if isinstance(row, str | dict | Op) or not hasattr(row, "__iter__") else list(row) for row in found]


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
    schedule = rows_of(examiner.ask(call), call, text=True)
    answer = Answer(schedule, schedule, K, M, call, "yours")
    if any(op.kind in "IW" for op in answer.ops):
        raise _wrong(answer, "other-kinds", "Here a backward is one op: use F, B, R and C.")
    named = [{int(op[index]) for op in answer.ops} for index in (1, 2)]
    if schedule.devices != K or (all(schedule.rows) and named != [set(range(M)), set(range(K))]):
        devices = f"{schedule.devices} device{'s' * (schedule.devices != 1)}"
        size = f"{devices}, stages {_list(named[1])}, micro-batches {_list(named[0])}" if answer.ops else "no ops"
        raise _wrong(answer, "other-size", "The board has 3 devices with a stage each, and 6 micro-batches.", size)
    problems = schedule.problems()
    if problems:
        code, message, _ = problems[0]
        raise _wrong(answer, code, f"This cannot run: {message}.", chart="yours, as far as it can run")
    timeline = simulate(schedule)
    held, makespan = peak_memory(timeline), timeline.makespan
    figures = f"makespan {makespan:g}, held {', '.join(f'{peak:g}' for peak in held)}"
    if max(held) > CAP:
        device = held.index(max(held))
        raise _over(answer, device, figures, f"device {device} holds up to {held[device]:g} interiors")
    if makespan > GOAL:
        raise _slow(answer, makespan, figures, f"{makespan - GOAL:g} too many")
    return schedule


def _wrong(answer: Answer, slip: str, because: str, came: str = "", first: str = "", chart: str = "yours") -> Wrong:
    """There is no one right schedule to be shown beside."""
    target = f"3 devices, 6 micro-batches, at most {CAP} held on a device, makespan at most {GOAL}"
    shown = f"{answer.schedule}\n{came}" if came else str(answer.schedule)
    return Wrong(Finding(slip, because, answer.call, target, shown, first, (Chart(chart, str(answer.schedule)),)))


def _list(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _over(answer: Answer, device: int, figures: str, first: str) -> Wrong:
    if answer.schedule == one_f_one_b(K, M):
        because = "1F1B holds K - k on device k: device 0 is over the cap. It has to recompute something."
        return _wrong(answer, "plain-1f1b", because, figures, first)
    if {op.kind for op in answer.ops} == {"F", "B"} and all("BF" not in row for row in answer.kinds):
        because = "F-then-B without recompute holds all 6 micro-batches."
        return _wrong(answer, "plain-gpipe", because, figures, first)
    slip, because = _excess(device, answer.schedule.rows[device])
    return _wrong(answer, slip, because, figures, first)


def _excess(device: int, row: Sequence[Op]) -> tuple[str, str]:
    """What a device holds when it is over the cap for the first time, and why each is there."""
    again = {op.micro_batch for op in row if op.kind in "RC"}
    held: dict[int, str] = {}
    for op in row:
        before = dict(held)
        if op.kind in "FRC":
            held[op.micro_batch] = op.kind
        if len(held) > CAP:
            break
        if op.kind in "BC" or (op.kind == "F" and op.micro_batch in again):
            del held[op.micro_batch]
    kept, back = ([m for m, kind in before.items() if kind in kinds] for kinds in ("F", "RC"))
    labels = [f"F{m}" for m in kept]
    there = [f"{'those' if len(kept) > 1 else 'that'} of {' and '.join(labels)}, kept for the backward"] if kept else []
    there += [f"the one that R{m} has brought back" for m in back]
    own = "its own, which a forward needs while it runs" if op.kind == "F" else f"the one that {op.label} brings back"
    because = (
        f"Device {device} holds {len(held)} interiors when {op.label} starts: {', '.join(there)}, and {own}. "
        "Let one of them go back first, or keep one less."
    )
    return "over-the-cap" if back or op.kind in "RC" else "holds-too-much", because


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
    unneeded = _unneeded(answer.schedule, makespan)
    if unneeded:
        because = (
            f"{unneeded.label} on device {unneeded.stage} is not needed: the cap holds without it, and the step is "
            "shorter. A recompute that does not fit into a wait costs time."
        )
        return _wrong(answer, "unneeded", because, figures, first)
    return _wrong(answer, "too-slow", _where(answer.schedule), figures, first)


def _unneeded(schedule: Schedule, makespan: float) -> Op | None:
    """The first R without which the schedule is shorter and keeps the cap."""
    for op in [op for row in schedule.rows for op in row if op.kind == "R"]:
        if _is_faster(Schedule([[other for other in row if other != op] for row in schedule.rows]), makespan):
            return op
    return None


def _where(schedule: Schedule) -> str:
    """Where the last device, which has the longest way to go, loses its time."""
    timeline = simulate(schedule)
    spans = timeline.row(K - 1)
    gaps = sum(b.start - a.end for a, b in pairwise(spans))
    more, tail = spans[0].start - (K - 1), timeline.makespan - spans[-1].end
    again = sum(span.end - span.start - 2 for span in spans if span.op.kind == "C")
    again += sum(span.end - span.start for span in spans if span.op.kind == "R")
    losses = {
        f"the last device stands still for {gaps:g} units between its ops. What keeps it waiting?": gaps,
        f"the last device starts {more:g} units later than it could. Send the first micro-batch on at once.": more,
        f"{tail:g} units pass after the last device is done, where two backwards take 4. What delays them?": tail - 4,
        f"the last device recomputes for {again:g} units, and it could do with one micro-batch at a time.": again,
    }
    return f"It keeps the cap, but {max(losses, key=losses.__getitem__)}"


def _is_faster(schedule: Schedule, makespan: float) -> bool:
    if schedule.problems():
        return False
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
