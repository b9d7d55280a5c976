"""Why a schedule cannot run, in sentences for people who wrote it by hand.

Rules are tried in the order of `CODES`, and a problem found early makes later rules moot: a deadlock's chain is no help
when an op is missing. So the first problem is the one to fix first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from gpipe_edu.base.validate import SaidPlainly
from gpipe_edu.base.words import join_words

from .deadlock import circle
from .needs import Cell
from .op import KINDS, Op

if TYPE_CHECKING:
    from .schedule import Schedule

CODES: Final[dict[str, str]] = {
    "unreadable": "a word of the written form is not an op",
    "empty": "there is no op at all, or a device has none",
    "out-of-range": "micro-batches or stages are not numbered 0, 1, 2, ... without gaps",
    "split-stage": "a stage has ops on two devices",
    "duplicate": "the same op is there twice",
    "mixed": "a micro-batch is finished on a stage in two ways at once",
    "missing": "a micro-batch lacks its forward, or what finishes it, on a stage",
    "order": "a device runs an op before another of its own ops that it needs",
    "deadlock": "ops on several devices wait for each other in a circle",
}
"""Every problem code and what it means, in the order in which the rules are tried."""

WAYS: Final = ("FB", "FRB", "FC", "FIW", "FRIW")
"""The ops of one micro-batch on one stage: every way to pass and finish it, in the order in which they run."""

_LEGAL: Final = frozenset(frozenset(kinds) for kinds in WAYS)

_MOST_MISSING: Final = 10_000
"""Ops that are named as missing."""

_REASONS: Final[dict[tuple[str, str], str]] = {
    ("R", "F"): "a recompute needs the input that its forward stored",
    ("B", "F"): "a backward needs the activations of its forward",
    ("C", "F"): "a checkpointed backward needs the input that its forward stored",
    ("I", "F"): "an input gradient needs the activations of its forward",
    ("B", "R"): "a backward needs the activations that the recompute brings back",
    ("I", "R"): "an input gradient needs the activations that the recompute brings back",
    ("W", "I"): "a weight gradient needs what the input gradient's pass leaves behind",
    ("F", "F"): "a forward needs the output of the stage in front",
}
_GRADIENT_REASON: Final = "a backward needs the gradient from the next stage"


def reason(op: Op, need: Op) -> str:
    """Why `op` waits for `need`, one of the ops that it needs, in a clause."""
    return _REASONS.get((op.kind, need.kind), _GRADIENT_REASON)


class Problem(NamedTuple):
    """One broken rule: its code (a key of `CODES`), a sentence for the learner, and the op to look at, if any."""

    code: str
    message: str
    op: Op | None


class ScheduleError(SaidPlainly, ValueError):
    """A schedule that cannot run. `.problems` holds all broken rules; the message is the first one's."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems[0].message)
        self.problems = list(problems)

    def __reduce__(self) -> tuple[type[ScheduleError], tuple[list[Problem]]]:
        return type(self), (self.problems,)


def diagnose(schedule: Schedule) -> list[Problem]:
    """Every broken rule of the first kind of rule that is broken; [] for a schedule that can run."""
    for rule in (_empty, _out_of_range, _split_stage, _duplicate, _incomplete, _order, _deadlock):
        problems = list(rule(schedule))
        if problems:
            return problems
    return []


def _empty(schedule: Schedule) -> Iterator[Problem]:
    if not any(schedule.rows):
        yield Problem("empty", "the schedule has no ops; give every device a row such as F0 B0", None)
        return
    for device, row in enumerate(schedule.rows):
        if not row:
            message = f"device {device} has no ops; give it a stage, or leave its row out"
            yield Problem("empty", message, None)


def _out_of_range(schedule: Schedule) -> Iterator[Problem]:
    for field, what, plural in ((1, "micro-batch", "micro-batches"), (2, "stage", "stages")):
        named = {int(op[field]) for row in schedule.rows for op in row}
        gap = next((index for index in range(len(named)) if index not in named), None)
        if gap is None:
            continue
        from_one = gap == 0 and named == set(range(1, len(named) + 1))  # one slip, whatever the number of ops
        for device, row in enumerate(schedule.rows):
            for op in row:
                if int(op[field]) > gap:
                    message = (
                        f"{op} on device {device} is {what} {op[field]}, but no op is {what} {gap}: "
                        f"{plural} are numbered 0, 1, 2, ... without gaps"
                    )
                    if from_one:
                        yield Problem("out-of-range", f"{message}. Take 1 from each", op)
                        return
                    yield Problem("out-of-range", message, op)


