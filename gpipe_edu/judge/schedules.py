"""What the exercises on schedules share: reading what a learner wrote as one, whether it runs, and training with it.

A schedule may be of a wrong size: some number was counted or taken wrongly. What is wrong in every row alike says more
than the first rule that it breaks, so it is looked for before asking whether the schedule can run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from gpipe_edu import Op, Schedule
from gpipe_edu import reference as ref
from gpipe_edu.base.words import join_words, plural
from gpipe_edu.judge.findings import Chart
from gpipe_edu.judge.guest.forms import describe
from gpipe_edu.judge.networks import draw_digits
from gpipe_edu.process.plain import a_name_of

from .case import Case, Exam, Sign, Signs, Traps

BIG: Final = 400
"""Cells of a schedule that is too large to be read: it is shown in part, and not drawn."""


@dataclass(frozen=True)
class Proposal:
    """A learner's schedule for K devices and M micro-batches, beside a right one that has a name."""

    schedule: Schedule
    right: Schedule
    K: int
    M: int
    name: str

    @property
    def rows(self) -> tuple[tuple[Op, ...], ...]:
        """The ops of each device."""
        return self.schedule.rows

    @property
    def ops(self) -> list[Op]:
        """All ops."""
        return [op for row in self.rows for op in row]

    @property
    def kinds(self) -> list[str]:
        """The letters of each row."""
        return ["".join(op.kind for op in row) for row in self.rows]

    def cells(self, kinds: str) -> set[tuple[int, int]]:
        """(micro-batch, stage) of all ops of these kinds."""
        return {(op.micro_batch, op.stage) for op in self.ops if op.kind in kinds}

    def order(self, device: int, kind: str) -> list[int]:
        """The micro-batches of one kind of op on a device, as they come."""
        return [op.micro_batch for op in self.rows[device] if op.kind == kind]

    def charts(self, mine: str = "yours") -> tuple[Chart, ...]:
        """Both, to be drawn, unless there are too many ops to be read."""
        both = Chart(mine, str(self.schedule)), Chart(self.name, str(self.right))
        return () if self.K * self.M >= BIG else both


def judge_schedule(
    exam: Exam,
    right: Schedule,
    name: str,
    signs: Callable[[Proposal], Signs],
    traps: Traps | None = None,
    any_order: bool = True,
) -> Schedule:
    """Ask for the schedule of as many devices and micro-batches as `right` has, and judge it.

    any_order: backwards may come in another order than in `right`, so nothing is held against that.
    """
    K, M = right.stages, right.micro_batches
    case = exam.case(f"{exam.exercise.function}(K={K}, M={M})", in_short(right, K * M))
    schedule = read(case, case.ask(traps, K=K, M=M))
    right = _in_the_order_of(schedule, right) if any_order else right
    proposal = Proposal(schedule, right, K, M, name)
    show(case, proposal)
    case.judge(signs(proposal))
    return schedule


def show(case: Case, proposal: Proposal) -> None:
    """Let the case show both schedules beside what is wrong."""
    case.expected, case.came = (in_short(one, proposal.K * proposal.M) for one in (proposal.right, proposal.schedule))
    case.charts, case.difference = proposal.charts(), difference(proposal.schedule, proposal.right)


def in_short(schedule: Schedule, cells: int) -> str:
    """Its written form; only the beginning, if one with so many cells is too large to be read."""
    return _beginning(str(schedule)) if cells >= BIG else str(schedule)


def train_with(exam: Exam, judge: Callable[[int, int], Schedule], sizes: list[tuple[int, int]], rng: Random) -> float:
    """Judge every size, and a big one; train the digits with the small ones. Returns the largest error of gradients."""
    small = [schedule for K, M in sizes if (schedule := judge(K, M)).stages * schedule.micro_batches <= 15]
    error = max(gradient_error(schedule, rng) for schedule in small)
    K, M = rng.randint(17, 20), rng.randint(65, 70)  # as large as real ones
    with exam.blame_on("only-small", K=K, M=M):
        judge(K, M)
    return error


