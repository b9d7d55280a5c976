"""Are these the gradients of the mean loss? Whose gradients were averaged instead is found by averaging them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from gpipe_edu.base.words import tell_apart
from gpipe_edu.judge.case import Belief, Case, Exam, Sign, try_beliefs
from gpipe_edu.judge.findings import Success
from gpipe_edu.judge.guest.forms import describe, is_whole

Experts: TypeAlias = list[dict[int, float]]
"""Of each rank, the gradients of the experts that it holds."""


class Job(NamedTuple):
    """What the ranks have after their backwards. copies: how many ranks hold each expert."""

    dense: list[float]
    experts: Experts
    copies: int

    @property
    def group(self) -> int:
        """How many ranks hold all experts together."""
        return len(self.dense) // self.copies

    def holders(self, expert: int) -> list[int]:
        """The ranks that hold this expert."""
        return [rank for rank, own in enumerate(self.experts) if expert in own]

    def added_up(self, divisor: float) -> Experts:
        """Of each expert, the sum over its holders, divided."""
        sums = {e: sum(self.experts[rank][e] for rank in self.holders(e)) for own in self.experts for e in own}
        return [{e: sums[e] / divisor for e in own} for own in self.experts]

    def each(self, divisor: float) -> Experts:
        """Of each expert, the holder's own gradient, divided."""
        return [{e: value / divisor for e, value in own.items()} for own in self.experts]

    def by_place(self, ranks_with: Callable[[int], Sequence[int]]) -> Experts:
        """The mean over other ranks of the experts at the same place in their dicts. ranks_with: of a rank."""
        lists = [list(own.values()) for own in self.experts]
        return [
            {e: _mean([one[place] for one in lists], ranks_with(rank)) for place, e in enumerate(own)}
            for rank, own in enumerate(self.experts)
        ]


def mean_gradients(job: Job) -> tuple[list[float], Experts]:
    """The gradients of the mean of all ranks' losses: sums over all who hold a weight, divided by the number of ranks.

    A holder's gradient of an expert is already the sum over the ranks whose tokens came to it, so the sum over holders
    is one over all ranks.
    """
    R = len(job.dense)
    return [sum(job.dense) / R] * R, job.added_up(R)


