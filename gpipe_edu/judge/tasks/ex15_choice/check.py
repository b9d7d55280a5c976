"""Does the plan do all that is asked? If not: which inequality breaks, and on which device.

Which plans do so is found by trying all there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from math import ceil
from random import Random
from typing import Any, Final, NamedTuple

from gpipe_edu.base.words import join_words, plural
from gpipe_edu.judge.bill import Model, Plan, activations, state
from gpipe_edu.judge.case import Exam, Sign
from gpipe_edu.judge.findings import Success
from gpipe_edu.judge.guest.forms import describe, is_whole
from gpipe_edu.process.plain import a_name_of


class Job(NamedTuple):
    """What is to be trained, and on what. memory: bytes of a device. batch: samples of a step."""

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
"""The largest bubble that is accepted."""

CONDITIONS: Final[dict[str, Callable[[Job, Plan], bool]]] = {
    "in-a-node": lambda job, plan: job.node >= plan.T,
    "divides-a-node": lambda job, plan: job.node < plan.T or job.node % plan.T == 0,
    "samples": lambda job, plan: job.batch == plan.D * plan.M * plan.samples,
    "groups-of-k": lambda job, plan: plan.V == 1 or plan.M % plan.K == 0,
    "bubble": lambda job, plan: bubble(plan) <= MOST_IDLE,
    "memory": Job.fits,
}
"""Those that a search may forget; the costly one last."""


def plans(job: Job, without: str = "") -> Iterator[Plan]:
    """Plans that fit, the smallest groups and the fewest stages first. without: a condition that they need not meet."""
    asked = [condition for name, condition in CONDITIONS.items() if name != without]
    for T, K in product(divisors(job.devices), repeat=2):
        if job.devices % (T * K) or job.model.blocks % K:
            continue
        D = job.devices // (T * K)
        for V, M in product(divisors(job.model.blocks // K) if K > 1 else [1], divisors(job.batch)):
            if job.batch < D * M:
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


_NAMES: Final = ("T", "D", "K", "V", "M", "recompute")


_8B: Final = Model(32, 4096, 128_000, 8192)
_70B: Final = Model(80, 8192, 128_000, 8192)
_1B: Final = Model(16, 2048, 50_000, 2048)

_JOBS: Final = (
    Job(_70B, 64, 8, 72 * 10**9, 256),
    Job(_1B, 8, 8, 72 * 10**9, 64),
    Job(_1B, 8, 4, 22 * 10**9, 64),
    Job(_8B, 64, 8, 72 * 10**9, 512),
    Job(_8B, 16, 8, 36 * 10**9, 128),
    Job(Model(24, 4096, 128_000, 4096), 16, 4, 30 * 10**9, 240),
    Job(Model(8, 1024, 200_000, 8192), 4, 1, 16 * 10**9, 12),
    Job(Model(30, 2048, 32_000, 4096), 12, 2, 20 * 10**9, 120),
)
"""The last two: large tables for a small model; numbers that are not powers of two."""


def _just_enough(model: Model, batch: int, plan: Plan, node: int = 1) -> Job:
    """A job with as many devices, and as large ones, as this plan needs, to the byte."""
    job = Job(model, plan.T * plan.D * plan.K, node, 0, batch)
    return job._replace(memory=ceil(max(job.needs(plan, k) for k in range(plan.K))))


_EDGES: Final = (
    _just_enough(_1B, 1, Plan(1, 1, 1, 1, 1, 1, "none")),
    _just_enough(Model(2, 1024, 200_000, 4096), 4, Plan(1, 1, 2, 1, 4, 1, "none")),
    _just_enough(Model(6, 1024, 200_000, 4096), 4, Plan(1, 1, 2, 1, 4, 1, "full")),
    _just_enough(Model(24, 6144, 32_000, 8192), 6, Plan(1, 1, 3, 4, 6, 1, "full")),
    _just_enough(Model(6, 4096, 128_000, 2048), 3, Plan(3, 3, 1, 1, 1, 1, "none"), node=6),
)
"""Plans that just meet a limit: the only one, with K = 1; the only one, with a bubble of a fifth; one with recompute,
since without it device 0 has room, and the last one has not; the only one, with a V larger than its bubble asks for;
and the only one, with groups of three where a node is half full."""

_IDLE: Final = (
    _just_enough(Model(6, 2048, 200_000, 2048), 3, Plan(1, 1, 3, 2, 3, 1, "none")),
    _just_enough(Model(2, 1024, 200_000, 4096), 3, Plan(1, 1, 2, 1, 3, 1, "none")),
)
"""The only plans that fit have a bubble of a quarter: by V and M both, or with a micro-batch too few for a fifth."""

_UNDIVIDED: Final = Job(Model(12, 1024, 50_000, 2048), 8, 1, 72 * 10**9, 12)
"""No plan, though memory is ample: eight replicas do not divide the batch; two do, and so do four micro-batches, but
not both together; and whatever divides it idles too long."""

_ONLY: Final[tuple[Callable[[Plan], bool], ...]] = (
    lambda plan: plan.recompute == "full",
    lambda plan: plan.T > 1,
    lambda plan: plan.V > 1,
    lambda plan: plan.K > 2,
)
"""What a search that leaves something out never gives; for each there is a job that has no other plan."""


def examine(exam: Exam, rng: Random) -> Success:
    """Known jobs, then random ones: some whose plans all have one thing in common, some that have none, though many a
    plan would do all but one thing."""
    chosen = [_judge(exam, job) for job in (*_JOBS, *_EDGES)]
    for only in _ONLY:
        _judge(exam, _draw(rng, partial(_have_only, only=only)))
    _refuse(exam, Job(_70B, 8, 8, 72 * 10**9, 64))
    for job in (*_IDLE, _UNDIVIDED):
        _refuse(exam, job)
    for name in CONDITIONS:
        for _ in range(2):
            _refuse(exam, _draw(rng, partial(_tempts, name=name)))
    job, plan = _JOBS[0], chosen[0]
    most = max(job.needs(plan, k) for k in range(plan.K))
    return exam.success(plan=_in_words(plan), most=f"{most / 1e9:.1f} GB")


def _have_only(job: Job, only: Callable[[Plan], bool]) -> bool:
    """Whether it has plans, and all are like that."""
    found = plans(job)
    first = next(found, None)
    return first is not None and only(first) and all(map(only, found))


def _tempts(job: Job, name: str) -> bool:
    """Whether it has no plan, but one that breaks only this condition, the bubble by little."""
    if any(True for _ in plans(job)):
        return False
    near = {"bubble": lambda plan: bubble(plan) <= Fraction(1, 4)}.get(name, lambda plan: True)
    return any(map(near, plans(job, name)))


def _draw(rng: Random, wanted: Callable[[Job], bool]) -> Job:
    """A job that is `wanted`. Two of three that are tried have few samples for their nodes: bubbles are hard to
    fill there, only by V or not at all."""
    while True:
        blocks, node = rng.choice((12, 16, 24, 30, 40)), rng.choice((2, 4, 6, 8))
        model = Model(blocks, 1024 * rng.randint(1, 8), 1000 * rng.randint(30, 200), 2048 * rng.randint(1, 4))
        anything = rng.choice((2, 3, 4, 6)), rng.choice((10, 12, 20, 36, 96, 240))
        nodes, batch = rng.choice(((6, 12), (4, 10), anything))
        job = Job(model, nodes * node, node, 10**9 * rng.randint(3, 80), batch)
        if wanted(job):
            return job


def _judge(exam: Exam, job: Job) -> Plan:
    """Judge one choice."""
    plan = _in_words(next(plans(job)))
    case = exam.case(_write(job), f"for instance {plan}")
    case.words = {"plan": plan}
    found = case.ask({"ValueError": "found-none"}, **_given(job))
    case.came = describe(found[0], 160)
    case.judge(_signs(job, *found))
    return _plan(job, found[0])


def _refuse(exam: Exam, job: Job) -> None:
    """Make sure that a job without a plan gets none."""
    exam.case(_write(job), "ValueError, as no plan meets all conditions").refuses(
        Sign("no-refusal"),
        lambda found: describe(found[0], 160),
        lambda found: () if found[0] is None else _signs(job, *found),
        **_given(job),
    )


def _signs(job: Job, found: Any, after: Any) -> Iterator[Sign]:
    yield from _form(found)
    yield Sign("input-changed", after != job.model._asdict())
    yield from _numbers(job, found)
    yield from _limits(job, _plan(job, found))


def _plan(job: Job, found: dict[str, Any]) -> Plan:
    T, D, K, V, M = (int(found[name]) for name in _NAMES[:-1])
    return Plan(T, D, K, V, M, job.batch // (D * M), found["recompute"])


def _form(found: Any) -> Iterator[Sign]:
    yield Sign("no-return", found is None, came="None")
    yield Sign("not-a-plan", not isinstance(found, dict), words={"kind": a_name_of(found)})
    missing = [name for name in _NAMES if name not in found]
    yield Sign("missing", bool(missing), words={"missing": join_words(missing)})
    for name in _NAMES[:-1]:
        good = is_whole(found[name]) and not isinstance(found[name], bool) and found[name] >= 1
        yield Sign("not-whole", not good, difference=f"{name} is {describe(found[name])}")
    yield Sign("recompute-word", found["recompute"] not in ("none", "full"))


def _numbers(job: Job, found: dict[str, Any]) -> Iterator[Sign]:
    """All signs about divisibility."""
    T, D, K, V, M = (int(found[name]) for name in _NAMES[:-1])
    used = f"T D K = {T} {D} {K} = {T * D * K}, and there are {job.devices} devices"
    yield Sign("too-many-devices", job.devices < T * D * K, difference=used)
    yield Sign("devices-left", job.devices > T * D * K, difference=used)
    yield Sign(
        "across-nodes", T not in divisors(job.node), difference=f"T is {T}, and a node has {plural(job.node, 'device')}"
    )
    yield Sign("v-of-one", K == 1 < V, difference=f"K is 1 and V is {V}")
    blocks = f"{job.model.blocks} blocks, K V = {K * V}"
    yield Sign("blocks", job.model.blocks % (K * V) != 0, difference=blocks)
    yield Sign("samples", job.batch % (D * M) != 0, difference=f"{job.batch} samples, D M = {D * M}")
    yield Sign("groups-of-k", V > 1 and M % K != 0, difference=f"V is {V}, M is {M} and K is {K}")


def _limits(job: Job, plan: Plan) -> Iterator[Sign]:
    """All signs about memory and time."""
    for k in range(plan.K):
        needs = job.needs(plan, k)
        parts = tuple(count(job.model, plan, k) / 1e9 for count in (state, activations))
        told = f"device {k}: {parts[0]:.2f} + {parts[1]:.2f} = {needs / 1e9:.2f} GB > {job.memory / 1e9:g} GB"
        yield Sign("state-too-large", parts[0] * 1e9 > job.memory, difference=told, words={"k": k})
        alone = job.needs(plan._replace(samples=1), k) <= job.memory < needs and plan.K == 1
        yield Sign("one-sample", alone, difference=told, words={"samples": plan.samples})
        slip = "last-too-full" if k == plan.K - 1 and k > 0 else "too-full"
        yield Sign(slip, needs > job.memory, difference=told, words={"k": k})
    idle = bubble(plan)
    told = f"(K - 1) / (V M + K - 1) = {plan.K - 1} / {plan.V * plan.M + plan.K - 1} = {float(idle):.1%} > 20 %"
    yield Sign("bubble", idle > MOST_IDLE, difference=told)
    without = plan._replace(recompute="none")
    fullest = max(job.needs(without, k) for k in range(plan.K)) / 1e9
    told = f'with "none" the fullest device needs {fullest:.6g} GB of {job.memory / 1e9:g} GB'
    yield Sign("recompute-for-nothing", plan.recompute == "full" and job.fits(without), difference=told)


def _given(job: Job) -> dict[str, Any]:
    return {**job._asdict(), "model": job.model._asdict()}


def _write(job: Job) -> str:
    model = ", ".join(f"{name}={value}" for name, value in job.model._asdict().items())
    memory = f"{job.memory / 1e9:g}e9"
    if float(memory) != job.memory:
        memory = f"{job.memory:_}"
    return f"choose(dict({model}), {job.devices}, {job.node}, {memory}, {job.batch})"


def _in_words(plan: Plan) -> str:
    numbers = ", ".join(f"{name} = {getattr(plan, name)}" for name in _NAMES[:-1])
    return f'{numbers}, recompute "{plan.recompute}"'
