"""What a measured step says: how large its bubble is, and what would make it shorter.

The yardstick is the same order of ops at the costs of this run, each op taking the median of its like, times what its
micro-batch takes if those are not alike, and messages no time. Time beyond that was lost on the way: to late messages,
or to an op that took long once. The rest of the bubble is lost to the order itself, and to a stage that the others wait
for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf, log
from statistics import median
from typing import Final, NamedTuple

from gpipe_edu.base.validate import whole
from gpipe_edu.base.words import join_words, percent, plural, with_article
from gpipe_edu.schedule import Op, Schedule, recipes
from gpipe_edu.split import balance_by_cost

from .simulate import run
from .timeline import Exchange, Span, Timeline

_WORTH: Final = 0.01
"""The least share of the step that is worth a sentence."""

_MOST: Final = 3
"""How many such sentences there are at most."""

_LIKE: Final = 1.5
"""How many times the median of its like an op must take to count as a hiccup."""


SLOW_RANK, UNEVEN_CUT = "slow rank", "uneven cut"
"""Why a stage is slower than others, as exercise 16 calls it."""


class Gain(NamedTuple):
    """One thing that would make the step shorter, by `gain` in the timeline's unit; in a sentence."""

    gain: float
    sentence: str


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found. Times are in the timeline's unit, seconds if it was measured; shares are of 1.

    bubble: the idle share of all device time. planned_bubble: that of the same order at these costs.
    makespan, planned_makespan: how long the step took, and would take in that order at these costs.
    slowest_stage: the stage whose ops take longest for a micro-batch. slower_by: how many times the others' median.
    cause: "slow rank" if that is because its layers take longer than others', or if its device has several stages that
    are all slow alike, "uneven cut" if it has more layers; "" if that is not known, or if it is no more than chance.
    balance: layers for each stage as `balance_by_cost` cuts them; if the layers are not known, each of today's stages
    counts as ten of equal cost, and of many stages as fewer. balanced_makespan: the step with that cut.
    spread: the median share by which the durations of like ops differ from their median. steps: how many steps that is
    from.
    micro_batches: how many times the median each one takes, on every stage; all 1 if that is no more than chance.
    between: the median time between steps in which no device runs an op, 0 if no step came with what was before it.
    late: by how much messages come late, the median for each source and target device where one was waited for.
    exchange, exposed: shares of the ops' time in which experts exchange tokens, and in which their device then computes
    nothing, and does not wait for the busiest one. imbalance: how many times the mean the busiest device of a stage
    gets, most of all stages; 1 if nothing tells.
    shorter: the schedule that would be shortest at these costs and in this memory, None if this is.
    shorter_makespan: its step.
    findings: what would make the step shorter, the largest gain first; each is worth 1 % of the step or more.

    `str()` is the bubble's sentence, then a list of the two findings that would gain most.
    """

    bubble: float
    planned_bubble: float
    makespan: float
    planned_makespan: float
    unit: str
    steps: int
    spread: float
    slowest_stage: int
    slower_by: float
    cause: str
    balance: tuple[int, ...]
    balanced_makespan: float
    micro_batches: tuple[float, ...]
    between: float
    late: Mapping[tuple[int, int], float]
    exchange: float
    exposed: float
    imbalance: float
    shorter: Schedule | None
    shorter_makespan: float
    headline: str
    findings: tuple[Gain, ...]

    def __str__(self) -> str:
        return "\n- ".join([self.headline, *(found.sentence for found in self.findings[: _MOST - 1])])


def diagnose(timeline: Timeline | Sequence[Timeline], *, layers: Sequence[int] | None = None) -> Diagnosis:
    """What the bubble of a step is, how much of it the order explains, and what would make the step shorter.

    timeline: a step, or several of the same order; then costs are medians over all of them, and the bubble and the
    makespan medians of theirs. layers: how many layers each stage has, if they cost alike within a stage.

    Raises ValueError for no steps, for steps of different orders, and for one that no order of ops explains, such as a
    drawn one; TypeError for what is no timeline.
    """
    steps = _checked(timeline)
    schedule = Schedule([[span.op for span in steps[0].row(device)] for device in range(steps[0].devices)])
    if len(schedule.steps) != len(steps[0].spans):
        raise ValueError(f"{steps[0]!r} shows what cannot run: {schedule.problems()[0].message}")
    run_of = _Measured(steps, schedule)
    makespan = median(step.makespan for step in steps)
    planned = run_of.length(schedule)
    on_time = run_of.length(schedule, run_of.late)
    pieces = _pieces(layers, schedule.stages)
    experts = _Experts.of(run_of)
    even = run_of.less(experts.uneven)  # a stage is no slower for what its experts' imbalance takes
    balance, balanced = even.balanced(pieces)
    shorter, shorter_makespan, own = run_of.shorter()
    slow = even.slowest(pieces, layers is not None)
    evenly = even.length(schedule)
    hidden = run_of.less(experts.exposed).length(schedule)
    words = _Words(run_of, makespan)
    bubble, planned_bubble = median(step.bubble_fraction for step in steps), run_of.bubble(schedule, planned)
    pause = _Pauses.of(steps, schedule, run_of.duration)
    findings = [
        Gain(pause.gain, words.pause(pause)),
        Gain(evenly - min(balanced, slow.mended or balanced), words.cut(slow, balance, balanced, layers)),
        Gain(on_time - planned, words.messages(on_time, planned)),
        Gain(planned - hidden, words.exchange(experts, hidden, planned)),
        Gain(planned - evenly, words.imbalance(experts, evenly, planned)),
    ]
    if max(run_of.times) > min(run_of.times):
        packed, ordered, order = run_of.packed()
        findings.append(Gain(planned - min(packed, ordered), words.micro_batches(planned, packed, ordered, order)))
    if shorter is not None:
        findings.append(Gain(own - shorter_makespan, words.other(shorter, shorter_makespan, own)))
    return Diagnosis(
        bubble=bubble,
        planned_bubble=planned_bubble,
        makespan=makespan,
        planned_makespan=planned,
        unit=steps[0].unit,
        steps=len(steps),
        spread=run_of.spread,
        slowest_stage=slow.stage,
        slower_by=slow.by,
        cause=slow.cause,
        balance=balance,
        balanced_makespan=balanced,
        micro_batches=run_of.times,
        between=pause.idle,
        late=run_of.late,
        exchange=experts.share,
        exposed=experts.exposed_share,
        imbalance=experts.imbalance,
        shorter=shorter,
        shorter_makespan=shorter_makespan,
        headline=words.bubble(bubble, planned_bubble, planned),
        findings=tuple(sorted((f for f in findings if f.gain >= _WORTH * makespan), key=lambda f: -f.gain)),
    )


def _checked(timeline: Timeline | Sequence[Timeline]) -> list[Timeline]:
    steps = [timeline] if isinstance(timeline, Timeline) else list(timeline)
    if not steps:
        raise ValueError("no step was given: give a timeline, or several of the same order")
    for step in steps:
        if not isinstance(step, Timeline):
            raise TypeError(f"timeline is {step!r}; it must be a Timeline, such as ge.load gives, or a list of them")
    rows = {tuple(tuple(span.op for span in step.row(device)) for device in range(step.devices)) for step in steps}
    if len(rows) > 1:
        raise ValueError("the steps run other ops, or in another order, than one another: give those of one order")
    return steps


def _pieces(layers: Sequence[int] | None, stages: int) -> list[int]:
    """How many layers of equal cost each stage is taken for."""
    if layers is None:
        return [max(2, min(10, 640 // stages))] * stages
    if len(layers) != stages:
        raise ValueError(
            f"layers has {plural(len(layers), 'number')}; it must have one for each of the {stages} stages"
        )
    return [whole(f"layers[{stage}]", count, 1) for stage, count in enumerate(layers)]


def _times_others(costs: Sequence[float], one: int) -> float:
    """How many times the others' median the cost of `one` is; 1 if there are none."""
    others = [*costs[:one], *costs[one + 1 :]]
    return costs[one] / median(others) if others and median(others) else 1.0