def read(case: Case, value: Any) -> Schedule:
    """The schedule in `value`: a Schedule or rows of ops, its written form, or rows of words.

    Raises Wrong for the first thing that is not an op.
    """
    if isinstance(value, Schedule):
        return value
    if isinstance(value, str):
        value = [line for line in value.splitlines() if line.partition("#")[0].strip()]
    case.judge(_form(value))
    return Schedule([[_op(word, device) for word in _words(row)] for device, row in enumerate(value)])


def about_rules(proposal: Proposal) -> Iterator[Sign]:
    """The doctor's first problem, if the schedule cannot run."""
    for code, message, _ in proposal.schedule.problems()[:1]:
        charts = proposal.charts("yours, as far as it can run")
        yield Sign(code, charts=charts, words={"message": message}, sentence="cannot-run")


def stop_of(schedule: Schedule) -> str:
    """Where it stops, as a sentence to put before one that says why; "" if it can run."""
    for code, message, op in schedule.problems()[:1]:
        if code == "deadlock" and op:
            return f"This hangs: device {schedule.device_of_stage[op.stage]} waits for ever at {op}. "
        return f"This cannot run: {message}. "
    return ""


def about_homes(proposal: Proposal) -> Iterator[Sign]:
    """Row k holds stage k."""
    yield Sign("upside-down", any(row[0].stage != device for device, row in enumerate(proposal.rows)))


def difference(schedule: Schedule, expected: Schedule) -> str:
    """The first place where two schedules part. Stages are named where the device does not tell them."""
    at_home = all(
        op.stage == device for one in (schedule, expected) for device, row in enumerate(one.rows) for op in row
    )
    for device, (row, other) in enumerate(zip(schedule.rows, expected.rows, strict=False)):
        for place in range(max(len(row), len(other))):
            ours, theirs = row[place : place + 1], other[place : place + 1]
            if ours != theirs:
                labels = [(ops[0].label if at_home else str(ops[0])) if ops else "nothing" for ops in (ours, theirs)]
                return f"device {device}, place {place}: {labels[0]} instead of {labels[1]}"
    return f"{schedule.devices} rows instead of {expected.devices}" if schedule.devices != expected.devices else ""


def gradient_error(schedule: Schedule, rng: Random) -> float:
    """The largest relative difference between gradients of the digits under `schedule` and on one device."""
    x, y = draw_digits(rng, 40)
    layers = ref.mlp([64, *[24] * schedule.stages, 10], seed=rng.randrange(1000))
    _, exact = ref.train_sequential(layers, x, y)
    return ref.gradient_difference(ref.train_pipeline(layers, x, y, schedule).grads, exact)


def _form(value: Any) -> Iterator[Sign]:
    """For what is not a list of rows of ops."""
    yield Sign("not-rows", not isinstance(value, list | tuple), "a list of rows", a_name_of(value))
    one_for_each = "a list of rows, one for each device"
    for device, row in enumerate(value):
        yield Sign("flat", isinstance(row, Op) or _is_triple(row), one_for_each, "a list of ops")
        words, came = _words(row), f"row {device} is {a_name_of(row)}"
        yield Sign("not-a-row", not isinstance(words, list | tuple), "a list of ops", came)
        for word in words:
            yield from _word_form(word, device)


def _word_form(word: Any, device: int) -> Iterator[Sign]:
    if isinstance(word, Op):
        return
    ops = "ops such as F0 or B3"
    idle = word is None or (isinstance(word, str) and word in ("", ".", "-", "idle"))
    yield Sign("idle-slots", idle, ops, f"{word!r} in row {device}")
    slip = "not-a-word" if isinstance(word, str) else "not-an-op"
    yield Sign(slip, _op(word, device) is None, ops, f"{describe(word)} in row {device}")


def _words(row: Any) -> Any:
    """The ops of a row, or its words; a row that is written as empty has none."""
    if not isinstance(row, str):
        return row
    words = row.partition("#")[0].split()
    return [] if words == ["-"] else words


def _op(word: Any, device: int) -> Any:
    """The op that is meant, None if none is."""
    try:
        if isinstance(word, Op):
            return word
        if isinstance(word, str):
            return Schedule.parse(f"{word}@{device}" if "@" not in word else word).rows[0][0]
        kind, micro_batch, stage = word
        return Op(kind, micro_batch, stage)
    except (ValueError, TypeError, IndexError):
        return None


