"""The sizing guide: all plans for a job, the best of them with the reason, or what is short and what would cure it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise, product
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpipe_edu.base.words import join_words, plural
from gpipe_edu.schedule.recipes import form_of

from .flags import SYSTEMS, lacking, lacks_on, where
from .in_words import PARTS, bar, duration, size
from .job import MOST_DEVICES, Job
from .plan import PAIRED, RECOMPUTES, SCHEDULES, ZERO, Plan
from .stages import HIDES, Counter
from .systems import full_name

if TYPE_CHECKING:
    from .page.explorer import PlanExplorer

MOST_MICRO_BATCHES: Final = 512
"""Beyond this a table of plans would take minutes, not seconds."""

TIE: Final = 0.04
"""Plans of one job whose steps differ by less than this share cannot be told apart. They share most of what the costs
get wrong, so this is less than `LIKELY` allows. Of the published runs there are 69 pairs of one model on the same
devices, divided in two ways: where the planned steps differ by less, half of the pairs were reported in the planned
order, no more than a coin would get right; of the others, 85 % (`pairs` of benchmarks/published_runs.py)."""

SMALL: Final = 0.01
"""What saves less than this share of a step is neither searched for nor told."""

ROOMY: Final = 0.8
"""A plan that needs at most this share of the memory that may be used has some to spare. Of the 38 published runs that
report their memory, all but one held at most 1.16 times what is planned, and this leaves room for 1.25 times."""

_MORE: Final = 0.03
"""The least share of that memory that a safer plan has to save."""

LIKELY: Final = (0.9, 1.16)
"""Of the published runs that the costs are fitted to, four in five took between these multiples of the planned time, a
tenth less, a tenth more; of those that nothing was fitted to, about half were between them."""

FAR: Final = 1.25
"""Where there are many plans, those that take this many times as long as the best are not shown."""

LONG: Final = 8192
"""Tokens that each device must have of a sequence before sequences are cut."""

_MANY: Final = 8
"""The fewest devices that divide a layer's experts among them, where there are more than `_FEW`."""

_FEW: Final = 16
"""Up to so many devices, any number of them may be used, and every V. Of more, all are used, with K a divisor, and a
larger V only where it saves more than `SMALL`, and experts are on fewer than `_MANY` only where they can't be on more.
Up to so many samples per replica, micro-batches may have any size; with more, their size or M is a power of two."""


USUAL: Final = tuple(name for name in SCHEDULES if name not in ("interleaved_zero_bubble", "dual_pipe_v"))
"""What is weighed unless told otherwise. Only torchtitan has those left out."""

ANY: Final = "any"
"""No system is asked for, of those that could run a plan."""


OF_MIXTURES: Final = (
    "Of 54 published runs of mixtures of experts, 65 % are planned within 15 % of what they took, 52 % of those that "
    "were set aside before any was looked at; the others up to 64 % too fast or 63 % too slow. Measure one step "
    "(--calibrate)."
)
"""What is said beside each of their plans."""


class SearchSpace(NamedTuple):
    """What a guide weighs besides every D, K and M: all that it knows, unless told to weigh less."""

    zero: tuple[int, ...] = ZERO
    tensor: tuple[int, ...] = (1, 2, 4, 8)
    sequence: tuple[bool, ...] = (True,)  # without it a tensor group is never faster, and never smaller
    context: tuple[int, ...] = (1, 2, 4, 8, 16)
    schedules: tuple[str, ...] = USUAL
    V: tuple[int, ...] = (2, 4, 8)
    recompute: tuple[str, ...] = tuple(RECOMPUTES)
    experts: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)  # over so many devices, of a mixture
    hide: tuple[str, ...] = ("none",)  # what hides its messages
    on: str = ANY  # a system that must have all that a plan wants

    def check(self) -> SearchSpace:
        """Return self, with every schedule where torchtitan is to run it: it has them all.

        Raises ValueError for what is not known, and for nothing to weigh.
        """
        if self.on not in (ANY, *SYSTEMS):
            raise ValueError(f"on is {self.on!r}; it may be {', '.join((ANY, *SYSTEMS))}")
        known: dict[str, tuple[Any, ...]] = {"zero": ZERO, "schedules": SCHEDULES, "recompute": tuple(RECOMPUTES)}
        known["hide"] = tuple(HIDES)
        for name, values in self._asdict().items():
            if not values:
                raise ValueError(f"{name} is empty; there must be at least one value to weigh")
        for name, allowed in known.items():
            for value in getattr(self, name):
                if value not in allowed:
                    raise ValueError(f"{name} has {value!r}; it may have {', '.join(map(str, allowed))}")
        return self._replace(schedules=SCHEDULES) if (self.on, self.schedules) == ("torchtitan", USUAL) else self

    def __str__(self) -> str:
        """In words, to be shown with all advice."""
        groups = f"tensor groups of {_any(self.tensor)}"
        groups += "" if any(self.sequence) else " without sequence parallelism"
        groups = "no tensor groups" if self.tensor == (1,) else groups
        cut = f"sequences of {LONG:,} tokens or more per device cut {_any(self.context)} ways"
        cut = "sequences whole" if self.context == (1,) else cut
        looped = f" (V={_any(self.V)})" if any(form_of(name).takes_V for name in self.schedules) else ""
        return (
            f"Ways weighed: replicas, stages and micro-batches; ZeRO {_any(self.zero)}{self._beside}; {groups}; {cut}; "
            f"{_any(self.schedules)}{looped}; recompute {_any(self.recompute)}; experts of a mixture on "
            f"{_any(self.experts)} devices. Not weighed: FP8, the host's memory."
        ) + (f" Only what {full_name(self.on)} runs." if self.on != ANY else "")

    def zeros(self, K: int, schedule: str) -> tuple[int, ...]:
        """The stages of ZeRO to weigh for so many stages in that schedule: beside a pipeline, what some system does,
        unless only more is asked for."""
        done = [zero for zero in self.zero if K == 1 or zero < 2 or (zero == 2 and schedule == "breadth_first")]
        return tuple(done) or self.zero

    @property
    def _beside(self) -> str:
        """Whose way it is that ZeRO takes beside a pipeline, in words."""
        if max(self.zero) < 2:
            return ""
        if min(self.zero) < 2:
            return " (beside a pipeline at most 1, or 2 in breadth_first: no system of --flags does more there)"
        return " (as its authors describe it; beside a pipeline, systems of --flags do so only in breadth_first)"


