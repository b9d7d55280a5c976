"""Which forwards run in each tick?

With micro-batches in order, the fewest ticks leave only one answer, up to the order within a tick. So the rules are
tried one by one, to name the broken one, and the number of ticks is compared last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu import split_batch
from gpipe_edu.data import digits
from gpipe_edu.judge.case import Exam, Sign
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.guest.forms import describe, is_whole
from gpipe_edu.process.plain import a_name_of

Cell: TypeAlias = tuple[int, int]
"""A micro-batch and the stage that works on it."""


@dataclass(frozen=True)
class LearnersClock:
    """A learner's ticks for K stages and M micro-batches."""

    ticks: list[list[Cell]]
    K: int
    M: int

    @property
    def cells(self) -> list[Cell]:
        """All forwards, as they come."""
        return [cell for tick in self.ticks for cell in tick]

    @property
    def board(self) -> list[Cell]:
        """All forwards that there should be."""
        return [(m, k) for m in range(self.M) for k in range(self.K)]


def examine(exam: Exam, rng: Random) -> Success:
    """Small sizes with K unlike M, more of either, and random ones; then a forward of the digits in this order."""
    small = [(3, 4), (4, 2), (1, 3), (3, 1), (1, 1), (4, 4)]
    for K, M in small + [(rng.randint(1, 9), rng.randint(1, 12)) for _ in range(15)]:
        judge(exam, K, M)
    with exam.blame_on("only-small"):
        judge(exam, 24, 70)
    ticks = judge(exam, 4, 6)
    _forward(ticks, 4, 6, rng)
    return exam.success(Chart("your clock", "", ticks=ticks))


def truth(K: int, M: int) -> list[list[Cell]]:
    """Cell (m, k) runs in tick m + k."""
    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]


def judge(exam: Exam, K: int, M: int) -> list[list[Cell]]:
    """Judge one size; returns the ticks."""
    case = exam.case(f"clock(K={K}, M={M})", "a list of ticks, each a list of pairs (m, k)")
    value, right = case.ask(K=K, M=M), truth(K, M)
    case.judge(_form(value))
    ticks = [[(int(m), int(k)) for m, k in tick] for tick in value]
    case.expected, case.came, case.difference = _grid(right), _grid(ticks), _first(ticks, right)
    charts = [Chart("expected", "", ticks=right)]
    if all(ticks) and all(_can_be_drawn(tick) for tick in ticks):
        charts.insert(0, Chart("yours", "", ticks=ticks))
    case.charts = tuple(charts)
    case.judge(_signs(LearnersClock(ticks, K, M)))
    return ticks


def _form(value: Any) -> Iterator[Sign]:
    kind = a_name_of(value)
    yield Sign("not-ticks", not isinstance(value, list), came=kind, words={"kind": kind})
    flat = bool(value) and all(_is_pair(item) and not _is_pair(item[0]) for item in value)
    yield Sign("flat", flat, came="a list of pairs")
    for t, tick in enumerate(value):
        for pair in tick if isinstance(tick, list) else [tick]:
            came = f"tick {t} has {describe(pair)}"
            two = isinstance(pair, list | tuple) and len(pair) == 2
            yield Sign("not-whole", two and not _is_pair(pair), came=came)
            yield Sign("not-pairs", not two, came=came)


def _can_be_drawn(tick: list[Cell]) -> bool:
    """Whether every cell of the tick has a place of its own on the chart."""
    return min(min(cell) for cell in tick) >= 0 and len({k for _, k in tick}) == len(tick)


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple | list) and len(item) == 2 and all(map(is_whole, item))


def _signs(mine: LearnersClock) -> Iterator[Sign]:
    first = mine.ticks[0] if mine.ticks else []
    alike = len(mine.ticks) > 1 and len({k for _, k in first}) < len(first) and all(t == first for t in mine.ticks)
    yield Sign("one-list", alike, words={"lists": f"{len(mine.ticks)} ticks"})
    yield from _about_numbers(mine)
    cells, K, M = mine.cells, mine.K, mine.M
    for cell in cells:
        yield Sign("twice", cells.count(cell) > 1, difference=f"{_say(cell)} is there twice")
    yield from _about_order(mine)
    there = set(cells)
    missing = next((cell for cell in mine.board if cell not in there), None)
    if missing:
        busy, lacking = {k for _, k in cells}, f"{_say(missing)} is not there"
        words = {"busy": len(busy), "K": K}
        yield Sign("idle-stages", 0 < len(busy) < K, difference=lacking, words=words)
        yield Sign("missing", difference=lacking)
    yield Sign("order", [m for m, k in cells if k == 0] != list(range(M)))
    count, best = len(mine.ticks), M + K - 1
    yield Sign("empty-tick", not all(mine.ticks), difference=f"{count} ticks, one is empty")
    alone = count > best and max(map(len, mine.ticks)) == 1
    yield Sign("one-at-a-time", alone, difference=f"{count} ticks instead of {best}")
    yield Sign("too-slow", count > best)


