"""The settings of the explorer's controls, and the resulting timeline: checked here, so the page needs no rules.

Settings are typed by people, so every refusal is one sentence that says what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final

from gpipe_edu.base.validate import number, numbers, whole
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.recipes import RECIPES, form_of, recipe_name
from gpipe_edu.schedule.recompute import with_kinds, with_recompute
from gpipe_edu.timeline import Costs, Timeline, simulate

RECOMPUTE_WHEN: Final = {"none": "none", "late": "late (C)", "early": "early (R, then B)"}
MOST: Final = {"K": 64, "M": 256, "V": 8, "stages": 64, "cost": 1000}
"""Upper limits: beyond them a chart is unreadable, and an op as long as a thousand others hides them. The sliders of K
and M end earlier (`REACH` in `js/controls.js`)."""


@dataclass(frozen=True)
class Settings:
    """The explorer's controls. factors: how many times the costs each stage takes, 1 for those not given. overlap: how
    much of the shorter op of a block hides behind the longer one.

    Raises ValueError or TypeError, in one sentence, for what the controls do not allow.
    """

    schedule: str = "gpipe"
    K: int = 4
    M: int = 8
    V: int = 2
    recompute: str = "none"
    F: float = 1
    B: float = 2
    R: float = 1
    send: float = 0
    link: float = 0
    overlap: float = 0
    factors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.schedule, str):  # as in a terminal: 1F1B is 1f1b
            object.__setattr__(self, "schedule", recipe_name(self.schedule) or self.schedule)
        for name, known in (("schedule", schedules()), ("recompute", tuple(RECOMPUTE_WHEN))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(known)}")
        for name in ("K", "M", "V"):
            if whole(name, getattr(self, name), 1) > MOST[name]:
                raise ValueError(f"{name} is {getattr(self, name)}; choose 1 to {MOST[name]}")
        for name in ("F", "B", "R", "send", "link"):
            _check_cost(name, number(name, getattr(self, name)))
        if number("overlap", self.overlap) > 1:
            raise ValueError(f"overlap is {self.overlap:g}; choose 0 to 1")
        object.__setattr__(self, "factors", numbers("factors", self.factors))
        for index, factor in enumerate(self.factors):
            _check_cost(f"the factor of stage {index}", factor)
        if self.stages > MOST["stages"]:
            raise ValueError(
                f"K = {self.K} and V = {self.stages // self.K} make {self.stages} stages; "
                f"choose a smaller K or V, for at most {MOST['stages']}"
            )
        if self.recompute == "late" and form_of(self.schedule).splits:
            raise ValueError(
                f"{_words(self.schedule)} splits the backward into I and W, so there is no checkpointed backward C; "
                f"choose early recompute or none"
            )

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Settings:
        """The settings that a page asks for; other keys are ignored. A box may have been emptied."""
        given = {field.name: request[field.name] for field in fields(cls) if field.name in request}
        for name, value in given.items():
            if value is None or (name == "factors" and None in value):
                raise ValueError(f"{name} is empty; type a number")
        return cls(**given)

    @property
    def stages(self) -> int:
        """How many stages there are."""
        form = form_of(self.schedule)
        return self.K * (self.V if form.takes_V else form.stages)

    def build(self) -> Schedule:
        """The schedule."""
        V = {"V": self.V} if form_of(self.schedule).takes_V else {}
        plain = RECIPES[self.schedule](self.K, self.M, **V)
        if self.recompute == "none":
            return plain
        again = with_recompute(plain, "always") if self.recompute == "early" else with_kinds(plain, {"B": "C"})
        return Schedule(again, name=f"{plain.name} {self.recompute} recompute")

    def costs(self) -> Costs:
        """The cost of every kind of op, per stage where stages are uneven."""
        links: dict[str, Any] = {"send": self.send, "link": self.link, "overlap": self.overlap}
        if set(self.factors) <= {1}:
            return Costs(F=self.F, B=self.B, R=self.R, **links)
        factors = [*self.factors, *[1] * self.stages][: self.stages]
        F, B, R = ([cost * factor for factor in factors] for cost in (self.F, self.B, self.R))
        return Costs(F=F, B=B, R=R, **links)

    def timeline(self) -> Timeline:
        """The planned timeline. Cached, for controls that go back and forth."""
        return _timeline(self)


@lru_cache(maxsize=32)
def _timeline(settings: Settings) -> Timeline:
    return simulate(settings.build(), settings.costs())


def recognise(schedule: Schedule) -> Settings | None:
    """The settings that build `schedule`, with default costs; None if it is no recipe within the explorer's limits."""
    kinds = {op.kind for row in schedule.rows for op in row}
    recompute = "early" if "R" in kinds else "late" if "C" in kinds else "none"
    if not (1 <= schedule.devices <= MOST["K"] and 1 <= schedule.micro_batches <= MOST["M"]):
        return None
    stages, rest = divmod(schedule.stages, schedule.devices)
    if rest or schedule.stages > MOST["stages"]:
        return None
    # First the recipe with its name: building a large schedule takes longer than comparing it.
    for name in sorted(schedules(), key=lambda name: not schedule.name.startswith(_words(name))):
        form = form_of(name)
        fits = stages <= MOST["V"] if form.takes_V else stages == form.stages
        if not fits or ("W" in kinds) != form.splits or (form.splits and recompute == "late"):
            continue
        V = stages if form.takes_V else Settings.V
        found = Settings(name, schedule.devices, schedule.micro_batches, V, recompute)
        if found.build() == schedule:
            return found
    return None


def schedules() -> tuple[str, ...]:
    """The recipes to choose from: those without recompute of their own, because that is a separate setting."""
    return tuple(name for name in RECIPES if not form_of(name).recomputes)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _check_cost(name: str, value: float) -> None:
    if value > MOST["cost"]:
        raise ValueError(f"{name} is {value:g}; choose 0 to {MOST['cost']}")
