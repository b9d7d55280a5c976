"""The sizing guide: all plans for a job, the best of them with the reason, or what is short and what would cure it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from math import inf
from typing import Final, NamedTuple

from gpipe_edu.view.measures import time_unit

from .plan import RECOMPUTES, Job, Plan

MOST_DEVICES: Final = 16384
MOST_MICRO_BATCHES: Final = 512
"""Beyond these a table of plans would take minutes, not seconds."""

TIE: Final = 0.01
"""Plans whose steps differ by less than this share count as equally fast; a model of costs knows no better."""

WAYS: Final = (
    "Ways weighed: replicas, stages, micro-batches and recompute, with schedule, tensor groups and ZeRO-1 as given. "
    "Not weighed: sharded gradients (ZeRO-2) and weights (ZeRO-3, FSDP), context and expert parallelism, other "
    "schedules. Where this takes a pipeline, or finds nothing that fits, FSDP may fit without one, and be faster."
)
"""What a guide takes into account and what not; to be shown with all its advice."""

_FEW: Final = 16
"""Up to so many devices, any number of them may be used; of more, only divisors."""


class Change(NamedTuple):
    """The best plan with one knob turned, and what that does, in words."""

    plan: Plan
    effect: str


class Guide:
    """All plans for `job`: every D and K that the devices allow, every size of micro-batch, every way to recompute.

    What it advises is the best of these (`WAYS`). Raises ValueError or TypeError for a job that cannot be planned.
    """

    def __init__(self, job: Job) -> None:
        self.job = job.check()
        devices, layers = job.machine.devices, len(job.model.layers)
        if devices > MOST_DEVICES:
            raise ValueError(f"devices is {devices}; the guide plans for at most {MOST_DEVICES}")
        counts = [n for n in range(1, devices + 1) if devices <= _FEW or devices % n == 0]
        # Scores that are not stored can't be dropped.
        some = any(layer.scores for layer in job.model.layers)
        modes = [mode for mode in RECOMPUTES if some or mode != "selective"]
        self.plans = tuple(
            Plan(job, D, K, M, mode)
            for K in counts
            if K == 1 or layers >= K * job.V
            for D in counts
            if devices >= D * K and job.batch >= D
            for M in _micro_batches(job.batch, D)
            for mode in modes
        )

    @cached_property
    def fitting(self) -> tuple[Plan, ...]:
        """The plans for which no device lacks memory."""
        return tuple(plan for plan in self.plans if plan.fits)

    @cached_property
    def best(self) -> Plan | None:
        """The one with the shortest step; of equally fast ones with fewest devices, then least memory and recompute."""
        return _fastest(self.fitting)

    @cached_property
    def closest(self) -> Plan:
        """The one that lacks the least memory, or has the most to spare."""
        return min(self.plans, key=lambda plan: plan.short)

    @cached_property
    def alone(self) -> Plan | None:
        """The best without a pipeline: replicas of the whole model."""
        return _fastest(plan for plan in self.fitting if plan.K == 1)

    def rows(self) -> list[Plan]:
        """For every K the best D, M and recompute: the fastest that fits, or the one that lacks least."""
        groups: dict[int, list[Plan]] = {}
        for plan in self.plans:
            groups.setdefault(plan.K, []).append(plan)
        fitting = {K: [plan for plan in group if plan.fits] for K, group in groups.items()}
        return [_fastest(fitting[K]) or min(group, key=lambda plan: plan.short) for K, group in groups.items()]

    def changes(self) -> list[Change]:
        """The best plan with one knob turned at a time: half and twice D, K and M, the other ways to recompute."""
        best = self.best
        if best is None:
            return []
        at = {(plan.D, plan.K, plan.M, plan.recompute): plan for plan in self.plans}
        D, K, M, mode = key = best.D, best.K, best.M, best.recompute
        turned = [(D // 2, K, M, mode), (D * 2, K, M, mode), (D, K // 2, M, mode), (D, K * 2, M, mode)]
        turned += [(D // 2, K * 2, M, mode), (D * 2, K // 2, M, mode), (D, K, M // 2, mode), (D, K, M * 2, mode)]
        turned += [(D, K, M, other) for other in RECOMPUTES]
        return [Change(at[other], _effect(at[other], best)) for other in turned if other in at and other != key]

    def reason(self) -> str:
        """Why the best plan is the best, in a few sentences. Raises ValueError if nothing fits."""
        best = self.best
        if best is None:
            raise ValueError("nothing fits, so no plan is the best; shortage() tells what is short")
        text = f"{len(self.fitting)} of {len(self.plans)} plans fit, and none has a step more than {TIE:.0%} shorter. "
        spare = self.job.machine.devices - best.D * best.K
        text += self._pipeline_or_not(best)
        return text + (f" {spare} of {self.job.machine.devices} devices would be left over." if spare else "")

    def _pipeline_or_not(self, best: Plan) -> str:
        if best.K == 1 and self.job.machine.devices == 1:
            return "On one device there is nothing to divide."
        if best.K == 1:
            cut = _fastest(plan for plan in self.fitting if plan.K > 1)
            other = f"the fastest, {cut.knobs}, takes {cut.step / best.step:.2f} times as long" if cut else "none fits"
            return f"No pipeline is needed: the model fits on each device, and of those with one {other}."
        if self.alone is None:
            whole = [plan for plan in self.plans if plan.K == 1]
            least = min(whole, key=lambda plan: plan.short)
            text = (
                f"Of the ways weighed only a pipeline fits: a device with the whole model lacks {size(least.short)}, "
                f"even with {least.knobs}."
            )
            shared = self.job._replace(zero=True)
            cured = not self.job.zero and any(Plan(shared, plan.D, 1, plan.M, plan.recompute).fits for plan in whole)
            return text + (" With ZeRO-1 replicas alone fit, too." if cured else "")
        most = max((plan for plan in self.plans if plan.K == 1), key=lambda plan: plan.D)
        times = self.alone.step / best.step
        return (
            f"Of the ways weighed a pipeline is fastest: replicas alone, {self.alone.knobs}, fit but take {times:.2f} "
            f"times as long. With {most.D} of them the all-reduce alone would add {duration(max(most.exposed))} to a "
            "step."
        )

    def shortage(self) -> str:
        """What the closest plan lacks, where, and what fills the device. Raises ValueError if something fits."""
        if self.best is not None:
            raise ValueError("something fits, so nothing is short; best is the plan to take")
        plan, k = self.closest, self.closest.fullest
        return (
            f"Of the ways weighed nothing fits. Closest is {plan.knobs}: device {k} needs "
            f"{size(plan.memory[k])} and may use {size(self.job.machine.usable)}, so {size(plan.short)} are short. It "
            f"holds {size(plan.state[k])} of weights, gradients and optimizer state and {size(plan.activations[k])} of "
            f"activations."
        )

    def cures(self) -> list[str]:
        """Single changes that would make some plan fit; empty if one fits already."""
        if self.best is not None:
            return []
        job, machine, needed = self.job, self.job.machine, self.closest.memory[self.closest.fullest]
        found = [f"devices of {size(needed / (1 - machine.reserve))} instead of {size(machine.memory)}"]
        batch = _first(_halves(job.batch), lambda N: job._replace(batch=N))
        if batch:
            found.append(f"a mini-batch of {batch} instead of {job.batch}")
        devices = _first(
            _doubles(machine.devices, min(MOST_DEVICES, 64 * machine.devices)),
            lambda count: job._replace(machine=machine._replace(devices=count)),
        )
        if devices:
            found.append(f"{devices} devices instead of {machine.devices}")
        if not job.zero and Guide(job._replace(zero=True)).fitting:
            found.append("ZeRO-1, which spreads the optimizer's state over the replicas")
        return found

    def lines(self, plans: Iterable[Plan]) -> list[str]:
        """A table of `plans`, a line each below a heading. Sizes are those of the fullest device."""
        heading = (
            f"  {'D':>4} {'K':>3} {'M':>4}  {'recompute':<9} {'step':>8} {'bubble':>7} {'state':>7} {'activ.':>7} "
            f"{'total':>7}"
        )
        return [heading, *(("* " if plan is self.best else "  ") + _line(plan) for plan in plans)]

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
        return "\n".join([*table, "", *advice, "", *_wrap(WAYS)])


def guide(job: Job) -> Guide:
    """All plans for `job`; see `Guide`."""
    return Guide(job)


def size(count: float) -> str:
    """Bytes as people read them, in powers of ten: "1.25 GB"."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= 0.9995 * scale:  # so that what rounds to 1 is 1
            return f"{count / scale:.{max(3, len(str(int(count / scale))))}g} {unit}"
    return f"{count:.0f} bytes"