class _Slowest(NamedTuple):
    """The slowest stage. by: how many times the others' median it takes. layer_by: how many times theirs, for a layer.
    mended: for a slow rank, the step with its layers as fast as others', else 0. device: one that has several stages,
    all of them slow alike, and how many times the others' median each of its stages takes."""

    stage: int
    by: float
    layer_by: float
    cause: str
    mended: float
    device: tuple[int, Mapping[int, float]] | None = None


class _Measured:
    """The costs of a run, and how long a step is with them."""

    def __init__(self, steps: Sequence[Timeline], schedule: Schedule) -> None:
        self.steps, self.schedule = steps, schedule
        durations: dict[tuple[str, int], list[float]] = defaultdict(list)
        for step in steps:
            for span in step.spans:
                durations[span.op.kind, span.op.stage].append(span.end - span.start)
        self.cost = {key: median(found) for key, found in durations.items()}
        off = [
            abs(one - self.cost[key]) / self.cost[key]
            for key, found in durations.items()
            if self.cost[key]
            for one in found
        ]
        self.spread = median(off) if off else 0.0
        self.times = (1.0,) * schedule.micro_batches
        self._tell_micro_batches_apart()
        self.counts = {key: len(found) / len(steps) for key, found in durations.items()}
        self.late = _late(steps)
        self.kept = _kept(steps)

    def _tell_micro_batches_apart(self) -> None:
        """Set `times` if all stages agree that micro-batches take more or less than others, beyond what ops differ by
        beside that; then `spread` is what they differ by beside that."""
        found: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for step in self.steps:
            for span in step.spans:
                if usual := self.cost[span.op.kind, span.op.stage]:
                    found[span.op.micro_batch][span.op.stage].append((span.end - span.start) / usual)
        times = {m: median(one for of_stage in stages.values() for one in of_stage) for m, stages in found.items()}
        if len(times) < self.schedule.micro_batches or not all(times.values()):
            return
        beside = median(
            abs(one / times[m] - 1) for m, stages in found.items() for of_stage in stages.values() for one in of_stage
        )
        most = max(times, key=lambda m: abs(log(times[m])))
        sign = 1 if times[most] > 1 else -1
        least = min(sign * log(median(of_stage)) for of_stage in found[most].values() if median(of_stage))
        if abs(times[most] - 1) > max(3 * beside, _WORTH) and least > abs(log(times[most])) / 2:
            self.times, self.spread = tuple(times[m] for m in sorted(times)), beside

    def packed(self) -> tuple[float, float, list[int]]:
        """The step if all micro-batches cost the same, together as much as now; and with them in the best of three
        orders, longest first, shortest first, or the longest in the middle: its step, and the order."""
        times = self.times
        even = sum(times) / len(times)
        alike = _end(run(self.schedule, lambda op: self.cost[op.kind, op.stage] * even)[0])
        rising = sorted(range(len(times)), key=lambda m: times[m])
        best, order = inf, rising
        for one in (rising[::-1], rising, [*rising[::2], *rising[1::2][::-1]]):
            end = _end(run(self.schedule, lambda op: self.cost[op.kind, op.stage] * times[one[op.micro_batch]])[0])  # noqa: B023
            if end < best * (1 - 1e-9):
                best, order = end, one
        return alike, best, order

    @property
    def per_micro_batch(self) -> list[float]:
        """For each stage, the time of its ops on one micro-batch."""
        totals = [0.0] * self.schedule.stages
        for (kind, stage), cost in self.cost.items():
            totals[stage] += cost * self.counts[kind, stage]
        return [total / self.schedule.micro_batches for total in totals]

    def beyond_chance(self, times: float) -> bool:
        """Whether a stage that takes so many times the others' median is slower by more than ops differ anyway."""
        return times - 1 > 3 * self.spread

    def slowest(self, pieces: Sequence[int], known: bool) -> _Slowest:
        """pieces: how many layers each stage has. known: whether that is known, and not only assumed."""
        costs = self.per_micro_batch
        stage = max(range(len(costs)), key=costs.__getitem__)
        by = _times_others(costs, stage)
        of_layer = [cost / count for cost, count in zip(costs, pieces, strict=True)]
        layer_by = _times_others(of_layer, stage)
        if found := self._slow_device(of_layer):
            times = found[1]
            mended = run(self.schedule, lambda op: self.duration(op) / times.get(op.stage, 1))[0]
            return _Slowest(stage, by, layer_by, SLOW_RANK, _end(mended), found)
        if not known or not self.beyond_chance(by):
            return _Slowest(stage, by, layer_by, "", 0)
        # The stage's factor is that of its number of layers, times that of the time of one of them.
        if log(layer_by) <= log(by) / 2:
            return _Slowest(stage, by, layer_by, UNEVEN_CUT, 0)
        mended = run(self.schedule, lambda op: self.duration(op) / (layer_by if op.stage == stage else 1))[0]
        return _Slowest(stage, by, layer_by, SLOW_RANK, _end(mended))

    def _slow_device(self, costs: Sequence[float]) -> tuple[int, Mapping[int, float]] | None:
        """The device of the slowest stage, if it has more, all are slow, and one factor for all fits them better than
        that stage's own with the others as fast as elsewhere."""
        home = self.schedule.device_of_stage
        device = home[max(range(len(costs)), key=costs.__getitem__)]
        others = [cost for stage, cost in enumerate(costs) if home[stage] != device]
        usual = median(others) if others else 0.0
        times = {stage: cost / usual for stage, cost in enumerate(costs) if usual and home[stage] == device}
        if len(times) < 2 or not all(map(self.beyond_chance, times.values())):
            return None
        logs = sorted(map(log, times.values()))
        even = sum(logs) / len(logs)
        alike = sum((one - even) ** 2 for one in logs) < sum(one**2 for one in logs[:-1])
        return (device, times) if alike else None

    def duration(self, op: Op) -> float:
        """How long such an op takes."""
        return self.cost[op.kind, op.stage] * self.times[op.micro_batch]

    def less(self, times: Mapping[tuple[str, int], float]) -> _Measured:
        """The same run, had ops of a kind and stage taken so much less."""
        found = copy(self)
        found.cost = {key: max(0.0, cost - times.get(key, 0.0)) for key, cost in self.cost.items()}
        return found

    def length(self, schedule: Schedule, late: Mapping[tuple[int, int], float] | None = None) -> float:
        """How long a step by this order takes."""
        return _end(run(schedule, self.duration, late=late or {})[0])

    def bubble(self, schedule: Schedule, makespan: float) -> float:
        """Its idle share."""
        busy = sum(self.duration(op) for row in schedule.rows for op in row)
        return 1 - busy / (schedule.devices * makespan) if makespan else 0.0

    def balanced(self, pieces: Sequence[int]) -> tuple[tuple[int, ...], float]:
        """The cut by cost, and how long the same order takes with it."""
        costs = self.per_micro_batch
        layer_of = [stage for stage, count in enumerate(pieces) for _ in range(count)]
        balance = balance_by_cost([costs[stage] / pieces[stage] for stage in layer_of], len(pieces))
        kinds = {kind for kind, _ in self.cost}
        bounds = [sum(balance[:stage]) for stage in range(len(balance) + 1)]
        cost = {
            (kind, stage): sum(self.cost.get((kind, was), 0.0) / pieces[was] for was in layer_of[begin:end])
            for kind in kinds
            for stage, (begin, end) in enumerate(pairwise(bounds))
        }
        found = _end(run(self.schedule, lambda op: cost[op.kind, op.stage] * self.times[op.micro_batch])[0])
        planned = self.length(self.schedule)
        # Even stages need not be the best for every order, and sums round: then the cut stays as it is.
        return (balance, found) if found < planned * (1 - 1e-9) else (tuple(pieces), planned)

    def shorter(self) -> tuple[Schedule | None, float, float]:
        """The recipe with the shortest step among those that hold no more micro-batches, its step, and that of the
        order that was run, all with messages that take the same time; None if that is as short."""
        send = median(self.late.values()) if self.late else 0.0
        best, length = None, _end(run(self.schedule, self.duration, send)[0])
        kinds = {kind for kind, _ in self.cost}
        if "F" not in kinds or kinds & set("RC") or not kinds & set("BI"):
            return best, length, length
        own = length
        held = max(self.steps[0].peak_in_flight)
        fitting = []
        for schedule, parts in self._candidates():
            spans, _ = run(schedule, partial(self._part, parts), send)
            peak = max(Timeline(spans, schedule.devices).peak_in_flight) / parts
            if peak <= held:
                fitting.append((peak, _end(spans), schedule))
        for _, end, schedule in sorted(fitting, key=lambda one: one[0]):  # of equals the one that holds least
            if end < length * (1 - _WORTH):
                best, length = schedule, end
        return best, length, own

    def _candidates(self) -> Iterable[tuple[Schedule, int]]:
        """Recipes for the same stages, and with each of them cut in two; and into how many it is cut.

        Not those that recompute, or whose pairs share a device's time: what that would take was not measured. Nor two
        changes at once: where stages are cut, backwards are not."""
        K, M, V = self.schedule.devices, self.schedule.micro_batches, self.schedule.stages // self.schedule.devices
        if self.schedule.stages != V * K or K == 1:
            return
        for name, make in recipes.RECIPES.items():
            form = recipes.form_of(name)
            parts = 2 if V == 1 and form.takes_V else 1
            fits = not (parts > 1 and form.splits) if form.takes_V else form.stages == V
            if form.recomputes or form.pairs or not fits:
                continue
            try:
                yield make(K, M, V * parts) if form.takes_V else make(K, M), parts
            except ValueError:  # too large, or too few micro-batches for it
                continue

    def _part(self, parts: int, op: Op) -> float:
        """An op's cost where each stage is cut into `parts`; half of a backward that was not measured apart is its
        weight gradient."""
        stage, cost, share = op.stage // parts, self.cost, self.times[op.micro_batch] / parts
        if (op.kind, stage) in cost:
            return cost[op.kind, stage] * share
        if op.kind == "B":
            return (cost["I", stage] + cost.get(("W", stage), 0.0)) * share
        return cost.get(("B", stage), 0.0) / 2 * share


