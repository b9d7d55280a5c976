"""The sizing guide: all plans for a job, the best of them with the reason, or what is short and what would cure it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple

from gpipe_edu.schedule.recompute import CHECKPOINTS
from gpipe_edu.view.measures import time_unit

from .plan import Job, Plan

MOST_DEVICES: Final = 64
MOST_MICRO_BATCHES: Final = 256
"""Beyond these a table of plans would take minutes, not seconds."""

TIE: Final = 0.01
"""Plans whose steps differ by less than this share count as equally fast; a model of costs knows no better."""


class Change(NamedTuple):
    """The best plan with one knob turned, and what that does, in words."""

    plan: Plan
    effect: str


class Guide:
    """All plans for `job`: K and M as powers of two (and K as all devices), every checkpoint mode.

    Raises ValueError or TypeError for a job that cannot be planned.
    """

    def __init__(self, job: Job) -> None:
        self.job = job.check()
        devices = job.machine.devices
        if devices > MOST_DEVICES:
            raise ValueError(f"devices is {devices}; the guide plans for at most {MOST_DEVICES}")
        Ks = {K for K in (*_powers(devices), devices) if len(job.model.layers) >= K}
        Ms = list(_powers(min(job.batch, MOST_MICRO_BATCHES)))
        self.plans = tuple(Plan(job, K, M, mode) for K in sorted(Ks) for M in Ms for mode in CHECKPOINTS)
        self._at = {(plan.K, plan.M, plan.checkpoint): plan for plan in self.plans}

    @cached_property
    def fitting(self) -> tuple[Plan, ...]:
        """The plans for which no device lacks memory."""
        return tuple(plan for plan in self.plans if plan.fits)

    @cached_property
    def best(self) -> Plan | None:
        """The one with the shortest step; of equally fast ones with fewest devices, then least memory and recompute."""
        if not self.fitting:
            return None
        shortest = min(plan.step for plan in self.fitting)
        equal = [plan for plan in self.fitting if plan.step <= shortest * (1 + TIE)]
        return min(equal, key=lambda plan: (plan.K, max(plan.memory), -CHECKPOINTS.index(plan.checkpoint)))

    @cached_property
    def closest(self) -> Plan:
        """The one that lacks least, or has most to spare."""
        return min(self.plans, key=lambda plan: plan.short)

    def rows(self) -> list[Plan]:
        """For every K and checkpoint mode the best M: the fastest that fits, or the one that lacks least."""
        groups: dict[tuple[int, str], list[Plan]] = {}
        for plan in self.plans:
            groups.setdefault((plan.K, plan.checkpoint), []).append(plan)
        return [
            self.best if self.best in group else min(group, key=lambda plan: (max(plan.short, 0), plan.step))
            for group in groups.values()
        ]

    def changes(self) -> list[Change]:
        """The best plan with one knob turned at a time: half and twice K, half and twice M, other checkpoint modes."""
        best = self.best
        if best is None:
            return []
        turned = [(best.K // 2, best.M, best.checkpoint), (best.K * 2, best.M, best.checkpoint)]
        turned += [(best.K, best.M // 2, best.checkpoint), (best.K, best.M * 2, best.checkpoint)]
        turned += [(best.K, best.M, mode) for mode in CHECKPOINTS if mode != best.checkpoint]
        return [Change(self._at[key], _effect(self._at[key], best)) for key in turned if key in self._at]

    def reason(self) -> str:
        """Why the best plan is the best, in a sentence or two. Raises ValueError if nothing fits."""
        best = self.best
        if best is None:
            raise ValueError("nothing fits, so no plan is the best; shortage() tells what is short")
        alone = min((plan.step for plan in self.plans if plan.K == 1), default=best.step)
        others = f"{len(self.fitting)} of {len(self.plans)} plans fit"
        text = f"{others}, and none of them has a step more than {TIE:.0%} shorter."
        if best.K > 1:
            text += f" It is {alone / best.step:.2f} times as fast as one device would be, had it the memory."
        spare = self.job.machine.devices - best.K
        return text + (f" {spare} of {self.job.machine.devices} devices would be left over." if spare else "")

    def shortage(self) -> str:
        """What the closest plan lacks, where, and what fills the device. Raises ValueError if something fits."""
        if self.best is not None:
            raise ValueError("something fits, so nothing is short; best is the plan to take")
        plan, k = self.closest, self.closest.fullest
        return (
            f"Nothing fits. Closest is {plan.knobs}: device {k} needs "
            f"{size(plan.memory[k])} and may use {size(self.job.machine.usable)}, so {size(plan.short)} are short. It "
            f"holds {size(plan.state[k])} of weights, gradients and optimizer state and {size(plan.activations[k])} of "
            f"activations."
        )

    def cures(self) -> list[str]:
        """What alone would make something fit; empty if something does."""
        if self.best is not None:
            return []
        machine, needed = self.job.machine, self.closest.memory[self.closest.fullest]
        found = [f"devices of {size(needed / (1 - machine.reserve))} instead of {size(machine.memory)}"]
        batch = _first(_halves(self.job.batch), lambda N: self.job._replace(batch=N))
        if batch:
            found.append(f"a mini-batch of {batch} instead of {self.job.batch}")
        devices = _first(
            _doubles(machine.devices, min(MOST_DEVICES, len(self.job.model.layers))),
            lambda K: self.job._replace(machine=machine._replace(devices=K)),
        )
        if devices:
            found.append(f"{devices} devices instead of {machine.devices}")
        return found

    def lines(self, plans: Iterable[Plan]) -> list[str]:
        """A table of `plans`, a line each below a heading. Sizes are those of the fullest device."""
        heading = (
            f"  {'K':>3} {'M':>4}  {'checkpoint':<11} {'step':>8} {'bubble':>7} {'state':>7} {'activ.':>7} {'total':>7}"
        )
        return [heading, *(("* " if plan is self.best else "  ") + _line(plan) for plan in plans)]

    def __str__(self) -> str:
        best = self.best
        table = [
            *self.lines(self.rows()),
            "All times are planned. Sizes: of the fullest device; state: weights, gradients, optimizer.",
        ]
        if best is None:
            return "\n".join([*table, "", *_wrap(self.shortage()), *(f"  cure: {cure}" for cure in self.cures())])
        return "\n".join([*table, "", *_wrap(f"Best: {best.knobs}. {self.reason()}")])


def guide(job: Job) -> Guide:
    """All plans for `job`; see `Guide`."""
    return Guide(job)


def size(count: float) -> str:
    """Bytes as people read them, in powers of ten: "1.25 GB"."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= scale:
            return f"{count / scale:.{max(3, len(str(int(count / scale))))}g} {unit}"
    return f"{count:.0f} bytes"