def duration(seconds: float) -> str:
    """Seconds as people read them."""
    return time_unit("s", seconds).show(seconds)


def _wrap(sentences: str) -> list[str]:
    """Wrapped to lines that a notebook shows whole; it would break longer ones in the middle of a word."""
    return textwrap.wrap(sentences, width=100)


def _line(plan: Plan) -> str:
    k = plan.fullest
    knobs = f"{plan.D:>4} {plan.K:>3} {plan.M:>4}  {plan.recompute:<9} {duration(plan.step):>8} {plan.bubble:>7.1%}"
    sizes = " ".join(f"{size(count):>7}" for count in (plan.state[k], plan.activations[k], plan.memory[k]))
    return f"{knobs} {sizes}  {'fits' if plan.fits else size(plan.short) + ' short'}"


def _effect(plan: Plan, best: Plan) -> str:
    change = plan.step / best.step - 1
    slower = f"{change:+.0%} time" if abs(change) >= 0.005 else "same time"
    if not plan.fits:
        return f"{size(plan.short)} short on device {plan.fullest} ({slower})"
    return f"{slower}, {size(max(plan.memory))} instead of {size(max(best.memory))}"


def _fastest(plans: Iterable[Plan]) -> Plan | None:
    """The best of plans that fit. Only candidates are simulated: no step is shorter than its plan's bound."""
    found: list[Plan] = []
    shortest = inf
    for plan in sorted(plans, key=lambda plan: plan.bound):
        if plan.bound > shortest * (1 + TIE):
            break
        shortest = min(shortest, plan.step)
        found.append(plan)
    equal = [plan for plan in found if plan.step <= shortest * (1 + TIE)]
    order = list(RECOMPUTES)
    return min(
        equal,
        key=lambda plan: (plan.D * plan.K, max(plan.memory), order.index(plan.recompute), plan.step),
        default=None,
    )


def _first(values: Iterator[int], job: Callable[[int], Job]) -> int | None:
    """The first of the values whose job has a plan that fits."""
    return next((value for value in values if Guide(job(value)).fitting), None)


def _micro_batches(batch: int, replicas: int) -> list[int]:
    """The smallest M for every size of micro-batch: larger ones with that size only add empty work."""
    share = -(-batch // replicas)
    counts = {-(-share // -(-share // M)) for M in range(1, min(batch // replicas, MOST_MICRO_BATCHES) + 1)}
    return sorted(counts)


def _halves(value: int) -> Iterator[int]:
    while value > 1:
        value //= 2
        yield value


def _doubles(value: int, most: int) -> Iterator[int]:
    while value < most:
        value = min(2 * value, most)
        yield value
