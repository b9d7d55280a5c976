"""How long ops take on paper, so that a schedule can be timed before anything runs; or took in a measured timeline, so
that a plan can be compared with the run it models.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, cast

from gpipe_edu.base.validate import NUMBER_OR_LIST, number, numbers, per_stage, whole
from gpipe_edu.base.words import plural
from gpipe_edu.schedule import Op, Schedule

if TYPE_CHECKING:
    from .timeline import Timeline

Cost = float | Sequence[float]
"""One number for all stages, or one per stage."""

UNITS: Final = ("", "s")
"""A unit of your own, or seconds."""


@dataclass(frozen=True)
class Costs:
    """Time per op kind: numbers, or one value per stage; in any unit you like, or in seconds if unit is "s".

    R defaults to F, C to R + B, I and W to B / 2 (stage by stage): a toy's law, for layers that are only matrices, as
    attention has no weights and so no W; `of_transformer` has a block's own. A message to another device costs link +
    send, and no device is busy meanwhile: link is the time that it keeps its link busy, its bytes over the bandwidth;
    send is the latency, from the end of an op, or from when its message has left the link, to its use there. Between
    two devices there is a link in each direction, which carries one message at a time, in the order of sending.

    overlap: how much of the shorter op of a pair that runs as one block hides behind the longer one, from 0, nothing,
    to 1, all of it (see `Schedule.pairs`).

    micro_batches: how many times these costs each micro-batch takes, a number for each. Its messages keep a link busy
    so many times as long, too: both grow with its tokens. Or a list of such numbers for each stage, and then of its ops
    alone, as if only some of the samples had images, which the encoder on stage 0 works on. None: all are alike.

    Raises TypeError for what is not a number or a list of numbers, ValueError for a negative or infinite one or an
    unknown unit.
    """

    F: Cost = 1
    B: Cost = 2
    R: Cost | None = None
    C: Cost | None = None
    I: Cost | None = None  # noqa: E741 (the field's letter for the input gradient)
    W: Cost | None = None
    send: float = 0
    link: float = 0
    unit: str = ""
    overlap: float = 0
    micro_batches: Sequence[float] | Sequence[Sequence[float]] | None = None

    def __post_init__(self) -> None:
        number("Costs send", self.send)
        number("Costs link", self.link)
        if number("Costs overlap", self.overlap) > 1:
            raise ValueError(f"Costs overlap is {self.overlap:g}; it must be a share, from 0 to 1")
        if self.unit not in UNITS:
            raise ValueError(f"Costs unit is {self.unit!r}; it must be 's' for seconds or '' for a unit of your own")
        for kind in "FBRCIW":
            value = getattr(self, kind)
            if isinstance(value, Real):
                number(f"Costs {kind}", value)
            elif value is not None or kind in "FB":
                # As a tuple, so that costs cannot change after they were checked.
                object.__setattr__(self, kind, numbers(f"Costs {kind}", value, NUMBER_OR_LIST))
        if self.micro_batches is not None:
            object.__setattr__(self, "micro_batches", _of_micro_batches(self.micro_batches))

    @classmethod
    def of_transformer(
        cls, width: int, tokens: int, *, matrices: int | None = None, causal: bool = False, **more: Any
    ) -> Costs:
        """F, I and W of a Transformer's block, in units of its forward: F = 1, B = 2 = I + W.

        width: h, numbers per token; tokens: s, of a text. matrices: weights of the block's matrices; 12 h^2, those of
        a plain block, unless given. causal: whether its attention leaves out what it masks, half of the square. more:
        `send` and `link`, in the same unit.

        Operations per token, with P weights: the matrices cost 2 P in F, 2 P in I and 2 P in W. Queries with keys and
        weights with values are products of two activations: 4 s h in F, and twice that in I, nothing in W. With
        P = 12 h^2 that is, per token and width, F 24 h + 4 s, I 24 h + 8 s, W 24 h (counted; Qi et al. 2024, arXiv
        2401.10241, table 1, has W < F < I likewise).

        Raises TypeError for what is no whole number, ValueError for one below 1.
        """
        h, s = whole("width", width, 1), whole("tokens", tokens, 1)
        weights = 2 * (12 * h * h if matrices is None else whole("matrices", matrices, 1))
        attention = 4 * s * h / (2 if causal else 1)
        forward = weights + attention
        return cls(F=1, B=2, I=(weights + 2 * attention) / forward, W=weights / forward, **more)

    def table(self, stages: int) -> dict[str, tuple[float, ...]]:
        """The cost of every kind on each of `stages` stages. Raises ValueError if a sequence has another length."""
        table = {}
        for kind in "FBRCIW":
            value = getattr(self, kind)
            if value is not None:
                table[kind] = per_stage(f"Costs {kind}", value, stages)
        table.setdefault("R", table["F"])
        table.setdefault("C", tuple(r + b for r, b in zip(table["R"], table["B"], strict=True)))
        for kind in "IW":
            table.setdefault(kind, tuple(b / 2 for b in table["B"]))
        return table

    def durations(self, schedule: Schedule) -> Callable[[Op], float]:
        """A function that gives how long an op of `schedule` takes. Raises ValueError if a list does not fit it."""
        table = self.table(schedule.stages)
        if self.micro_batches is None:
            return lambda op: table[op[0]][op[2]]
        times = self.times_usual(schedule.stages, schedule.micro_batches)
        return lambda op: table[op[0]][op[2]] * times[op[2]][op[1]]

    def times_usual(self, stages: int, M: int) -> Sequence[Sequence[float]]:
        """How many times the usual cost an op takes, by stage and micro-batch: 1 each if all are alike. Raises
        ValueError if a list does not fit.
        """
        if self.micro_batches is None:
            return ((1,) * M,) * stages
        given = cast("tuple[tuple[float, ...], ...]", self.micro_batches)
        times = (self.sizes,) * stages if self.sizes else given
        if len(times) != stages:
            raise ValueError(
                f"Costs micro_batches has {plural(len(times), 'list')}, but there are {stages} stages; give a number "
                f"for each micro-batch, or such a list for each stage"
            )
        for row in times:
            if len(row) != M:
                raise ValueError(
                    f"Costs micro_batches has {plural(len(row), 'number')}, but there are {M} micro-batches; give {M}"
                )
        return times

    @property
    def sizes(self) -> tuple[float, ...]:
        """How many times the usual time each micro-batch's messages keep a link busy; () if all are alike."""
        given = self.micro_batches
        return given if isinstance(given, tuple) and isinstance(given[0], Real) else ()

    def of(self, op: Op, schedule: Schedule) -> float:
        """How long `op` of `schedule` takes."""
        return self.durations(schedule)(op)


