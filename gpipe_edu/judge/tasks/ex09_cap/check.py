"""One board, a memory cap, and a makespan to beat. Any legal schedule may do it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from random import Random
from typing import Final

from gpipe_edu import Op, Schedule, gpipe, one_f_one_b, simulate
from gpipe_edu.base.words import join_words, plural
from gpipe_edu.judge.case import Exam, Sign
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.schedules import Proposal, about_rules, gradient_error, read
from gpipe_edu.timeline import Timeline, peak_memory

K, M, CAP, GOAL, BEST = 3, 6, 2, 26, 24
"""The board; BEST was proved by a search over all schedules (the puzzle's)."""

_TARGET: Final = f"{K} devices, {M} micro-batches, at most {CAP} held on a device, makespan at most {GOAL}"


def examine(exam: Exam, rng: Random) -> Success:
    """Legal, of the right size, under the cap, quick enough; then it trains."""
    schedule = judge(exam)
    timeline = simulate(schedule)
    makespan = timeline.makespan
    rank = f"No schedule is below {BEST}" if makespan == BEST else f"There are shorter ones: the best take {BEST}"
    charts = Chart("your schedule", str(schedule)), Chart("early GPipe", str(gpipe(K, M, "early")))
    error = gradient_error(schedule, rng)
    return exam.success(*charts, makespan=makespan, held=_held(timeline), rank=rank, error=error)


def judge(exam: Exam) -> Schedule:
    """Judge the schedule; there is no one right schedule to be shown beside it."""
    case = exam.case("under_cap()", _TARGET)
    mine = read(case, case.ask())
    case.came, case.charts = str(mine), (Chart("yours", str(mine)),)
    case.judge(_signs(Proposal(mine, mine, K, M, "yours")))
    return mine


def _signs(mine: Proposal) -> Iterator[Sign]:
    schedule = mine.schedule
    yield Sign("other-kinds", bool(mine.cells("IW")))
    stages, micro_batches = ({int(op[index]) for op in mine.ops} for index in (2, 1))
    other = all(mine.rows) and (stages, micro_batches) != (set(range(K)), set(range(M)))
    numbers = (join_words(sorted(found)) for found in (stages, micro_batches))
    size = "stages {}, micro-batches {}".format(*numbers) if mine.ops else "no ops"
    came = f"{schedule}\n{plural(schedule.devices, 'device')}, {size}"
    yield Sign("other-size", other or schedule.devices != K, came=came)
    yield Sign("upside-down", bool(schedule.problems()) and not _turned(schedule).problems())
    for sign in about_rules(mine):
        yield sign._replace(charts=sign.charts[:1])
    timeline = simulate(schedule)
    came = f"{schedule}\nmakespan {timeline.makespan:g}, held {_held(timeline)}"
    for sign in chain(_over_the_cap(mine, timeline), _too_slow(mine, timeline)):
        yield sign._replace(came=came)


def _turned(schedule: Schedule) -> Schedule:
    """The same with the rows in reverse order, each on the device where it then stands."""
    return Schedule([[op._replace(stage=K - 1 - op.stage) for op in row] for row in reversed(schedule.rows)])


def _held(timeline: Timeline) -> str:
    return join_words(f"{peak:g}" for peak in peak_memory(timeline))


def _over_the_cap(mine: Proposal, timeline: Timeline) -> Iterator[Sign]:
    held = peak_memory(timeline)
    if max(held) > CAP:
        device = held.index(max(held))
        first = f"device {device} holds up to {held[device]:g} interiors"
        yield Sign("plain-1f1b", mine.schedule == one_f_one_b(K, M), difference=first)
        plain = {op.kind for op in mine.ops} == {"F", "B"} and all("BF" not in row for row in mine.kinds)
        yield Sign("plain-gpipe", plain, difference=first)
        yield _first_excess(device, mine.rows[device])._replace(difference=first)


def _first_excess(device: int, row: tuple[Op, ...]) -> Sign:
    """What a device holds when it is over the cap for the first time, and why it holds each."""
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
    labels = join_words((f"F{m}" for m in kept), last=" and ")
    there = [f"{'those' if len(kept) > 1 else 'that'} of {labels}, kept for the backward"] if kept else []
    there += [f"the one that R{m} has brought back" for m in back]
    own = "its own, which a forward needs while it runs" if op.kind == "F" else f"the one that {op.label} brings back"
    words = {"device": device, "count": len(held), "op": op.label, "there": join_words(there), "own": own}
    return Sign("over-the-cap" if back or op.kind in "RC" else "holds-too-much", words=words)


def _too_slow(mine: Proposal, timeline: Timeline) -> Iterator[Sign]:
    schedule, makespan, again = mine.schedule, timeline.makespan, mine.cells("RC")
    if makespan <= GOAL:
        return
    first = f"{makespan - GOAL:g} too many"
    yield Sign("waits", not again, difference=first)
    yield Sign("everything", again == {(m, k) for m in range(M) for k in range(K)}, difference=first)
    late = bool(mine.cells("C"))
    yield Sign("all-on-device-0", again == {(m, 0) for m in range(M)} and not late, difference=first)
    sooner = late and any(_is_faster(_earlier(schedule, steps), makespan) for steps in range(3))
    yield Sign("late", sooner, difference=first)
    for op in [op for row in schedule.rows for op in row if op.kind == "R"]:
        without = Schedule([[other for other in row if other != op] for row in schedule.rows])
        words = {"op": op.label, "device": op.stage}
        yield Sign("unneeded", _is_faster(without, makespan), difference=first, words=words)
    yield Sign("too-slow", difference=first, words={"where": _where(timeline)})


def _where(timeline: Timeline) -> str:
    """Where the last device, which has the longest way to go, loses its time."""
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
    return max(losses, key=losses.__getitem__)


def _is_faster(schedule: Schedule, makespan: float) -> bool:
    if schedule.problems():
        return False
    timeline = simulate(schedule)
    return max(peak_memory(timeline)) <= CAP and timeline.makespan < makespan


def _earlier(schedule: Schedule, steps: int) -> Schedule:
    """Every C as R and B, with the R `steps` backwards before its own, but never before its forward."""
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