def duration(seconds: float) -> str:
    """Seconds as people read them."""
    return time_unit("s", seconds).show(seconds)


def _wrap(sentences: str) -> list[str]:
    """Lines that a notebook shows whole; it would break longer ones inside a word."""
    return textwrap.wrap(sentences, width=100)


def _line(plan: Plan) -> str:
    k = plan.fullest
    knobs = f"{plan.K:>3} {plan.M:>4}  {plan.checkpoint:<11} {duration(plan.step):>8} {plan.bubble:>7.1%}"
    sizes = " ".join(f"{size(count):>7}" for count in (plan.state[k], plan.activations[k], plan.memory[k]))
    return f"{knobs} {sizes}  {'fits' if plan.fits else size(plan.short) + ' short'}"


def _effect(plan: Plan, best: Plan) -> str:
    change = plan.step / best.step - 1
    slower = f"{change:+.0%} time" if abs(change) >= 0.005 else "same time"
    if not plan.fits:
        return f"{size(plan.short)} short on device {plan.fullest} ({slower})"
    return f"{slower}, {size(max(plan.memory))} instead of {size(max(best.memory))}"


def _first(values: Iterator[int], job: Callable[[int], Job]) -> int | None:
    """The first of the values whose job has a plan that fits."""
    for value in values:
        # The finest cut with everything recomputed is tried first, since it needs least.
        thrifty = [plan for plan in Guide(job(value)).plans if plan.checkpoint == "always"]
        if any(plan.fits for plan in reversed(thrifty)):
            return value
    return None


def _powers(most: int) -> Iterator[int]:
    power = 1
    while power <= most:
        yield power
        power *= 2


def _halves(value: int) -> Iterator[int]:
    while value > 1:
        value //= 2
        yield value


def _doubles(value: int, most: int) -> Iterator[int]:
    while value < most:
        value = min(2 * value, most)
        yield value