def _split_stage(schedule: Schedule) -> Iterator[Problem]:
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for device, row in enumerate(schedule.rows):
        for op in row:
            counts[op[2]][device] += 1
    # Where a stage is split, the device with most of its ops is taken for its home and the others for mistakes.
    homes = {stage: devices.most_common(1)[0][0] for stage, devices in counts.items() if len(devices) > 1}
    if not homes:
        return
    for device, row in enumerate(schedule.rows):
        for op in row:
            home = homes.get(op[2], device)
            if home != device:
                message = (
                    f"{op} is on device {device}, but stage {op.stage} is on device {home}: "
                    f"all ops of a stage run where its weights are"
                )
                yield Problem("split-stage", message, op)


def _duplicate(schedule: Schedule) -> Iterator[Problem]:
    for device, row in enumerate(schedule.rows):
        if len(set(row)) < len(row):
            for op, times in Counter(row).items():
                if times > 1:
                    often = "twice" if times == 2 else f"{times} times"
                    message = f"{op} appears {often} on device {device}; every op runs exactly once"
                    yield Problem("duplicate", message, op)


def _incomplete(schedule: Schedule) -> Iterator[Problem]:
    cells: dict[Cell, set[str]] = defaultdict(set)
    for row in schedule.rows:
        for kind, micro_batch, stage in row:
            cells[micro_batch, stage].add(kind)
    mixed: list[Problem] = []
    missing: list[Problem] = []
    # Kinds that nobody has written are no help: for a schedule of F, R and B, no I or W is mentioned.
    ways = [way for way in WAYS if set(way) <= {"F"}.union(*cells.values())] or ["FB"]
    for micro_batch in range(schedule.micro_batches):
        for stage in range(schedule.stages):
            kinds = cells.get((micro_batch, stage), set())
            if kinds in _LEGAL:
                continue
            if len(missing) == _MOST_MISSING:  # few ops with large numbers would lack hundreds of millions
                yield from mixed or missing
                return
            problem = _judge_cell(kinds, micro_batch, stage, schedule.device_of_stage[stage], ways)
            (mixed if problem.code == "mixed" else missing).append(problem)
    yield from mixed or missing


def _judge_cell(kinds: set[str], micro_batch: int, stage: int, device: int, ways: Sequence[str]) -> Problem:
    def op(kind: str) -> Op:
        return Op(kind, micro_batch, stage)

    if not any(kinds | {"F"} <= legal for legal in _LEGAL):
        present = [kind for kind in KINDS if kind in kinds and kind != "F"]
        ops = " and ".join(str(op(kind)) for kind in present)
        reason = "C recomputes by itself, so no R goes with it; " if {"R", "C"} <= kinds else ""
        message = f"device {device} has {ops}: {reason}a micro-batch is finished on a stage {_write_ways(ways)}"
        return Problem("mixed", message, op(present[-1]))
    if "F" not in kinds:
        absent, why = "F", "every micro-batch passes forward through every stage"
    elif "W" in kinds:
        absent, why = "I", "a weight gradient needs its input gradient's pass first"
    elif "I" in kinds:
        absent, why = "W", "after I the stage's weights still lack their gradient from this micro-batch"
    else:
        fitting = next((way for way in ways if kinds <= set(way)), "FRB")
        absent = next(kind for kind in fitting if kind not in kinds)
        several = f", {_write_ways(ways)}" if len(ways) > 1 else ""
        why = f"every micro-batch is finished on every stage{several}"
    return Problem("missing", f"{op(absent)} is missing on device {device}: {why}", op(absent))


def _write_ways(ways: Sequence[str]) -> str:
    """After the forward: "by B, by R and B, or by C"."""
    written = ["by " + join_words(way[1:], last=" and ") for way in ways]
    return join_words(written, last=", or ")


def _order(schedule: Schedule) -> Iterator[Problem]:
    if len(schedule.steps) == sum(map(len, schedule.rows)):
        return
    for device, row in enumerate(schedule.rows):
        position = {op: index for index, op in enumerate(row)}
        for index, op in enumerate(row):
            for need in schedule.needs(op):
                if position.get(need, -1) > index:
                    message = f"device {device} runs {op} before {need}, but {reason(op, need)}"
                    yield Problem("order", message, op)


def _deadlock(schedule: Schedule) -> Iterator[Problem]:
    waits = circle(schedule)
    if not waits:
        return
    links = []
    for device, op, need, other, before in waits:
        where = f" on device {other}" if need == before else f", which device {other} runs after {before}"
        links.append(f"{op} on device {device} waits for {need}{where}")
    # A line each: a notebook would break such a long sentence in the middle of a word.
    indent = " " * len("deadlock: ")
    yield Problem("deadlock", "deadlock: " + f";\n{indent}".join(links), waits[0].op)