def _end(spans: Iterable[Span]) -> float:
    return max(span.end for span in spans)


def _late(steps: Sequence[Timeline]) -> dict[tuple[int, int], float]:
    """For each link the median time from the end of an op to the start of the one that waited for its message."""
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    for step in steps:
        span_of = {span.op: span for span in step.spans}
        for device in range(step.devices):
            free = step.start
            for span in step.row(device):
                cause = max((span_of[need] for need in step.needs(span.op)), key=lambda one: one.end, default=None)
                if cause is not None and cause.device != device:
                    delay = span.start - cause.end
                    # If the device was still busy when the message was sent, the delay counts only if the device was
                    # free for most of it.
                    if delay >= 0 and span.start - free > delay / 2:
                        found[cause.device, device].append(delay)
                free = max(free, span.end)
    return {link: median(delays) for link, delays in sorted(found.items())}


def _kept(steps: Sequence[Timeline]) -> dict[tuple[int, int], float]:
    """For each link the median time from the end of an op to its device's next one, which lacked nothing, while the
    target waited for that op's message: whatever the sender did then, it was not the link.

    A message is taken to be there after the shortest time that any of its link was: others may have been there for
    long when a device that was kept by its own sends took them.
    """
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    takes: dict[tuple[int, int], float] = {}
    for step in steps:
        span_of = {span.op: span for span in step.spans}
        for span in step.spans:
            for need in (span_of[need] for need in step.needs(span.op)):
                link = need.device, span.device
                takes[link] = min(takes.get(link, inf), max(0.0, span.start - need.end))
    for step in steps:
        span_of = {span.op: span for span in step.spans}
        rows = [step.row(device) for device in range(step.devices)]
        before = {span.op: last.end for row in rows for last, span in pairwise(row)}
        waits = {
            need: span for span in step.spans for need in step.needs(span.op) if span_of[need].device != span.device
        }
        for device, row in enumerate(rows):
            for span, after in pairwise(row):
                needs = [span_of[need] for need in step.needs(after.op)]
                there = [need.end + takes[need.device, device] for need in needs if need.device != device]
                ready = max(there, default=step.start)
                taker = waits.get(span.op)
                if taker and ready <= span.end and before.get(taker.op, step.start) <= span.end:
                    found[device, taker.device].append(min(after.start, taker.start) - span.end)
    return {link: median(times) for link, times in sorted(found.items())}