def _in_blocks(length: int) -> Callable[[int], range]:
    """Of a rank, those with which it forms a block of so many."""
    return lambda rank: range(start := rank // length * length, start + length)


_OF_DENSE: Final[dict[str, tuple[Callable[[Job], Any], ...]]] = {
    "dense-alone": (lambda job: job.dense,),
    "dense-added-up": (lambda job: [sum(job.dense)] * len(job.dense),),
    "dense-in-groups": (
        lambda job: [_mean(job.dense, job.holders(min(own))) for own in job.experts],
        lambda job: [_mean(job.dense, _in_blocks(job.group)(rank)) for rank in range(len(job.dense))],
    ),
    "dense-divisor": (
        lambda job: [sum(job.dense) / job.copies] * len(job.dense),
        lambda job: [sum(job.dense) / job.group] * len(job.dense),
    ),
}

_OF_EXPERTS: Final[dict[str, tuple[Callable[[Job], Any], ...]]] = {
    "experts-alone": (lambda job: job.each(1), lambda job: job.each(len(job.dense)), lambda job: job.each(job.group)),
    "over-holders": (lambda job: job.added_up(job.copies),),
    "experts-added-up": (lambda job: job.added_up(1),),
    "divided-by-group": (
        lambda job: job.added_up(job.group),
        lambda job: job.added_up(len(job.experts[0])),
        lambda job: job.added_up(job.group * len(job.experts[0])),
    ),
    "other-experts": (
        lambda job: [
            dict.fromkeys(own, np.mean([g for one in job.experts for g in one.values()])) for own in job.experts
        ],
        lambda job: job.by_place(lambda rank: range(len(job.dense))),
        lambda job: job.by_place(_in_blocks(job.group)),
        lambda job: job.by_place(_in_blocks(job.copies)),
        lambda job: job.by_place(lambda rank: range(rank % job.copies, len(job.dense), job.copies)),
        lambda job: job.by_place(lambda rank: range(rank % job.group, len(job.dense), job.group)),
    ),
}
"""A slip -> what those give who have it: a variant for each way to act on it."""


def examine(exam: Exam, rng: Random) -> Success:
    """Replicas alone, one group alone, then both, with ranks in several orders. All are asked first: one alone proves
    no slip."""
    shapes = [(1, 1), (2, 1), (1, 2), (2, 2), (2, 4), (4, 2), (3, 2), (2, 3), (3, 4)]
    asked = [_ask(exam, _draw(rng, *shape)) for shape in shapes]
    _judge(asked, 0, _OF_DENSE)
    _judge(asked, 1, _OF_EXPERTS)
    job = asked[-1].job
    return exam.success(ranks=len(job.dense), copies=job.copies, group=job.group)


def _draw(rng: Random, copies: int, group: int) -> Job:
    """Random gradients. Ranks of one group follow one another, or stand apart, or are in no order."""
    each, R = rng.randint(1, 3), copies * group
    numbers = list(range(group * each))
    rng.shuffle(numbers)
    part_of = rng.choice(
        ([r % group for r in range(R)], [r // copies for r in range(R)], rng.sample([*range(group)] * copies, R))
    )
    experts = [{e: round(rng.gauss(0, 4), 2) for e in sorted(numbers[part * each :][:each])} for part in part_of]
    return Job([round(rng.gauss(0, 4), 2) for _ in range(R)], experts, copies)


class _Asked(NamedTuple):
    case: Case
    job: Job
    parts: tuple[list[float], Experts]


def _ask(exam: Exam, job: Job) -> _Asked:
    case = exam.case(f"average_gradients({job.dense}, {job.experts})", _in_words(mean_gradients(job)))
    entries = [list(own.items()) for own in job.experts]
    found, dense_after, experts_after = case.ask(dense=job.dense, experts=entries)
    case.came = describe(found, 200)
    case.judge(_form(found, job))
    parts = [float(value) for value in found[0]], [_dict(one) for one in found[1]]
    case.came = _in_words(parts)
    unchanged = dense_after == job.dense and [_dict(one) for one in experts_after] == job.experts
    case.judge([Sign("input-changed", not unchanged)])
    return _Asked(case, job, parts)


def _form(found: Any, job: Job) -> Iterator[Sign]:
    yield Sign("no-return", found is None, came="None")
    R = len(job.dense)
    yield Sign("not-two", not isinstance(found, list) or len(found) not in (2, R))
    by_rank = all(isinstance(one, list) and len(one) == 2 and isinstance(one[1], dict) for one in found)
    yield Sign("by-rank", by_rank)
    yield Sign("not-two", len(found) != 2)
    dense, experts = found
    yield Sign("dense-once", _is_number(dense))
    yield Sign("not-two", not isinstance(dense, list) or not isinstance(experts, list))
    yield Sign("not-numbers", not all(map(_is_number, dense)))
    yield Sign("dicts", not all(isinstance(one, dict) for one in experts))
    yield Sign("ranks", len(dense) != R or len(experts) != R)
    for rank, own in enumerate(job.experts):
        its = experts[rank]["entries"]
        more = {key for key, _ in its} - own.keys()
        yield Sign("all-experts", bool(more), words={"rank": rank})
        yield Sign("missing", len(its) < len(own), words={"rank": rank})
        yield Sign("not-numbers", not all(_is_number(value) for _, value in its))


def _dict(one: dict[str, Any]) -> dict[int, float]:
    return {int(key): float(value) for key, value in one["entries"]}


def _is_number(value: Any) -> bool:
    return is_whole(value) or isinstance(value, float | np.floating)


def _judge(asked: Sequence[_Asked], part: int, beliefs: dict[str, tuple[Callable[[Job], Any], ...]]) -> None:
    """Judge dense gradients (part 0) or those of experts, at the first job that is wrong; a slip explains all jobs."""
    for answer in asked:
        truth, came = mean_gradients(answer.job)[part], answer.parts[part]
        if not _same(came, truth):
            answer.case.difference = _difference(came, truth)
            tried = (Belief(slip, variants) for slip, variants in beliefs.items())
            fits = lambda variant: all(_same(one.parts[part], variant(one.job)) for one in asked)  # noqa: E731
            answer.case.judge(try_beliefs(tried, fits))
            answer.case.judge([Sign(("dense-off", "experts-off")[part])])


def _numbers(part: Any) -> Iterator[tuple[str, float]]:
    for rank, one in enumerate(part):
        if isinstance(one, dict):
            yield from ((f"expert {e} on rank {rank}", one[e]) for e in sorted(one))
        else:
            yield f"dense on rank {rank}", one


def _same(came: Any, truth: Any) -> bool:
    pairs = zip(_numbers(came), _numbers(truth), strict=True)
    return all(abs(mine - its) < 1e-9 * max(1, abs(its)) for (_, mine), (_, its) in pairs)


def _difference(came: Any, truth: Any) -> str:
    """The first number that is wrong."""
    for (name, mine), (_, its) in zip(_numbers(came), _numbers(truth), strict=True):
        if abs(mine - its) >= 1e-9 * max(1, abs(its)):
            one, other = tell_apart(mine, its, 4)
            return f"{name}: {one} and not {other}"
    raise ValueError("there is no difference")


def _in_words(parts: tuple[list[float], Experts]) -> str:
    dense, experts = parts
    shown = [{e: float(f"{value:.4g}") for e, value in own.items()} for own in experts]
    return describe(([float(f"{value:.4g}") for value in dense], shown), 200)


def _mean(numbers: Sequence[float], of: Sequence[int]) -> float:
    return sum(numbers[one] for one in of) / len(of)