def _about_numbers(mine: LearnersClock) -> Iterator[Sign]:
    """Micro-batches and stages that do not exist."""
    cells, K, M = mine.cells, mine.K, mine.M
    for cell in [(m, k) for m, k in cells if not (0 <= m < M and 0 <= k < K)]:
        lacking = f"{_say(cell)} does not exist"
        turned = sorted((k, m) for m, k in cells) == sorted(mine.board)
        yield Sign("swapped", turned, difference=f"{cell} is {_say(cell)}")
        counted = zip(("Micro-batches", "Stages"), zip(*cells, strict=True), (M, K), strict=True)
        from_one = [name for name, numbers, count in counted if (min(numbers), max(numbers)) == (1, count)]
        yield Sign("from-one", bool(from_one), difference=lacking, words={"what": " and ".join(from_one).capitalize()})
        yield Sign("no-bounds", difference=f"{lacking}: m < {M}, k < {K}")


def _about_order(mine: LearnersClock) -> Iterator[Sign]:
    """A forward before the one that it needs, or two at once on a stage."""
    done: set[Cell] = set()
    for t, tick in enumerate(mine.ticks):
        for m, k in tick:
            early = k > 0 and (m, k - 1) not in done
            difference = f"tick {t}: {_say((m, k))}, which stage {k - 1} has not finished before"
            yield Sign("same-tick", early and (m, k - 1) in tick, difference=difference)
            yield Sign("from-the-back", early and t == 0 and k == mine.K - 1, difference=difference)
            yield Sign("too-early", early, difference=difference)
        stages = [k for _, k in tick]
        for k in stages:
            difference = f"tick {t}: stage {k} has {stages.count(k)} micro-batches"
            yield Sign("crowded", stages.count(k) > 1, difference=difference)
        done.update(tick)


def _forward(ticks: list[list[Cell]], K: int, M: int, rng: Random) -> None:
    """Send digits through K stages in this order. An order that has passed every rule gives the network's outputs."""
    x = np.asarray(digits().x_train[:40], dtype=float)
    layers = ref.mlp([64, 32, 32, 32, 10], seed=rng.randrange(1000))
    stages = [layers[0:2], layers[2:4], layers[4:6], layers[6:]]
    held: dict[Cell, Any] = {(m, -1): piece for m, piece in enumerate(split_batch(x, M))}
    for tick in ticks:
        for m, k in tick:
            held[m, k] = ref.predict(stages[k], held.pop((m, k - 1)))
    out = np.concatenate([held[m, K - 1] for m in range(M)])
    if not np.allclose(out, ref.predict(layers, x), rtol=1e-12, atol=1e-12):
        raise RuntimeError("the digits come out differently, although the order keeps every rule")


def _grid(ticks: list[list[Cell]]) -> str:
    """A line per stage, a column per tick: the micro-batches, a dot for none."""
    ticks = ticks[:24]
    stages = sorted({k for tick in ticks for _, k in tick})
    lanes = []
    for k in stages[:8]:
        columns = ["+".join(str(m) for m, other in tick if other == k) or "." for tick in ticks]
        lanes.append((f"stage {k}", columns))
    wide = max((len(column) for _, columns in lanes for column in columns), default=1)
    return "\n".join(f"{name}  {' '.join(f'{c:>{wide}}' for c in columns)}" for name, columns in lanes) or "nothing"


def _first(ticks: list[list[Cell]], right: list[list[Cell]]) -> str:
    for t in range(max(len(ticks), len(right))):
        ours, theirs = (sorted(found[t]) if t < len(found) else [] for found in (ticks, right))
        if ours != theirs:
            return f"tick {t}: {ours or 'nothing'} instead of {theirs or 'nothing'}"
    return ""


def _say(cell: Cell) -> str:
    return f"micro-batch {cell[0]} on stage {cell[1]}"
