"""Does this order of packs fit into memory, and is its step nearly as short as that of the best order known?

The best orders were found by trying all, or by many searches (tests/judge/test_order_par.py repeats them); those of
random packs are found here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any, Final, NamedTuple

from gpipe_edu import Costs, one_f_one_b, simulate
from gpipe_edu.base.words import percent
from gpipe_edu.judge.case import Case, Exam, Sign, Signs
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.guest.forms import describe, is_whole
from gpipe_edu.process.plain import a_name_of
from gpipe_edu.timeline.micro_batch_order import order_micro_batches

K: Final = 4

MOST: Final = 1.05
"""How many times the best step an answer may take. A pyramid takes up to 1.041 times in what is asked here."""


class Packs(NamedTuple):
    """What is asked for. least: the step of the best order known."""

    costs: list[float]
    memory: float
    least: float


class Ordered(NamedTuple):
    """What came, in the case that asked for it: the packs, and the order."""

    case: Case
    packs: Packs
    order: list[int]

    @property
    def row(self) -> list[float]:
        """The costs in this order."""
        return [self.packs.costs[m] for m in self.order]

    @property
    def step(self) -> float:
        """How long the planned step is."""
        return step(self.row)

    @property
    def is_slow(self) -> bool:
        """Whether it takes too long."""
        return self.step > MOST * self.packs.least


FREE: Final = (
    ([5], 60),
    ([2, 7], 86),
    ([1, 2, 2, 3, 5, 8], 113),
    ([1, 2, 3, 4, 5, 6, 7, 8], 145),
    ([1, 1, 1, 2, 2, 2, 2, 3, 8, 8], 145),
    ([2, 2, 3, 4, 4, 6, 7, 9, 9], 185),
    ([1, 1, 2, 2, 3, 3, 5, 5, 8, 8, 9], 183),
    ([2, 3, 8, 9], 131),
)
"""Costs, and the best step, where memory is ample."""

TIGHT: Final = (
    ([2, 2, 2, 3, 3, 4, 9, 9, 9], 26, 229),
    ([1, 1, 1, 1, 1, 3, 3, 8, 8, 8], 22, 199),
    ([1, 1, 1, 1, 1, 2, 2, 3, 3, 8, 8, 8], 22, 208),
    ([1, 1, 1, 1, 1, 2, 2, 3, 8, 8, 8, 8], 27, 208),
    ([1, 1, 2, 8, 8], 12, 192),
)
"""Costs, memory, and the best step in it. Not all of the longest packs may be in flight at once; in the last case they
have to be at both ends, which would not fit either if the row were a ring."""

UNITS: Final = (0.5, 1, 3)

TINY: Final = 2.0**-12
"""A unit in which all packs together cost less than an answer may allow for rounding."""


def step(row: Sequence[float]) -> float:
    """The planned step, with packs of these costs in this order."""
    return simulate(one_f_one_b(K, len(row)), Costs(micro_batches=row)).makespan


def held(row: Sequence[float], in_flight: int = K) -> float:
    """The most that so many packs in a row hold; with K, what stage 0 holds under 1F1B."""
    return max(sum(row[at : at + in_flight]) for at in range(len(row)))


def examine(exam: Exam, rng: Random) -> Success:
    """Packs with ample memory and with little, in random order and units; then random ones."""
    free = [_ask(exam, _shuffled(rng, rng.choice(UNITS), costs, sum(costs), least)) for costs, least in FREE]
    _judge(free, _beliefs(free))
    units = (TINY if packs is TIGHT[0] else rng.choice(UNITS) for packs in TIGHT)
    tight = [_ask(exam, _shuffled(rng, unit, *packs)) for unit, packs in zip(units, TIGHT, strict=True)]
    _judge_memory(tight)
    _judge(tight, iter([Sign("fits-only")]))
    drawn = [_ask(exam, _draw(rng)) for _ in range(4)]
    _judge(drawn, _beliefs(drawn))
    asked = [*free, *tight, *drawn]
    over = [one.step / one.packs.least - 1 for one in asked]
    given = [step(one.packs.costs) / one.packs.least - 1 for one in free]
    beaten = sum(one.step < step(_pyramid(one.packs.costs)) * (1 - 1e-9) for one in [*free, *drawn])
    return exam.success(
        count=len(asked),
        mean=percent(max(0.0, sum(over) / len(over))),
        worst=percent(max(0.0, *over)),
        given=percent(sum(given) / len(given)),
        beaten=beaten,
        free=len(free) + len(drawn),
    )


def _shuffled(rng: Random, unit: float, costs: Sequence[float], memory: float, least: float) -> Packs:
    """The same packs in another order and unit, which leaves the best order what it is."""
    row = [cost * unit for cost in costs]
    few = 4 if memory >= sum(costs) else 6
    while True:
        rng.shuffle(row)
        # As given, packs must not be in an order that is good by chance; of so few, all may be.
        if len(row) < few or (step(row) > 1.1 * least * unit and not (_rises(row) or _falls(row))):
            return Packs(row, memory * unit, least * unit)


def _draw(rng: Random) -> Packs:
    """Packs that memory is ample for. Any pyramid of them is short enough, and none that is only sorted is."""
    while True:
        row = [rng.randint(1, 9) + rng.choice([0.0, 0.5]) for _ in range(rng.randint(9, 11))]
        least = order_micro_batches(one_f_one_b(K, len(row)), Costs(micro_batches=row)).makespan
        up, pyramids = sorted(row), [_pyramid(row), _pyramid(row)[::-1], _mirrored(row), _mirrored(row)[::-1]]
        sorted_ones = min(step(up), step(up[::-1]), step(row))
        if max(map(step, pyramids)) < (MOST - 0.005) * least and sorted_ones > (MOST + 0.005) * least:
            return Packs(row, sum(row), least)


def _pyramid(row: Sequence[float]) -> list[float]:
    """The longest in the middle."""
    up = sorted(row)
    return up[::2] + up[1::2][::-1]


def _mirrored(row: Sequence[float]) -> list[float]:
    """The other one, whose second shortest comes first."""
    up = sorted(row)
    return up[1::2] + up[::2][::-1]


def _ask(exam: Exam, packs: Packs) -> Ordered:
    """Ask, and judge all but time and memory."""
    costs, memory, least = packs
    ample = " (ample)" if memory >= sum(costs) else ""
    case = exam.case(
        f"order({_written(costs)}, memory={memory:g}){ample}",
        f"numbers 0 to {len(costs) - 1}, each once, with a step of at most {MOST * least:g}",
    )
    slow = {"stopped": "every-order"} if len(costs) > 8 else {}
    found, after = case.ask(slow, costs=costs, memory=memory)
    case.came = describe(found, 120)
    case.judge(_form(found, costs))
    case.judge([Sign("input-changed", after != costs)])
    ordered = Ordered(case, packs, [int(m) for m in found])
    case.came = f"{ordered.order}: costs {_written(ordered.row)}"
    case.difference = (
        f"the step takes {ordered.step:g}, that of the best order known {least:g}; "
        f"four packs in a row cost up to {held(ordered.row):g}, memory is {memory:g}"
    )
    if len(costs) > 1:
        case.charts = (Chart("your order", str(one_f_one_b(K, len(costs))), sizes=ordered.row),)
    return ordered


def _form(found: Any, costs: Sequence[float]) -> Signs:
    """Is each pack there, once?"""
    M = len(costs)
    yield Sign("no-return", found is None, came="None")
    yield Sign("not-a-list", not isinstance(found, (list, tuple)), words={"kind": a_name_of(found)})
    yield Sign("not-numbers", not all(is_whole(m) or isinstance(m, float) for m in found))
    numbers = sorted(found)
    yield Sign("costs-for-numbers", numbers == sorted(costs) != list(range(M)))
    yield Sign("not-numbers", not all(map(is_whole, found)))
    yield Sign("from-one", numbers == list(range(1, M + 1)), words={"last": M - 1})
    for m in found:
        yield Sign("no-such-pack", not 0 <= m < M, difference=f"{m} is none of 0 to {M - 1}", words={"last": M - 1})
        yield Sign("twice", found.count(m) > 1, difference=f"pack {m} comes {found.count(m)} times")
    missing = [m for m in range(M) if m not in found]
    yield Sign("missing", bool(missing), difference=f"without {missing}")


def _judge(asked: Sequence[Ordered], beliefs: Signs) -> None:
    """Name the belief that explains all answers, at the first that is too slow; few packs tell of none."""
    for one in asked:
        if one.is_slow:
            one.case.judge(beliefs if len(one.row) >= 6 else ())
            one.case.judge([Sign("not-best")])


def _beliefs(asked: Sequence[Ordered]) -> Signs:
    large = [one for one in asked if len(one.row) >= 6]

    def always(holds: Callable[[Sequence[float]], bool]) -> bool:
        return all(holds(one.row) for one in large)

    yield Sign("as-given", all(one.order == sorted(one.order) for one in large))
    yield Sign("shortest-first", always(_rises))
    yield Sign("longest-first", always(_falls))
    yield Sign("places", all(not Ordered(one.case, one.packs, _places(one.order)).is_slow for one in asked))
    yield Sign("longest-at-the-ends", always(lambda row: _peaks([-cost for cost in row])))
    yield Sign("alternates", always(_zigzags))
    yield Sign("one-sided", always(_peaks))
    yield Sign("ends", always(lambda row: max(row) in row[len(row) // 2 - 1 : len(row) // 2 + 2]))


def _places(order: Sequence[int]) -> list[int]:
    """For each place the pack, if what came is for each pack its place."""
    return sorted(range(len(order)), key=order.__getitem__)


def _rises(row: Sequence[float]) -> bool:
    return all(a <= b for a, b in pairwise(row))


def _falls(row: Sequence[float]) -> bool:
    return _rises(row[::-1])


def _peaks(row: Sequence[float]) -> bool:
    """Whether it rises, then falls."""
    top = row.index(max(row))
    return _rises(row[: top + 1]) and _falls(row[top:])


def _zigzags(row: Sequence[float]) -> bool:
    """Whether a longer pack is always followed by a shorter one and the other way round, but where two are alike."""
    ups = [b > a for a, b in pairwise(row) if a != b]
    return len(ups) >= len(row) // 2 and all(a != b for a, b in pairwise(ups))


def _judge_memory(asked: Sequence[Ordered]) -> None:
    """Name the reason why some do not fit."""
    over = [one for one in asked if held(one.row) > one.packs.memory * (1 + 1e-9)]
    for one in over:
        row, memory = one.row, one.packs.memory
        at = max(range(len(row)), key=lambda place: sum(row[place : place + K]))
        words = {"packs": one.order[at : at + K], "costs": f"{held(row):g}", "memory": f"{memory:g}"}
        one.case.judge([Sign("memory-ignored", all(_peaks(other.row) for other in asked), words=words)])
        counted = all(held(other.row, K - 1) <= other.packs.memory * (1 + 1e-9) for other in asked)
        one.case.judge([Sign("fewer-in-flight", counted and len(over) > 1, words=words | {"fewer": K - 1})])
        one.case.judge([Sign("too-full", words=words)])


def _written(costs: Sequence[float]) -> str:
    return "[" + ", ".join(f"{cost:g}" for cost in costs) + "]"
