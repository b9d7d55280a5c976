"""How long ops take on paper, so that a schedule can be timed before anything runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Real

from gpipe_edu.schedule import Op, Schedule

Cost = float | Sequence[float]
"""One number for all stages, or one per stage."""


@dataclass(frozen=True)
class Costs:
    """Time per op kind, in any unit you like: numbers, or one value per stage.

    R defaults to F, C to R + B, I and W to B / 2 (stage by stage). send is the time from the end of an op to its use
    on another device; no device is busy meanwhile.

    Raises TypeError for what is not a number or a sequence of numbers, ValueError for a negative or infinite one.
    """

    F: Cost = 1
    B: Cost = 2
    R: Cost | None = None
    C: Cost | None = None
    I: Cost | None = None  # noqa: E741 (the field's letter for the input gradient)
    W: Cost | None = None
    send: float = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if not isinstance(value, Real):
                if field.name == "send" or isinstance(value, str):
                    raise TypeError(f"Costs {field.name} is {value!r}; it must be a number")
                try:
                    object.__setattr__(self, field.name, tuple(value))
                except TypeError:
                    raise TypeError(
                        f"Costs {field.name} is {value!r}; it must be a number or one number per stage"
                    ) from None
            for number in _values(getattr(self, field.name)):
                if isinstance(number, bool) or not isinstance(number, Real):
                    raise TypeError(f"Costs {field.name} has {number!r}; every cost must be a number")
                if not 0 <= number < math.inf:
                    raise ValueError(f"Costs {field.name} has {number!r}; a cost is finite and at least 0")

    def table(self, stages: int) -> dict[str, tuple[float, ...]]:
        """The cost of every kind on each of `stages` stages. Raises ValueError if a sequence has another length."""
        table = {}
        for kind in "FBRCIW":
            value = getattr(self, kind)
            if value is not None:
                table[kind] = self._per_stage(kind, value, stages)
        table.setdefault("R", table["F"])
        table.setdefault("C", tuple(r + b for r, b in zip(table["R"], table["B"], strict=True)))
        for kind in "IW":
            table.setdefault(kind, tuple(b / 2 for b in table["B"]))
        return table

    def of(self, op: Op, schedule: Schedule) -> float:
        """How long `op` of `schedule` takes."""
        return self.table(schedule.stages)[op.kind][op.stage]

    @staticmethod
    def _per_stage(kind: str, value: Cost, stages: int) -> tuple[float, ...]:
        if isinstance(value, Sequence):
            if len(value) != stages:
                raise ValueError(
                    f"Costs {kind} has {len(value)} values, but the schedule has {stages} stages; give one number "
                    f"for all stages or {stages} of them"
                )
            return tuple(value)
        return (value,) * stages


def _values(value: Cost) -> Sequence[float]:
    return value if isinstance(value, Sequence) else (value,)
