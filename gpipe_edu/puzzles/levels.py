"""Puzzles: pipelines of a given size, what their devices may do, and how short the step has to be.

A level is plain data. It holds no rule of pipeline parallelism: those are the schedule doctor's. There are twelve, in
the order in which they are best solved: eleven from `levels.toml`, and a sandbox of any size.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Final

from gpipe_edu.base.validate import number, whole
from gpipe_edu.base.words import plural
from gpipe_edu.schedule import KINDS, Op
from gpipe_edu.schedule.doctor import WAYS
from gpipe_edu.timeline import Costs

PROOFS: Final = {
    "search": "an exhaustive search, which you can run, finds nothing quicker",
    "bound": "no schedule beats the bound: the busiest device, its wait before and the way back after",
    "": "there is no par: build what you like",
}
"""How a level's par is known."""

MODES: Final = {
    "guided": "moves that break a rule are refused",
    "free": "anything may be placed, and what is wrong is listed",
}
"""How a board judges moves while a schedule is built."""


@dataclass(frozen=True)
class Level:
    """A puzzle on K devices with V stages each and M micro-batches; stage k lives on device k modulo K.

    kinds: letters of the ops that may be used. cap: the most activations that each device may hold, or None; a
    micro-batch on a stage counts `boundary` for its stage input and `interior` for what the layers keep. goal: the
    makespan that solves the level, None if any legal schedule does. par: the best makespan there is, and `par_why`
    says why; proof: a key of `PROOFS`. policy: whose moves the hints show. mode: a key of `MODES`, in which it opens.

    Raises ValueError or TypeError for values that do not make a puzzle.
    """

    key: str
    title: str
    lesson: str
    K: int
    M: int
    kinds: str = "FB"
    costs: Costs = Costs(F=1, B=1)  # noqa: RUF009 (immutable)
    V: int = 1
    cap: tuple[float, ...] | None = None
    boundary: float = 0
    interior: float = 1
    goal: float | None = None
    par: float | None = None
    par_why: str = ""
    proof: str = ""
    policy: str = "1f1b"
    mode: str = "guided"

    def __post_init__(self) -> None:
        for name in ("K", "M", "V"):
            whole(name, getattr(self, name), 1)
        if not self.ways:
            raise ValueError(f"kinds is {self.kinds!r}; with these letters no micro-batch can be finished, try 'FB'")
        table, times = self.costs.table(self.stages), self.costs.times_usual(self.stages, self.M)
        if any(cost <= 0 for costs in (*(table[kind] for kind in self.kinds), *times) for cost in costs):
            raise ValueError(f"costs are {self.costs!r}; in a puzzle every op takes time, so give numbers above 0")
        if self.cap is not None:
            if len(self.cap) != self.K:
                raise ValueError(f"cap is {self.cap!r}; give one number for each of the {self.K} devices")
            for device, most in enumerate(self.cap):
                if number(f"cap[{device}]", most) < (self.boundary + self.interior) * max(self.sizes):
                    raise ValueError(f"cap[{device}] is {most:g}; device {device} could not hold a single micro-batch")
        if self.mode not in MODES or self.proof not in PROOFS:
            raise ValueError(f"mode is {self.mode!r} and proof {self.proof!r}; see MODES and PROOFS")

    @property
    def stages(self) -> int:
        """How many stages there are: K V."""
        return self.K * self.V

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways to pass and finish a micro-batch on a stage with the kinds of this level."""
        return tuple(way for way in WAYS if set(way) <= set(self.kinds))

    @property
    def sizes(self) -> tuple[float, ...]:
        """Per micro-batch, how many times the usual memory its activations take."""
        return self.costs.sizes or (1,) * self.M

    @cached_property
    def alike(self) -> tuple[int, ...]:
        """Per micro-batch: the first one whose ops take as long, and which holds as much."""
        columns = list(zip(*self.costs.times_usual(self.stages, self.M), strict=True))
        return tuple(map(columns.index, columns))

    @property
    def counts_micro_batches(self) -> bool:
        """True if memory is counted in whole micro-batches."""
        return (self.boundary, self.interior, max(self.sizes)) == (0, 1, 1)

    @property
    def unit(self) -> str:
        """What memory is counted in; caps are whole numbers, so a micro-batch counts once on every stage."""
        if not self.counts_micro_batches:
            return "units"
        return "micro-batches" if self.V == 1 else "micro-batches (counted per stage)"

    def amount(self, held: float) -> str:
        """What a device holds, in words."""
        shown = f"{held:g}"
        return (
            f"{shown} {self.unit.replace('batches', 'batch').replace('units', 'unit') if shown == '1' else self.unit}"
        )

    def home(self, stage: int) -> int:
        """The device that holds a stage."""
        return stage % self.K

    def ops(self) -> Iterator[Op]:
        """Every op that may stand on the board."""
        for micro_batch in range(self.M):
            for stage in range(self.stages):
                for kind in self.kinds:
                    yield Op(kind, micro_batch, stage)

    def task(self) -> str:
        """What is to be built, in one or two sentences."""
        sizes = [plural(self.K, "device")]
        if self.V > 1:
            sizes.append(f"{self.V} stages on each (device k holds stages k, k + {self.K}, ...)")
        sizes.append(plural(self.M, "micro-batch"))
        kinds = ", ".join(f"{kind} {KINDS[kind]}" for kind in self.kinds)
        text = f"{', '.join(sizes)}. Ops: {kinds}. {self.prices()}."
        if self.cap is not None:
            most = ", ".join(f"{most:g}" for most in self.cap)
            held = self.unit if self.counts_micro_batches else "units of activations"
            text += f" Devices 0 to {self.K - 1} may hold at most {most} {held}"
            if self.costs.sizes:
                text += f"; micro-batches 0 to {self.M - 1} take {_joined(self.sizes)} of them"
            elif not self.counts_micro_batches:
                text += (
                    f"; a stage input is {self.boundary:g}, what its layers keep for backward {self.interior:g} more, "
                    f"dropped after F if R or C brings it back"
                )
            text += "."
        target = "Build any schedule that can run." if self.goal is None else f"Be done by time {self.goal:g}."
        return f"{text} {target}"

    def prices(self) -> str:
        """How long ops take, in words."""
        table = self.costs.table(self.stages)
        words = []
        for kind in self.kinds:
            costs = table[kind]
            words.append(f"{kind} takes " + (f"{costs[0]:g}" if len(set(costs)) == 1 else _joined(costs)))
        if any(len(set(table[kind])) > 1 for kind in self.kinds):
            words[0] += f" on stages 0 to {self.stages - 1}"
        for stage, times in enumerate(self.costs.times_usual(self.stages, self.M)):
            if self.costs.micro_batches and (stage == 0 or not self.costs.sizes):
                where = "" if self.costs.sizes else f" on stage {stage}"
                words.append(f"each times {_joined(times)} for micro-batches 0 to {self.M - 1}{where}")
        if self.costs.send:
            words.append(f"sending to another device {self.costs.send:g}")
        return ", ".join(words)


def _joined(numbers: Iterable[float]) -> str:
    return "/".join(f"{one:g}" for one in numbers)


SANDBOX: Final = "sandbox"
"""The key of the last level, whose sizes the player chooses."""

LARGEST: Final = {"K": 16, "M": 64, "V": 8}
"""How large a sandbox may be."""


def sandbox(K: int = 4, M: int = 8, V: int = 1, B: float = 2, send: float = 0, cap: float | None = None) -> Level:
    """A level of your own: any sizes, every kind of op; F takes 1, and every device may hold `cap` micro-batches.

    Raises ValueError or TypeError for sizes that make no pipeline, or that are larger than `LARGEST`.
    """
    for name, value in (("K", K), ("M", M), ("V", V)):
        if whole(f"sandbox {name}", value, 1) > LARGEST[name]:
            raise ValueError(f"sandbox {name} is {value}; it must be at most {LARGEST[name]}")
    return Level(
        SANDBOX,
        "Your own sandbox",
        "Whatever you want to find out: any op, any order, no par.",
        K,
        M,
        kinds="FBRCIW",
        V=V,
        costs=Costs(F=1, B=number("sandbox B", B), send=number("sandbox send", send)),
        cap=None if cap is None else (number("sandbox cap", cap),) * K,
        policy="1f1b",
        mode="free",
    )


def _read() -> Iterator[Level]:
    """The levels of `levels.toml`."""
    text = files(__package__).joinpath("levels.toml").read_text(encoding="utf-8")
    for key, entry in tomllib.loads(text).items():
        costs, cap = Costs(**entry.pop("costs", {"F": 1, "B": 1})), entry.pop("cap", None)
        yield Level(key, costs=costs, cap=cap and tuple(cap), **entry)


LEVELS: Final[tuple[Level, ...]] = (*_read(), sandbox())
"""All levels, in the order in which they are best solved; any of them can be opened at any time."""


def find_level(key: str) -> Level:
    """The level with that key, or of that number counted from 1. Raises ValueError for another."""
    meant = key.strip().lower().replace("_", "-").replace(" ", "-")
    for number_, level in enumerate(LEVELS, start=1):
        if meant in (level.key, str(number_)):
            return level
    known = ", ".join(f"{number_} {level.key}" for number_, level in enumerate(LEVELS, start=1))
    raise ValueError(f"level is {key!r}; it must be one of {known}")