class Row(NamedTuple):
    """A row of a picture."""

    tensor: int
    context: int
    D: int | None  # None: what the others leave of the devices

    def __str__(self) -> str:
        group = f"T={self.tensor}" + f", x{self.context}" * (self.context > 1)
        return group if self.D is None else f"D={self.D}, {group}"


class Change(NamedTuple):
    """The best plan with one knob turned, and what that does, in words."""

    plan: Plan
    effect: str


class Planner:
    """All plans for `job` that the devices allow, in the ways that are to be weighed.

    What it advises is the best of these. Raises ValueError or TypeError for a job that cannot be planned.
    """

    def __init__(self, job: Job, ways: SearchSpace = SearchSpace()) -> None:  # noqa: B008 (it can't change)
        self.job, self.ways = job.check(), ways.check()
        if job.machine.devices > MOST_DEVICES:
            raise ValueError(f"devices is {job.machine.devices}; the guide plans for at most {MOST_DEVICES}")
        self.plans = tuple(_plans(job, self.ways))
        if not self.plans:
            raise ValueError(f"no plan is left to weigh: {_why_none(job, self.ways)}")

    @cached_property
    def fitting(self) -> tuple[Plan, ...]:
        """The plans for which no device lacks memory."""
        return tuple(plan for plan in self.plans if plan.fits)

    @cached_property
    def best(self) -> Plan | None:
        """Of the plans that cannot be told from the fastest, the one that runs in most systems; of these the simplest,
        then the one that leaves most memory, where that is scarce."""
        return self._choose()

    @cached_property
    def fastest(self) -> Plan | None:
        """The one with the shortest step on paper."""
        return _fastest(self.plans, tie=0.0)

    @cached_property
    def safer(self) -> Plan | None:
        """The best of the plans with memory to spare."""
        return self._choose(_is_roomy)

    @cached_property
    def second(self) -> Plan | None:
        """The best of those that divide the model, or what is kept of it, in another way."""
        best = self.best
        return best and _fastest(plan for plan in self.plans if _way(plan) != _way(best))

    @cached_property
    def closest(self) -> Plan:
        """The one that lacks the least memory, or has the most to spare."""
        return min(self.plans, key=lambda plan: plan.short)

    @cached_property
    def alone(self) -> Plan | None:
        """The best without a pipeline."""
        return _fastest(plan for plan in self.plans if plan.K == 1)

    def rows(self) -> list[Plan]:
        """For every K the best plan: the fastest that fits, or the one that lacks least. With many devices, those K are
        left out that take over `FAR` times as long as the best."""
        groups: dict[int, list[Plan]] = {}
        for plan in self.plans:
            groups.setdefault(plan.K, []).append(plan)
        best, found, limit = self.best, [], self._limit
        for K in sorted(groups):
            row = best if best and best.K == K else _fastest(groups[K], limit)
            found += [row] if row else _closest(groups[K])
        return found

    def cells(self) -> dict[Row, dict[int, Plan | str]]:
        """For every group, and, with few devices, every D, by K: the fastest plan that fits, the one that lacks least
        where none does, or, with many devices, a note that all take over `FAR` times as long as the best."""
        few, groups = self.job.machine.devices <= _FEW, dict[tuple[Row, int], list[Plan]]()
        for plan in self.plans:
            row = Row(plan.group.tensor, plan.group.context, plan.D if few else None)
            groups.setdefault((row, plan.K), []).append(plan)
        best, found, limit = self.best, dict[Row, dict[int, Plan | str]](), self._limit
        for row, K in sorted(groups, key=lambda key: (key[0].tensor, key[0].context, key[0].D or 0, key[1])):
            plans = groups[row, K]
            shown = best if best in plans else _fastest(plans, limit)
            found.setdefault(row, {})[K] = shown or next(iter(_closest(plans)), f"over {FAR:g} x")
        return found

    @property
    def _limit(self) -> float:
        """Seconds of a step beyond which plans for many devices are not looked at."""
        return FAR * self.best.step if self.best and self.job.machine.devices > _FEW else inf

    def changes(self) -> list[Change]:
        """The best plan with one knob turned: D, K, M halved and doubled, any other value of the rest."""
        best = self.best
        if best is None:
            return []
        mine = _knobs(best)
        at = {_knobs(plan): plan for plan in self.plans}
        found = []
        for other, plan in at.items():
            turned = {name for name in mine._fields if getattr(mine, name) != getattr(other, name)}
            counts = [(getattr(plan, name), getattr(best, name)) for name in turned & {"D", "K", "M"}]
            near = all(count in (was // 2, was * 2) for count, was in counts)
            # Devices are passed from D to K, or to groups, and back; more stages may take another schedule.
            if near and turned and (len(turned) == 1 or turned in ({"D", "K"}, {"D", "tensor"}, {"D", "context"})):
                found.append(plan)
        return [Change(plan, effect(plan, best)) for plan in found]

    def homes(self) -> list[tuple[Plan, str]]:
        """The best and the two fastest of other ways, each with what runs it, in words."""
        found = [self.best] if self.best else []
        for plan in sorted(self.rows() + ([self.second] if self.second else []), key=lambda plan: plan.step):
            if plan.fits and plan.knobs not in [other.knobs for other in found]:
                found.append(plan)
        return [(plan, where(plan)) for plan in found[:3]]

    def reason(self) -> str:
        """Why the best plan is the best, in a few sentences. Raises ValueError if nothing fits."""
        best, machine = self.best, self.job.machine
        if best is None:
            raise ValueError("nothing fits, so no plan is the best; shortage() tells what is short")
        text = f"Of {len(self.plans):,} plans, {self._beside_the_fastest(best)}"
        text += f" {self._pipeline_or_not(best, text)}"
        told = self.fastest is not None and self.second is not None and _way(self.second) == _way(self.fastest)
        if self.second is not None and not told and self.second.knobs not in text:
            text += f" The best of the other ways, {self.second.knobs}, {self._loss(self.second, best)}."
        spare = machine.devices - best.devices
        text += f" {spare} of {machine.devices} devices would be left over." if spare else ""
        return text

    def room(self) -> str:
        """The safer choice, with memory to spare, in words. Raises ValueError if nothing fits."""
        best, safer, usable = self.best, self.safer, self.job.machine.usable
        if best is None:
            raise ValueError("nothing fits, so no plan has memory to spare; shortage() tells what is short")
        if _is_roomy(best) or (safer and max(best.memory) - max(safer.memory) < _MORE * usable):
            return f"this one: it leaves {size(-best.short)} of {size(usable)} to spare."
        if safer is None:
            return f"none: no plan leaves {1 - ROOMY:.0%} of the memory."
        better = self._better(best, safer).replace("this one", "the best") * self._ties(safer)
        return f"{safer.knobs}: {effect(safer, best)}{better}."

    def _choose(self, where: Callable[[Plan], bool] = lambda _: True) -> Plan | None:
        return _fastest(self.plans, where=where, tie=TIE, rank=self._rank)

    def _rank(self, plan: Plan) -> tuple[int, ...]:
        return -self._places(plan), *_simplicity(plan)

    def _places(self, plan: Plan) -> int:
        """How many systems run the plan; 0 where it does not matter: for a model that none of them trains, and where
        one of them is asked for."""
        if self.ways.on != ANY or self.job.model.tokens == 1:
            return 0
        return sum(not lacks for lacks in lacking(plan).values())

    def _beside_the_fastest(self, best: Plan) -> str:
        first = self.fastest
        if first is None or best.step <= (1 + SMALL) * first.step:
            return f"none that fits has a step more than {SMALL:.0%} shorter."
        return f"the fastest, {first.knobs}, {self._loss(first, best)}."

    def _pipeline_or_not(self, best: Plan, told: str) -> str:
        if self.job.machine.devices == 1:
            return "On one device there is nothing to divide."
        if best.K == 1:
            cut = _fastest(plan for plan in self.plans if plan.K > 1)
            if cut and cut.knobs in told:
                return "No pipeline is needed here."
            other = f"of those with one, the fastest, {cut.knobs}, {self._times(cut, best)}" if cut else "none fits"
            return f"Of the ways weighed, none needs a pipeline here: {other}."
        if self.alone is None:
            whole = [plan for plan in self.plans if plan.K == 1]
            if not whole:
                return "No plan without a pipeline was weighed."
            least = min(whole, key=lambda plan: plan.short)
            return (
                f"Of the ways weighed, only a pipeline fits: without one, a device lacks {size(least.short)}, even "
                f"with {least.knobs}."
            )
        first = "The" if self._ties(self.alone) else "Of the ways weighed, a pipeline is fastest: the"
        return f"{first} best without a pipeline, {self.alone.knobs}, {self._loss(self.alone, best)}."

    def _loss(self, plan: Plan, best: Plan) -> str:
        """Why `plan` is not the best, in words."""
        if self._ties(plan):
            return self._times(plan, best) + self._better(best, plan)
        more = {name: seconds - best.parts[name] for name, seconds in plan.parts.items()}
        name = max(more, key=lambda name: more[name])
        rest = plan.step - best.step - more[name]
        others = f"; everything else takes {duration(abs(rest))} {'more' if rest > 0 else 'less'}"
        others *= abs(rest) > SMALL * best.step
        return f"{self._times(plan, best)}: {PARTS[name]} cost {duration(max(0.0, more[name]))} more{others}"

    def _ties(self, plan: Plan) -> bool:
        """Whether the planner cannot tell it from the fastest."""
        return self.fastest is not None and plan.step <= (1 + TIE) * self.fastest.step

    def _times(self, plan: Plan, best: Plan) -> str:
        """How long a plan's step is beside the best's, in words."""
        times = plan.step / best.step
        words = f"is {1 - times:.0%} faster" if times < 1 else f"takes {times:.2f} times as long"
        words = "is as fast" if abs(times - 1) < SMALL / 2 else words
        return f"{words} on paper, which the planner cannot tell apart" if self._ties(plan) else words

    def _better(self, best: Plan, other: Plan) -> str:
        """What makes `best` the better of two plans that cannot be told apart, to be put at the end of a sentence."""
        here, there = self._places(best), self._places(other)
        if here > there:
            systems = f"{_COUNTS[len(SYSTEMS)]} systems"
            most = f"all {systems}" if here == len(SYSTEMS) else f"{_COUNTS[here]} of {systems}"
            return f"; this one runs in {most}, that one in {_COUNTS[there]}"
        parts = zip(_simpler_by(best), _simplicity(best), _simplicity(other), strict=True)
        words, mine, theirs = next((part for part in parts if part[1] != part[2]), ("leaves more memory", 0, 0))
        first = mine < theirs or (mine == theirs and _tightness(best) < _tightness(other))
        if here == there and first:
            return f"; this one {words}"
        return "; this one is faster on paper" if best.step < other.step else ""

    def warnings(self) -> list[str]:
        """What else one has to know: what makes the model slow on these devices, whatever the plan; and that the
        best plan of a Transformer is one that no system of `flags` runs."""
        head, found = self.job.model.head, list[str]()
        if head and head % 8 and self.job.machine.bandwidth:
            found.append(
                f"Attention heads have {head} numbers, not a multiple of 8: published runs with such heads took 1.2 to "
                "1.4 times as long as others would; this plan does not allow for that."
            )
        if self.job.model.routed:
            found.append(OF_MIXTURES)
        best = self.best
        if best and self.job.model.tokens > 1 and all(lacking(best).values()):
            found.append(self._runs_nowhere(best))
        return found

    def _runs_nowhere(self, best: Plan) -> str:
        lacks = lacking(best).items()
        words = "; ".join(f"{system} lacks {join_words(things, last=' and ')}" for system, things in lacks)
        text = f"No system of `plan --flags` runs the best plan: {words}."
        runs = _fastest(self.plans, where=lambda plan: not all(lacking(plan).values()))
        if runs is None:
            return f"{text} They run no other that fits, either."
        system = next(system for system, things in lacking(runs).items() if not things)
        times = f"{runs.step / best.step:.2f} times as long"
        return f"{text} The fastest that one of them runs: {runs.knobs}, {times}, in {system}."

    def shortage(self) -> str:
        """What the closest plan lacks, where, and what fills the device. Raises ValueError if something fits."""
        if self.best is not None:
            raise ValueError("something fits, so nothing is short; best is the plan to take")
        plan, k = self.closest, self.closest.fullest
        return (
            f"Of the ways weighed, none fits. The closest is {plan.knobs}: device {k} needs "
            f"{size(plan.memory[k])} and may use {size(self.job.machine.usable)}, so it is {size(plan.short)} short. "
            f"It holds {size(plan.state[k])} of weights, gradients and optimizer state and {size(plan.activations[k])} "
            f"of activations."
        )

    def cures(self) -> list[str]:
        """Single changes that would make some plan fit; empty if one fits already."""
        if self.best is not None:
            return []
        job, machine, needed = self.job, self.job.machine, self.closest.memory[self.closest.fullest]
        found = [f"devices of {size(needed / (1 - machine.reserve))} instead of {size(machine.memory)}"]
        batch = self._first(_halves(job.batch), lambda N: job._replace(batch=N))
        if batch:
            found.append(f"a mini-batch of {batch} instead of {job.batch}")
        devices = self._first(
            _doubles(machine.devices, min(MOST_DEVICES, 64 * machine.devices)),
            lambda count: job._replace(machine=machine._replace(devices=count)),
        )
        if devices:
            found.append(f"{devices} devices instead of {machine.devices}")
        missing = [stage for stage in ZERO if stage not in self.ways.zero]
        for stage in missing:
            if Planner(job, self.ways._replace(zero=tuple(range(stage + 1)))).fitting:
                found.append(f"ZeRO-{stage}, which spreads {_SPREAD[stage]} over the replicas")
                break
        return found

    def _first(self, values: Iterator[int], job: Callable[[int], Job]) -> int | None:
        """The first of the values whose job has a plan that fits."""
        return next((value for value in values if Planner(job(value), self.ways).fitting), None)

    def lines(self, plans: Iterable[Plan], width: float = inf) -> list[str]:
        """A table of `plans`, a line each below a heading. Sizes are those of the fullest device.

        width: of a line, in characters; a table that is wider goes without bars and without what the total is made of.
        """
        shown = list(plans)
        longest = max((plan.step for plan in shown), default=1.0)
        rows = [("*" if plan is self.best else " ", *_cells(plan, longest)) for plan in shown]
        whole = [_joined(cells) for cells in (_HEADING, *rows)]
        if max(map(len, whole)) <= width:
            return whole
        return [_joined(cells, narrow=True) for cells in (_HEADING, *rows)]

    def explore(self) -> PlanExplorer:
        """The same with sliders, for devices, their links and the mini-batch. Raises ImportError without anywidget."""
        try:
            from .page.explorer import PlanExplorer  # widgets load when one is shown
        except ImportError as error:
            raise ImportError(
                "Planner.explore needs anywidget: pip install anywidget; the guide itself needs nothing"
            ) from error
        return PlanExplorer(self)

    def __repr__(self) -> str:
        best = f"best {self.best.knobs}" if self.best else "none fits"
        return f"Planner({self.job.model.name}, {self.job.machine.devices} devices: {best})"

    def _repr_html_(self) -> str:
        from .page.picture import as_html  # pictures load when one is shown

        return as_html(self)

    def __str__(self) -> str:
        best = self.best
        table = [
            *self.lines(self.rows()),
            "All times are planned. Sizes: of the fullest device; state: weights, gradients, optimizer.",
        ]
        if best is None:
            advice = [*_wrap(self.shortage()), *(f"  cure: {cure}" for cure in self.cures())]
        else:
            advice = _wrap(f"Best: {best.knobs}. {self.reason()}")
        warned = [line for warning in self.warnings() for line in _wrap(warning)]
        return "\n".join([*table, "", *advice, *warned, "", *_wrap(str(self.ways))])


def guide(job: Job, ways: SearchSpace = SearchSpace()) -> Planner:  # noqa: B008 (it can't change)
    """All plans for `job`; see `Planner`."""
    return Planner(job, ways)


_SPREAD: Final = {0: "nothing", 1: "the optimizer's state", 2: "gradients, too,", 3: "weights, too,"}

_COUNTS: Final = ("none", "one", "two", "three")

_BAR: Final = 6

_COLUMNS: Final = (
    *((" ", ">1"), ("D", ">4"), ("K", ">3"), ("M", ">4"), ("T", ">2"), ("ZeRO", ">4")),
    *(("schedule", "<13"), ("recompute", "<9"), ("step", ">7"), ("", f"<{_BAR}"), ("bubble", ">6"), ("MFU", ">4")),
    *(("state", ">7"), ("activ.", ">7"), ("total", ">7"), (" ", "<0")),
)
"""Heading, alignment and width of each; the last says what a plan is short of."""

_HEADING: Final = tuple(heading for heading, _ in _COLUMNS)

_SPARE: Final = ("", "state", "activ.")
"""What a narrow table leaves out: the bars, and what the total is made of."""


class _Knobs(NamedTuple):
    D: int
    K: int
    M: int
    tensor: int
    sequence: bool
    context: int
    zero: int
    schedule: str
    V: int
    recompute: str
    experts: int
    hide: str


def _knobs(plan: Plan) -> _Knobs:
    experts, _, hide, _ = plan.experts
    return _Knobs(plan.D, plan.K, plan.M, *plan.group, plan.zero, plan.recipe, plan.V, plan.recompute, experts, hide)


def _way(plan: Plan) -> tuple[int, ...]:
    """What makes plans different ways, rather than the same with another knob turned."""
    return plan.K, plan.group.tensor, plan.group.context, plan.zero, plan.experts.ranks


def _is_roomy(plan: Plan) -> bool:
    return _tightness(plan) == ROOMY


def _tightness(plan: Plan) -> float:
    """The share that it needs of the memory that may be used, where that is not roomy."""
    return max(ROOMY, max(plan.memory) / plan.job.machine.usable)


def _any(values: Iterable[Any]) -> str:
    *most, last = map(str, values)
    return f"{', '.join(most)} or {last}" if most else last


def _wrap(sentences: str) -> list[str]:
    """Wrapped to lines that a notebook shows whole; it would break longer ones in the middle of a word."""
    return textwrap.wrap(sentences, width=100)


def _cells(plan: Plan, longest: float) -> tuple[str, ...]:
    k, (tensor, sequence, context) = plan.fullest, plan.group
    schedule = "-" if plan.K == 1 else _SHORT.get(plan.schedule, plan.schedule)
    schedule += f" {plan.V}" if plan.K > 1 and form_of(plan.schedule).takes_V else ""
    group = f"{tensor}" + ("" if sequence else "-") + (f"x{context}" if context > 1 else "")
    group += f"e{plan.experts.ranks}" if plan.experts.ranks > 1 else ""
    counts = (*map(str, (plan.D, plan.K, plan.M)), group, str(plan.zero))
    times = (duration(plan.step), bar(plan.step / longest, _BAR), f"{plan.bubble:.1%}", f"{plan.mfu:.0%}")
    sizes = (size(count) for count in (plan.state[k], plan.activations[k], plan.memory[k]))
    return (*counts, schedule, plan.recompute, *times, *sizes, "" if plan.fits else f"{size(plan.short)} short")


def _joined(cells: tuple[str, ...], narrow: bool = False) -> str:
    shown = zip(_COLUMNS, cells, strict=True)
    places = [f"{cell:{place}}" for (heading, place), cell in shown if not (narrow and heading in _SPARE)]
    return " ".join(places).rstrip()


def effect(plan: Plan, best: Plan) -> str:
    """What `plan` is beside `best`, in words."""
    change = plan.step / best.step - 1
    slower = f"{change:+.0%} time" if abs(change) >= 0.005 else "same time"
    if not plan.fits:
        return f"{size(plan.short)} short on device {plan.fullest} ({slower})"
    now, was = size(max(plan.memory)), size(max(best.memory))
    return f"{slower}, {'the same memory' if now == was else f'{now} instead of {was}'}"


def _fastest(
    plans: Iterable[Plan],
    limit: float = inf,
    where: Callable[[Plan], bool] = lambda _: True,
    tie: float = SMALL,
    rank: Callable[[Plan], tuple[int, ...]] | None = None,
) -> Plan | None:
    """Of the plans that fit and, within the tie, are fastest, and no slower than the limit, the first by rank.

    The most promising plan is looked at first, by its floor, then by its bound, and only then simulated: once a
    simulated one comes first, all that are left are slower. They are looked at only where their rank is lower. where:
    asked last. rank: without it, how simple a plan is; of equal ones the less tight one, which takes longer to compute,
    comes first.
    """
    rank = rank or _simplicity
    best: Plan | None = None
    heap = [(plan.floor, 0, index, plan) for index, plan in enumerate(plans)]
    heapify(heap)
    while heap and heap[0][0] <= limit:
        _, known, index, plan = heappop(heap)
        if best is not None and not _comes_first(plan, best, rank):
            continue
        if known == 0:
            heappush(heap, (max(plan.bound, plan.floor), 1, index, plan))
        elif known == 1 and plan.fits and where(plan):
            heappush(heap, (plan.step, 2, index, plan))
        elif known == 2:
            limit, best = min(limit, plan.step * (1 + tie)), plan
    return best


def _closest(plans: Iterable[Plan]) -> list[Plan]:
    """The one that lacks least, if none fits."""
    # Small micro-batches in 1F1B hold least, and are quick to count.
    small = sorted(plans, key=lambda plan: (plan.recipe != "1f1b", -plan.M))
    return [] if any(plan.fits for plan in small) else [min(small, key=lambda plan: plan.short)]


def _comes_first(plan: Plan, other: Plan, rank: Callable[[Plan], tuple[int, ...]]) -> bool:
    mine, others = rank(plan), rank(other)
    return mine < others or (mine == others and _tightness(plan) < _tightness(other))


def _simplicity(plan: Plan) -> tuple[int, ...]:
    """Fewest devices, no pipeline or a short one, small groups, nothing sharded, a plain order, little recompute."""
    return (
        plan.devices,
        plan.K,
        plan.group.tensor * plan.group.context,
        plan.experts.ranks,
        plan.zero > 0,
        _ORDER.index(plan.schedule),
        plan.V,
        _RECOMPUTES.index(plan.recompute),
    )


def _simpler_by(plan: Plan) -> tuple[str, ...]:
    """What is said of a plan that is simpler than another, for each part of its simplicity."""
    return (
        "takes fewer devices",
        "needs no pipeline" if plan.K == 1 else "needs fewer stages",
        "needs no groups of devices" if plan.group.tensor * plan.group.context == 1 else "needs smaller groups",
        "divides its experts among fewer devices",
        "needs no ZeRO",
        "has a simpler schedule",
        "has fewer stages on each device",
        "recomputes nothing" if plan.recompute == "none" else "recomputes in a simpler way",
    )


_RECOMPUTES: Final = tuple(RECOMPUTES)

_ORDER: Final = (
    *("1f1b", "gpipe", "interleaved", "zero_bubble"),
    *("interleaved_zero_bubble", "zero_bubble_v", "dual_pipe_v", "breadth_first"),
)

_SHORT: Final = {"interleaved_zero_bubble": "interl_zb"}
"""Names for a table's column."""


def _plans(job: Job, ways: SearchSpace) -> Iterator[Plan]:
    counter, layers, machine = Counter(job), len(job.model.layers), job.machine
    few = machine.devices <= _FEW
    for tensor in ways.tensor:
        for context in ways.context:
            if _why_not(tensor, context, job):
                continue
            groups = machine.devices // (tensor * context)
            for K in _counts(groups, few):
                found = [D for D in _counts(groups // K, few) if job.batch >= D]
                pairs = [(D, M) for D in (found if few else found[-1:]) for M in _micro_batches(job.batch, D)]
                for D, M in pairs:
                    for schedule, V in _schedules(ways, K, inf if few else (K - 1) / M):
                        if K > 1 and layers < K * (V or form_of(schedule).stages):
                            continue
                        zeros = ways.zeros(K, schedule) if D * context > 1 else (min(ways.zero),)
                        rest = product(
                            _rest(job, ways, zeros, tensor), _experts(job, ways, D * tensor * context, K, schedule)
                        )
                        for (zero, recompute, sequence), (experts, hide) in rest:
                            if hide == "pairs" and recompute in ("full", "stage"):
                                continue
                            plan = Plan(
                                *(job, D, K, M, recompute),
                                schedule=schedule,
                                V=V,
                                zero=zero,
                                tensor=tensor,
                                sequence=sequence,
                                context=context,
                                experts=experts,
                                hide=hide,
                                counter=counter,
                            )
                            if ways.on == ANY or not lacks_on(plan, ways.on):
                                yield plan


def _rest(job: Job, ways: SearchSpace, zeros: tuple[int, ...], tensor: int) -> Iterator[tuple[int, str, bool]]:
    """ZeRO, recompute and sequence, where they are possible and make a difference."""
    # Scores that are not stored can't be dropped: "selective" is then the same as "none".
    same = "none" in ways.recompute and not any(layer.scores or layer.routed for layer in job.model.layers)
    recompute = [mode for mode in ways.recompute if not (same and mode == "selective")]
    return product(zeros, recompute, ways.sequence if tensor > 1 else (True,))


def _experts(job: Job, ways: SearchSpace, shared: int, K: int, schedule: str) -> list[tuple[int, str]]:
    """Over how many devices a mixture's experts are, and what hides their messages. shared: devices of a stage."""
    ranks = [each for each in _ranks(job, ways) if shared % each == 0]
    if job.machine.devices > _FEW and max(ranks, default=1) >= _MANY:
        ranks = [each for each in ranks if each == 1 or each >= _MANY]
    can = {"none": True, "shared": _every_token(job), "pairs": K == 1 or schedule in PAIRED}
    return [(each, hide) for each in ranks for hide in ways.hide if can[hide] and (each > 1 or hide == "none")]


def _ranks(job: Job, ways: SearchSpace) -> list[int]:
    """Among how many devices the experts of every layer can be divided; without any, there is nothing to divide."""
    found = [layer.routed.experts for layer in job.model.layers if layer.routed] or [1]
    return [each for each in ways.experts if all(count % each == 0 for count in found)]


def _every_token(job: Job) -> bool:
    """Whether there are experts that every token goes to."""
    return any(layer.routed.beside for layer in job.model.layers if layer.routed)


def _schedules(ways: SearchSpace, K: int, bubble: float) -> Iterator[tuple[str, int | None]]:
    """Schedules with their V; a larger one only if it saves enough of the bubble to make a difference. One device has
    no choice."""
    if K == 1:
        yield "1f1b", None
        return
    for name in ways.schedules:
        if not form_of(name).takes_V:
            yield name, None
            continue
        yield name, ways.V[0]
        yield from ((name, V) for less, V in pairwise(ways.V) if bubble * (1 / less - 1 / V) > SMALL)


def _why_none(job: Job, ways: SearchSpace) -> str:
    """Why there is no plan."""
    others = [] if ways.on == ANY else [lacks_on(plan, ways.on) for plan in _plans(job, ways._replace(on=ANY))]
    if others:
        common = [thing for thing in others[0] if all(thing in lacks for lacks in others)]
        listed = common or dict.fromkeys(thing for lacks in others for thing in lacks)
        return f"all plans want {join_words(listed, last=' or ')}, which {full_name(ways.on)} lacks (--on)"
    groups = product(ways.tensor, (1,) if 1 in ways.context else ways.context)  # whole sequences need the least
    reasons = dict.fromkeys(_why_not(tensor, context, job) for tensor, context in groups)
    return _why_no_experts(job, ways) if "" in reasons else "; ".join(reasons)


def _why_no_experts(job: Job, ways: SearchSpace) -> str:
    """Why there is no plan, where it is due to experts and what hides their messages."""
    model, experts, hide = job.model, f"experts is {_any(ways.experts)}", f"hide is {_any(ways.hide)}"
    counts = [layer.routed.experts for layer in model.layers if layer.routed]
    if not counts:
        given = hide if 1 in ways.experts else experts
        return f"{given}, but {model.name} has no routed experts (--experts and --hide are theirs)"
    if not _ranks(job, ways):
        count = next(count for count in counts if any(count % each for each in ways.experts))
        return f"{experts}, which does not divide the {count} experts of a layer (--experts)"
    possible = {plan.experts.ranks for plan in _plans(job, ways._replace(hide=("none",), on=ANY))}
    if not possible:
        return (
            f"{experts}, but of {plural(job.machine.devices, 'device')} with {plural(job.batch, 'sample')} no stage "
            "has a multiple of that many (--experts, --devices, --batch)"
        )
    if possible == {1}:
        return f"{hide}, but with experts on 1 device there are no messages to hide (--hide, --experts)"
    if "pairs" not in ways.hide:
        return f"{hide}, but {model.name} has no experts that every token goes to (--hide)"
    return f"{hide}; pairs are of one stage, {' or '.join(PAIRED)}, without recompute of layers (--hide, --recompute)"


def _why_not(tensor: int, context: int, job: Job) -> str:
    """Why the job's devices can't make such groups; "" if they can."""
    machine, tokens = job.machine, job.model.tokens
    if tensor > 1 and not any(layer.shared for layer in job.model.layers):
        return "tensor groups divide the blocks of a Transformer, which this model does not have"
    if tensor > 1 and machine.node is not None and machine.node % tensor:
        return f"a tensor group of {tensor} does not divide a node of {plural(machine.node, 'device')} (--node)"
    if context > 1 and tokens < LONG * context:
        return f"to be cut {context} ways, a sequence needs {LONG * context:,} tokens; it has {tokens:,} (--context)"
    if tensor * context > machine.devices:
        return f"groups of {tensor * context} devices need that many, and there are {machine.devices} (--devices)"
    return ""


def _counts(most: int, few: bool) -> list[int]:
    return [n for n in range(1, most + 1) if few or most % n == 0]


def _micro_batches(batch: int, replicas: int) -> list[int]:
    """The smallest M for every size of micro-batch: larger ones with that size only add empty work."""
    share = -(-batch // replicas)
    most = min(batch // replicas, MOST_MICRO_BATCHES)
    counts = {-(-share // -(-share // M)) for M in range(1, most + 1)}
    if share > _FEW:
        counts = {M for M in counts if 1 in (M.bit_count(), (-(-share // M)).bit_count())}
    return sorted(counts)


def _halves(value: int) -> Iterator[int]:
    while value > 1:
        value //= 2
        yield value


def _doubles(value: int, most: int) -> Iterator[int]:
    while value < most:
        value = min(2 * value, most)
        yield value
