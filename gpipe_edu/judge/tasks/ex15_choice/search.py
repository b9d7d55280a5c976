"""All plans that do what is asked, by trying everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Final, NamedTuple

from gpipe_edu.judge.bill import Model, Plan, activations, state


class Job(NamedTuple):
    """What is to be trained on what. memory: bytes of a device. batch: samples of a step."""

    model: Model
    devices: int
    node: int
    memory: int
    batch: int

    def needs(self, plan: Plan, k: int) -> float:
        """Bytes on device k."""
        return state(self.model, plan, k) + activations(self.model, plan, k)

    def fits(self, plan: Plan) -> bool:
        """Whether no device needs more than there is."""
        return all(self.needs(plan, k) <= self.memory for k in range(plan.K))


MOST_IDLE: Final = Fraction(1, 5)
"""The largest bubble that is taken."""

CONDITIONS: Final[dict[str, Callable[[Job, Plan], bool]]] = {
    "in-a-node": lambda job, plan: job.node >= plan.T,
    "divides-a-node": lambda job, plan: job.node < plan.T or job.node % plan.T == 0,
    "groups-of-k": lambda job, plan: plan.V == 1 or plan.M % plan.K == 0,
    "bubble": lambda job, plan: bubble(plan) <= MOST_IDLE,
    "memory": Job.fits,
}
"""Those that a search may forget; the dear one last."""


def plans(job: Job, without: str = "") -> Iterator[Plan]:
    """Plans that fit, the smallest groups and the fewest stages first. without: a condition that they need not meet."""
    asked = [condition for name, condition in CONDITIONS.items() if name != without]
    for T, K in product(divisors(job.devices), repeat=2):
        if job.devices % (T * K) or job.model.blocks % K:
            continue
        D = job.devices // (T * K)
        for V, M in product(divisors(job.model.blocks // K) if K > 1 else [1], divisors(job.batch)):
            if job.batch % (D * M):
                continue
            for recompute in ("none", "full"):
                plan = Plan(T, D, K, V, M, job.batch // (D * M), recompute)
                if all(condition(job, plan) for condition in asked):
                    yield plan
                    break


def bubble(plan: Plan) -> Fraction:
    """Idle time over all time, with free links (Narayanan et al. 2021, arXiv 2104.04473, for V > 1)."""
    return Fraction(plan.K - 1, plan.V * plan.M + plan.K - 1)


def divisors(number: int) -> list[int]:
    """All of them, in order."""
    return [one for one in range(1, number + 1) if number % one == 0]
