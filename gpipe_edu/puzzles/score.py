"""Whether a level is solved: the only judge, for boards, share strings and stored progress; and what the schedule is
called.

A board is judged only by what is on it, so a level can be solved only by its schedule. Only schedules that equal a
recipe's, op by op but for the numbers of micro-batches, get its name. Small boards often equal several at once; the
player is told the first of them, the plainest, since the rest of the list teaches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpipe_edu.base.words import plural
from gpipe_edu.schedule import Op, Schedule, gpipe, interleaved, naive, one_f_one_b, zero_bubble
from gpipe_edu.schedule.recompute import with_kinds, with_recompute

from .position import Position

NOISE: Final = 1e-9
"""Times closer than this are equal."""


@dataclass(frozen=True)
class Score:
    """The verdict on a board, and its figures.

    solved: it is a whole schedule that can run, within the cap, done by the goal; reasons: sentences, why not. The
    figures are those of the ops that can run so far: makespan, bubble_fraction (idle / total), peaks per device in the
    level's unit. over_par: makespan - par of a solved board, None where there is no par. names: what this schedule is
    called, if it has a name.
    """

    solved: bool
    reasons: tuple[str, ...]
    complete: bool
    makespan: float
    bubble_fraction: float
    peaks: tuple[float, ...]
    over_par: float | None
    names: tuple[str, ...]

    def __str__(self) -> str:
        return self.describe()

    def describe(self, hints: int = 0) -> str:
        """The score as a sentence, with the number of hints taken."""
        if not self.solved:
            return "not solved: " + "; ".join(self.reasons)
        text = f"solved with makespan {self.makespan:g}"
        if self.over_par is not None:
            text += ", at par" if self.over_par <= NOISE else f", {self.over_par:g} over par"
        if hints:
            text += f", with {plural(hints, 'hint')}"
        if self.names:
            text += f": you built {self.names[0]}"
        return text


def score(position: Position) -> Score:
    """The score of a board."""
    level, timeline = position.level, position.timeline
    reasons = [problem.message for problem in position.problems or position.waiting]
    if position.missing and not position.problems:
        shown = ", ".join(f"{op} on device {level.home(op.stage)}" for op in position.missing[:3])
        more = len(position.missing) - 3
        reasons.append(f"still to be placed: {shown}" + (f" and {more} more" if more > 0 else ""))
    makespan = timeline.end if timeline else 0.0
    complete = position.complete
    if complete and level.goal is not None and makespan > level.goal + NOISE:
        reasons.append(f"it is done at {makespan:g}, the goal is {level.goal:g}")
    solved = complete and not reasons
    return Score(
        solved=solved,
        reasons=tuple(reasons),
        complete=complete,
        makespan=makespan,
        bubble_fraction=timeline.bubble_fraction if timeline else 0.0,
        peaks=position.peaks,
        over_par=makespan - level.par if solved and level.par is not None else None,
        names=recognise(position.schedule) if complete else (),
    )


_RECOMPUTE = {"always": "with early recompute", "except_last": "with early recompute of all but the last micro-batch"}


def recognise(schedule: Schedule) -> tuple[str, ...]:
    """Every name of `schedule`, whose micro-batches may go in another order than that of their numbers; () if it has
    none."""
    first = dict.fromkeys(op.micro_batch for row in schedule.rows for op in row if (op.kind, op.stage) == ("F", 0))
    place = {micro_batch: at for at, micro_batch in enumerate(first)}
    if len(place) < schedule.micro_batches:
        return ()
    ordered = Schedule([[op._replace(micro_batch=place[op.micro_batch]) for op in row] for row in schedule.rows])
    return tuple(dict.fromkeys(name for name, known in _known(ordered) if known == ordered))


def _known(schedule: Schedule) -> Iterator[tuple[str, Schedule]]:
    """All known schedules of the same size, by name."""
    D, K, M = schedule.devices, schedule.stages, schedule.micro_batches
    plain: list[tuple[str, Schedule]] = []
    if D == K:
        plain = [
            ("model parallelism without a pipeline", naive(K, M)),
            ("GPipe", gpipe(K, M)),
            ("GPipe with its backwards in first-in-first-out order", _first_in_first_out(gpipe(K, M))),
            ("1F1B", one_f_one_b(K, M)),
            ("ZB-H1 (zero bubble)", zero_bubble(K, M)),
        ]
        plain += [
            (f"GPipe, {size} micro-batches at a time", _in_groups(gpipe(K, size), M))
            for size in range(2, M)
            if M % size == 0
        ]
    elif K % D == 0:
        plain = [(f"interleaved 1F1B with {K // D} stages per device", interleaved(D, M, K // D))]
    yield from plain
    for name, known in plain:
        variants = [(f"{name} {words}", with_recompute(known, checkpoint)) for checkpoint, words in _RECOMPUTE.items()]
        variants.append((f"{name} with late recompute", with_kinds(known, {"B": "C"})))
        variants.append((f"{name} with every backward divided, W right after I", with_kinds(known, {"B": "IW"})))
        # A variant that changes nothing, such as recomputing all but the last of one micro-batch, is skipped.
        yield from ((words, variant) for words, variant in variants if variant != known)


def _first_in_first_out(schedule: Schedule) -> Schedule:
    """GPipe with the backwards of each device in the order of its forwards."""
    return Schedule([sorted(row, key=lambda op: (op.kind != "F", op.micro_batch)) for row in schedule.rows])


def _in_groups(group: Schedule, M: int) -> Schedule:
    """`group` again and again, until M micro-batches are done."""
    size = group.micro_batches
    return Schedule(
        [
            [Op(op.kind, op.micro_batch + first, op.stage) for first in range(0, M, size) for op in row]
            for row in group.rows
        ]
    )