def _of_micro_batches(given: Any) -> tuple[float, ...] | tuple[tuple[float, ...], ...]:
    """The checked numbers for each micro-batch, or such for each stage."""
    name, allowed = "Costs micro_batches", "a list of one number per micro-batch, or such a list for each stage"
    if isinstance(given, Sequence) and given and not any(isinstance(one, (Real, str)) for one in given):
        return tuple(numbers(f"{name}[{stage}]", row) for stage, row in enumerate(given))
    found = numbers(name, given, allowed)
    if not found:
        raise ValueError(f"{name} is empty; it must be {allowed}")
    return found


def calibrate(timeline: Timeline) -> Costs:
    """For every kind of op and stage the mean duration in `timeline`; send is the mean delay of a transfer,
    and link is 0: one run does not tell a slow link from a busy one.

    A plan with them has the timeline's unit, so both share an axis. Raises ValueError if the timeline lacks a kind
    that `Costs` cannot derive, that is F, or all of B, C and I.
    """
    durations: dict[tuple[str, int], list[float]] = defaultdict(list)
    for span in timeline.spans:
        durations[span.op.kind, span.op.stage].append(span.end - span.start)
    stages = 1 + max(span.op.stage for span in timeline.spans)
    found: dict[str, Any] = {
        kind: [fmean(durations[kind, k]) if durations[kind, k] else 0.0 for k in range(stages)]
        for kind in {kind for kind, _ in durations}
    }
    if "F" not in found or not found.keys() & set("BCI"):
        raise ValueError("costs can be taken only from a timeline that has forwards and backwards")
    if "B" not in found:
        # The schedule has no B, but Costs requires a number for it.
        found["B"] = found.get("C") or [i + w for i, w in zip(found["I"], found["W"], strict=True)]
    return Costs(**found, send=_send(timeline), link=0, unit=timeline.unit)


def _send(timeline: Timeline) -> float:
    """How long after its input's end an op starts, where that input came from elsewhere and was what it waited for."""
    span_of: dict[Op, tuple[float, int]] = {span.op: (span.end, span.device) for span in timeline.spans}
    delays = []
    for device in range(timeline.devices):
        free = timeline.start
        for span in timeline.row(device):
            needs = [span_of[need] for need in timeline.needs(span.op)]
            last, where = max(needs, default=(free, device))
            if where != device and last > free:
                delays.append(span.start - last)
            free = span.end
    return max(0.0, fmean(delays)) if delays else 0.0
