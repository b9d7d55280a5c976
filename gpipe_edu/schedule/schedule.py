"""Who does what, in which order: the plain data that everything else in this package reads.

A schedule stores only the order of the ops on each device. It stores no times and no idle slots: those follow from
how long ops take, so they belong to a timeline. That is why one schedule can be simulated, drawn and run for real.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from gpipe_edu.base.validate import whole

from .doctor import Problem, ScheduleError, diagnose
from .needs import Needs, Pair, is_pair
from .notation import check_length, check_numbers, format_rows, guess, parse_rows
from .op import Op
from .order import Turn, run_order
from .pipeline_csv import format_csv, is_pipeline_csv, parse_csv


class Schedule:
    """`Schedule(rows, name="")`: one sequence of `Op` per device, in running order, or a Schedule to copy. Immutable.

    pairs: of a forward and the backward after it on its device, which run as one block (see `needs.py`). On paper a
    block takes as long as `Costs(overlap=...)` says; our engines run the two one after the other.

    Building one checks only that it is made of ops; `problems()` and `check()` tell whether it can run.

    Raises TypeError if `rows` is not a sequence of sequences of `Op`, ValueError for a pair that is not one.
    """

    def __init__(
        self, rows: Iterable[Iterable[Op]] | Schedule, name: str = "", pairs: Iterable[Pair] | None = None
    ) -> None:
        if isinstance(rows, str):
            raise TypeError("Schedule rows came as text; use Schedule.parse(text) for the written form")
        try:
            given = tuple(rows.rows if isinstance(rows, Schedule) else rows)
            if any(isinstance(row, Op) for row in given):  # an op is a tuple too, but no row
                raise TypeError
            self.rows: tuple[tuple[Op, ...], ...] = tuple(tuple(row) for row in given)
        except TypeError:
            raise TypeError(
                f"Schedule rows must hold one sequence of Op per device, such as "
                f'[[Op("F", 0, 0), Op("B", 0, 0)]]; got {rows!r}'
            ) from None
        for device, row in enumerate(self.rows):
            for position, op in enumerate(row):
                if not isinstance(op, Op):
                    raise TypeError(
                        f'Schedule rows[{device}][{position}] is {op!r}; it must be an Op, such as Op("F", 0, {device})'
                    )
        self.name: str = name or (rows.name if isinstance(rows, Schedule) else "")
        if pairs is None:
            pairs = rows.pairs if isinstance(rows, Schedule) else ()
        self.pairs: frozenset[Pair] = frozenset(pairs)
        if self.pairs:
            behind = {pair for row in self.rows for pair in pairwise(row)}
            for pair in self.pairs:
                if pair not in behind or not is_pair(*pair):
                    raise ValueError(
                        f"{pair!r} is no pair: a pair is a forward and, right behind it on its device, the backward of "
                        f"another micro-batch or stage"
                    )

    @property
    def devices(self) -> int:
        """How many devices run this: the number of rows."""
        return len(self.rows)

    @cached_property
    def stages(self) -> int:
        """K, the number of stages: one more than the highest stage named by an op."""
        return 1 + max((op.stage for row in self.rows for op in row), default=-1)

    @cached_property
    def micro_batches(self) -> int:
        """M, the number of micro-batches: one more than the highest one named by an op."""
        return 1 + max((op.micro_batch for row in self.rows for op in row), default=-1)

    @cached_property
    def device_of_stage(self) -> dict[int, int]:
        """The device that runs each stage; in an illegal schedule, the first that names it."""
        homes: dict[int, int] = {}
        for device, row in enumerate(self.rows):
            for op in row:
                homes.setdefault(op.stage, device)
        return homes

    @cached_property
    def needs(self) -> Needs:
        """What each op waits for, besides its turn on its device."""
        return Needs((op for row in self.rows for op in row), self.pairs)

    @cached_property
    def steps(self) -> list[Turn]:
        """One order in which all ops can run one after another, as (device, op, ops it waited for).

        Ops that can never run are left out, so check the schedule first.
        """
        return run_order(self.rows, self.needs)

    @cached_property
    def _problems(self) -> tuple[Problem, ...]:
        return tuple(diagnose(self))

    def problems(self) -> list[Problem]:
        """Every broken rule as `Problem(code, message, op)`, the first broken rule first; [] if it can run."""
        return list(self._problems)

    def check(self) -> Schedule:
        """Return self if this can run. Raises ScheduleError with the first problem's message if not."""
        if self._problems:
            raise ScheduleError(self._problems)
        return self

    def first(self, micro_batches: int) -> Schedule:
        """The same schedule for only the first `micro_batches` micro-batches; a legal one stays legal.

        Engines use it when a mini-batch has fewer samples than the schedule has micro-batches. Raises ValueError
        unless 1 <= micro_batches.
        """
        micro_batches = whole("micro_batches", micro_batches, 1)
        if micro_batches >= self.micro_batches:
            return self
        rows = ((op for op in row if op.micro_batch < micro_batches) for row in self.rows)
        pairs = (pair for pair in self.pairs if all(op.micro_batch < micro_batches for op in pair))
        return Schedule(rows, self.name, pairs)

    def apart(self) -> Schedule:
        """The same order without pairs: for devices that run one op after the other."""
        return Schedule(self.rows, self.name, ()) if self.pairs else self

    @classmethod
    def parse(cls, text: str, name: str = "") -> Schedule:
        """Read the written form: a line per device, ops separated by blanks, such as "F0 F1 B1 B0".

        An op without "@" belongs to the stage with the number of its line; "F0@2" names stage 2. A line "-" is a
        device without ops. Blank lines and comments after "#" are skipped. `str(schedule)` is the inverse.

        A text with cells such as "0F1" (stage 0, micro-batch 1) is read as PyTorch's pipeline CSV, see `to_csv`;
        letters of PyTorch before 2.6 are read as what they meant, with a UserWarning.

        Raises ScheduleError naming line and word for anything else, TypeError for what is not text.
        """
        if isinstance(text, str):
            check_length(text)
        if isinstance(text, str) and is_pipeline_csv(text):
            rows, pairs = parse_csv(text)
        else:
            rows, pairs = parse_rows(text), []
        check_numbers(rows)
        return cls(rows, name, pairs)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """PyTorch's pipeline CSV of this schedule, also written to `path` if there is one: a line for each rank, a cell
        for each op, such as "0F1": stage 0, forward, micro-batch 1, or for each pair, such as "(0F3;7B1)OVERLAP_F_B".
        `parse` is the inverse, but for a C.

        A C is written as B, since in PyTorch the stage says whether it recomputes. Raises ScheduleError if this cannot
        run, ValueError if it has an R, for which there is no letter, OSError if `path` cannot be written.
        """
        text = format_csv(self.check().rows, self.pairs)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8", newline="\n")
        return text

    def __str__(self) -> str:
        return format_rows(self.rows)

    def __repr__(self) -> str:
        name = f"{self.name}, " if self.name else ""
        return f"Schedule({name}devices={self.devices}, stages={self.stages}, micro_batches={self.micro_batches})"

    def __eq__(self, other: object) -> bool:
        """Equal when every device does the same in the same order; neither names nor pairs count."""
        return isinstance(other, Schedule) and self.rows == other.rows

    def __hash__(self) -> int:
        return hash(self.rows)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        """In a notebook: the Gantt chart with default costs, or the first problem if this cannot run."""
        from gpipe_edu.view.notebook import schedule_bundle  # a view reads schedules: loaded only to draw one

        return schedule_bundle(self)


def check_schedule(schedule: Schedule) -> Schedule:
    """`schedule` itself, if it can run. Raises ScheduleError if not, TypeError if it is no Schedule."""
    if not isinstance(schedule, Schedule):
        raise TypeError(
            f"schedule is {schedule!r}; it must be a Schedule, such as gpipe(4, 8) or Schedule.parse(text)"
            f"{meant(schedule)}"
        )
    return schedule.check()


def meant(given: object) -> str:
    """What to write for a schedule that is given as text; "" for anything else."""
    if not isinstance(given, str):
        return ""
    text = given if _reads(given) else guess(given)
    return f". Did you mean ge.Schedule.parse({text!r})?" if text else ""


def _reads(text: str) -> bool:
    try:
        Schedule.parse(text)
    except ScheduleError:
        return False
    return True