class _Pauses(NamedTuple):
    """What came between steps, in the median. idle: time in which no device ran an op. last: the device that came last,
    for when the order lets it begin. own: how long that took from its last op to its first. others: how long the others
    took, in the median. gain: by how much a step begins later than if all devices were ready."""

    idle: float = 0.0
    last: int = 0
    own: float = 0.0
    others: float = 0.0
    gain: float = 0.0

    @classmethod
    def of(cls, steps: Sequence[Timeline], schedule: Schedule, duration: Callable[[Op], float]) -> _Pauses:
        """None of them if no step has any."""
        pauses = [step.pause for step in steps if step.pause]
        if not pauses:
            return cls()
        begins: dict[int, float] = {}
        for span in run(schedule, duration)[0]:
            begins[span.device] = min(span.start, begins.get(span.device, inf))
        own, ready = (
            [median(column) for column in zip(*of, strict=True)]
            for of in zip(*(one[1:] for one in pauses), strict=True)
        )
        late = [time - begins[device] for device, time in enumerate(ready)]
        last = late.index(max(late))
        idle, others = median(one.idle for one in pauses), [*own[:last], *own[last + 1 :]]
        return cls(idle, last, own[last], median(others or own), max(idle, late[last]))


class _Experts(NamedTuple):
    """What ops spend in exchanges among experts, in the median of each kind and stage. exposed, uneven: as in an
    `Exchange`. share, exposed_share: of all ops' time, by these medians. stage, imbalance: the stage where a device
    gets most beyond the mean, and how many times the mean."""

    exposed: Mapping[tuple[str, int], float]
    uneven: Mapping[tuple[str, int], float]
    share: float
    exposed_share: float
    stage: int
    imbalance: float

    @classmethod
    def of(cls, run_of: _Measured) -> _Experts:
        spent: dict[tuple[str, int], list[Exchange]] = defaultdict(list)
        for step in run_of.steps:
            for span in step.spans:
                spent[span.op.kind, span.op.stage].append(step.exchanges.get(span.op, Exchange(0, 0, 0, 0, 0)))
        times = [(times, stage) for step in run_of.steps for stage, times in step.imbalances.items()]
        stages = {stage for _, stage in times}
        medians = ((median(one for one, of in times if of == stage), stage) for stage in stages)
        imbalance, stage = max(medians, default=(1.0, 0))
        time, exposed, uneven = (
            {key: median(one[part] for one in of) for key, of in spent.items()} for part in range(3)
        )
        busy = sum(run_of.cost[key] * len(of) for key, of in spent.items()) or 1.0
        share, bare = (sum(of[key] * len(spent[key]) for key in spent) / busy for of in (time, exposed))
        return cls(exposed, uneven, share, bare, stage, imbalance)