def _is_triple(word: Any) -> bool:
    return isinstance(word, tuple | list) and len(word) == 3 and isinstance(word[0], str) and len(word[0]) == 1


def _in_the_order_of(schedule: Schedule, right: Schedule) -> Schedule:
    """`right` with its backwards in the order that most devices of the schedule have: then it differs from those that
    have another one. Of orders that are as frequent, its own, or that of the last device.
    """
    theirs, *ours = (
        tuple(op.micro_batch for op in row if op.kind == "B") for row in (right.rows[-1], *reversed(schedule.rows))
    )
    orders = [order for order in ours if sorted(order) == sorted(theirs)]
    most = max([theirs, *orders], key=orders.count)
    becomes = dict(zip(theirs, most, strict=True))
    rows = [
        [op if op.kind == "F" else op._replace(micro_batch=becomes[op.micro_batch]) for op in row] for row in right.rows
    ]
    return Schedule(rows)


def _beginning(text: str) -> str:
    lines = text.splitlines()
    shown = [line if len(line) <= 60 else f"{line[:56].rpartition(' ')[0]} ..." for line in lines[:3]]
    return "\n".join([*shown, "..."] if len(lines) > 3 else shown)


def about_size(mine: Proposal) -> Iterator[Sign]:
    """One row several times, another number of rows or micro-batches, or a stage that does not exist."""
    alike = len(mine.rows) > 1 and len(set(mine.rows)) == 1 and len({op.stage for op in mine.rows[0]}) > 1
    yield Sign("one-list", alike, words={"lists": plural(len(mine.rows), "row")})
    yield from _rows_counted_wrongly(mine)
    yield from _stages_named_wrongly(mine)
    yield from about_counts(mine, mine.K, mine.M)
    for op in mine.ops:
        yield Sign("other-K", op.stage >= mine.K, words={"K": mine.K, "last": mine.K - 1, "op": op, "stage": op.stage})


def about_counts(mine: Proposal, K: int, M: int) -> Iterator[Sign]:
    """Other than K rows, no ops at all, or other micro-batches than 0 to M - 1."""
    rows = mine.rows
    words = {"rows": plural(len(rows), "row"), "devices": plural(K, "device"), "M": M, "last": M - 1}
    yield Sign("rows", len(rows) != K, words=words)
    if not mine.ops:
        yield from about_rules(mine)
    named = sorted({int(op.micro_batch) for op in mine.ops})
    yield Sign("from-one", all(rows) and named == list(range(1, M + 1)), words=words)
    yield Sign("other-M", all(rows) and named != list(range(M)), words=words | {"named": join_words(named, len(named))})


def _rows_counted_wrongly(mine: Proposal) -> Iterator[Sign]:
    K, M, rows = mine.K, mine.M, mine.rows
    a_row_each = len(rows) == M != K
    yield Sign("by-micro-batch", a_row_each and all(len({op.micro_batch for op in row}) == 1 for row in rows))
    yield Sign("exchanged", a_row_each and _size(rows) == (M, K), words={"K": K, "M": M})
    last = rows[-K:]
    yield Sign(
        "left-over",
        len(rows) > K and _size(last) == (K, M) and _can_run(last) and _can_run(rows[:-K]),
        words={"K": K},
    )


def _stages_named_wrongly(mine: Proposal) -> Iterator[Sign]:
    K, M, rows = mine.K, mine.M, mine.rows
    if len(rows) == K > 1:
        yield Sign("stage-zero", all(rows) and {op.stage for op in mine.ops} == {0})
        by_row = all(op.micro_batch == device for device, row in enumerate(rows) for op in row)
        yield Sign("swapped", mine.schedule.stages == M and by_row)


def _size(rows: tuple[tuple[Op, ...], ...]) -> tuple[int, int]:
    """How many rows there are, and how many micro-batches, if row k holds stage k; else (0, 0)."""
    homes = [{op.stage for op in row} for row in rows]
    named = {op.micro_batch for row in rows for op in row}
    fits = homes == [{k} for k in range(len(rows))] and named == set(range(len(named)))
    return (len(rows), len(named)) if fits else (0, 0)


def _can_run(rows: tuple[tuple[Op, ...], ...]) -> bool:
    return not Schedule(rows).problems()