class _Words:
    """The sentences, each with how sure it is."""

    def __init__(self, measured: _Measured, makespan: float) -> None:
        self._measured, self._makespan = measured, makespan

    def _time(self, time: float) -> str:
        if self._measured.steps[0].unit != "s":
            return f"{time:.4g}"
        scale, unit = next(
            (s, u) for s, u in ((1, "s"), (1e3, "ms"), (1e6, "µs")) if self._makespan * s >= 1 or s > 1e3
        )
        return f"{time * scale:.3g} {unit}"

    @property
    def _spread(self) -> str:
        return percent(self._measured.spread) if self._measured.spread >= 0.001 else "less than 0.1%"

    def _sure(self) -> str:
        steps, M = len(self._measured.steps), self._measured.schedule.micro_batches
        of = "one step" if steps == 1 else f"{steps} steps"
        return f"{of} of {plural(M, 'micro-batch')}, in which similar ops differ by {self._spread}"

    def bubble(self, bubble: float, planned_bubble: float, planned: float) -> str:
        """The measured bubble against that of the order."""
        lost = self._makespan - planned
        medians = ", in the median" * (len(self._measured.steps) > 1)
        text = f"The bubble is {percent(bubble)} of a step of {self._time(self._makespan)}{medians}; "
        text += f"the same order at these costs has {percent(planned_bubble)}"
        if lost < _WORTH * self._makespan:
            text += ", so the order and the costs explain it"
        else:
            text += f" and takes {self._time(planned)}: {self._time(lost)} is lost to late messages, "
            text += "or to single slow ops"
            op, times = self._hiccup()
            text += f", such as {op}, which took {times:.1f} times the median of its like" if times > _LIKE else ""
        return f"{text} ({self._sure()})."

    def _hiccup(self) -> tuple[Op, float]:
        """The op that took longest beyond its like, and how many times as long."""
        usual = self._measured.duration
        spans = [span for step in self._measured.steps for span in step.spans]
        worst = max(spans, key=lambda span: span.end - span.start - usual(span.op))
        like = usual(worst.op)
        return worst.op, (worst.end - worst.start) / like if like else 1.0

    def cut(self, slow: _Slowest, balance: Sequence[int], step: float, layers: Sequence[int] | None) -> str:
        """The slowest stage, and another cut."""
        if slow.device:
            return self._device(slow, *slow.device)
        told = f"{join_words(balance, most=16)} layers"
        if layers is None:
            told += f", each of today's stages counted as {sum(balance) // len(balance)}"
        else:
            told += f" instead of {join_words(layers, most=16)}"
        sure = "far more" if self._measured.beyond_chance(slow.by) else "not much more"
        text = f"Stage {slow.stage} is the slowest, with {slow.by:.2f} times the others' median, which is {sure} than "
        text += f"chance explains ({self._spread}); "
        if slow.cause:
            text += f"each of its layers takes {slow.layer_by:.2f} times as long as the others', so it is "
            text += f"{with_article(slow.cause)}: "
        if slow.mended:
            text += f"if it were as fast as the others, a step would take {self._time(slow.mended)}"
            if layers is not None and tuple(layers) == balance:
                return f"{text}."
            text += ", and "
        text += f"a cut into {told}, as balance_by_cost proposes, would give a step of {self._time(step)}"
        if slow.cause == SLOW_RANK:
            text += ", if its layers are as slow on any device"
        elif not slow.cause:
            text += ", if it is the layers that are slow and not the device"
        return f"{text}."

    def _device(self, slow: _Slowest, device: int, times: Mapping[int, float]) -> str:
        """A device all of whose stages are slow alike."""
        most = max(times, key=lambda stage: times[stage])
        each = join_words([f"{times[stage]:.2f}" for stage in sorted(times)], last=" and ", most=16)
        listed = join_words(sorted(times), last=" and ", most=16)
        return (
            f"Device {device} is slow: its stages {listed} take {each} times the median of the other devices' stages, "
            f"which is far more than chance explains ({self._spread}). Were it stage {most} alone, the others of "
            f"device {device} would be at 1.00; so it is the device, and not its layers. If it were as fast as the "
            f"others, a step would take {self._time(slow.mended)}."
        )

    def micro_batches(self, planned: float, packed: float, ordered: float, order: Sequence[int]) -> str:
        """Which micro-batch costs most, and what another packing or order would give."""
        times = self._measured.times
        most = max(range(len(times)), key=lambda m: times[m])
        text = (
            f"Micro-batches do not cost the same: micro-batch {most} takes {times[most]:.2f} times the median, on "
            f"every stage, and the cheapest {min(times):.2f} times; similar ops differ by {self._spread}. If all cost "
            f"the same, by another packing, this order would take {self._time(packed)}, not {self._time(planned)}"
        )
        if ordered < planned * (1 - _WORTH):
            text += f"; in the order {join_words(order, most=16)} it would take {self._time(ordered)}"
        return f"{text}."

    def messages(self, late: float, planned: float) -> str:
        """The links that are waited for."""
        links = self._measured.late
        if not links:
            return ""
        (source, target), most = max(links.items(), key=lambda item: item[1])
        others = [delay for link, delay in links.items() if link != (source, target)]
        beside = f" (others: {self._time(median(others))})" if others else ""
        text = (
            f"Messages are late, most of all from device {source} to {target}, by {self._time(most)} in the median of "
            f"those that were waited for{beside}"
        )
        if slow := self._slow_sender(most):
            text = slow
        return f"{text}: without that, this order would take {self._time(planned)}, not {self._time(late)}."

    def _slow_sender(self, most: float) -> str:
        """The sender whose time the lateness is, if it is one's; most: by how much messages come late at most."""
        kept = self._measured.kept
        if not kept:
            return ""
        (source, target), time = max(kept.items(), key=lambda item: item[1])
        others = median([each for link, each in kept.items() if link[0] != source] or [0.0])
        if time < most / 2 or time < 2 * others:
            return ""
        return (
            f"Device {source} is slow to send: after an op whose message device {target} waits for, it begins nothing "
            f"for {self._time(time)} in the median, though it lacks nothing (others: {self._time(others)})"
        )

    def exchange(self, found: _Experts, hidden: float, planned: float) -> str:
        """What experts' messages take, and what could hide them."""
        return (
            f"The exchange between experts (each all-to-all counts as one) takes {found.share:.1%} of the ops' time, "
            f"and {found.exposed_share:.1%} is exposed: their device computes nothing meanwhile. Hidden "
            f"altogether, it would leave a step of {self._time(hidden)}, not {self._time(planned)}; another "
            "micro-batch's work can hide it, as in a combined 1F1B, or experts on fewer or nearer devices make it "
            "shorter."
        )

    def imbalance(self, found: _Experts, even: float, planned: float) -> str:
        """The experts that get most."""
        return (
            f"Experts are not used evenly: on stage {found.stage} the busiest device gets {found.imbalance:.2f} times "
            f"the mean, and others wait for it. If all got as much, this order would take {self._time(even)}, not "
            f"{self._time(planned)}: a balancing loss or bias in the router, or a limit to what an expert takes, "
            "evens them out."
        )

    def pause(self, found: _Pauses) -> str:
        """The time between steps, and who came last."""
        text = (
            f"Between steps no device runs an op for {self._time(found.idle)} in the median: device {found.last} comes "
            f"last, and takes {self._time(found.own)} from its last op until it turns to the next step, "
        )
        if found.own - found.others < _WORTH * self._makespan:
            return f"{text}no longer than others ({self._time(found.others)}); an optimizer's step is in that time."
        return f"{text}others {self._time(found.others)}: the step waits for what it does there, such as loading data."

    def other(self, schedule: Schedule, step: float, planned: float) -> str:
        """A schedule that would be shorter."""
        apart = {op.kind for row in schedule.rows for op in row} & set("IW")
        measured = {kind for kind, _ in self._measured.cost}
        guess = ", if half of a backward is its weight gradient" if apart and "I" not in measured else ""
        half = " and each stage cut in two" if schedule.stages > self._measured.schedule.stages else ""
        return (
            f"With {schedule.name}{half}, a step would take {self._time(step)}, not {self._time(planned)}, at these "
            f"costs, with no more in flight than the fullest device has now{guess}."
        )
