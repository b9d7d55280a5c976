"""Exercise 02, first part: which forwards run in each tick?

With micro-batches in order, the fewest ticks leave only one answer, up to the order within a tick. So the rules are
tried one by one, to name the broken one, and the number of ticks is compared last.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu import split_batch
from gpipe_edu.course.judging import Examiner
from gpipe_edu.course.task import Blame, Chart, Finding, Success, Task, Wrong
from gpipe_edu.data import digits
from gpipe_edu.process.plain import a_name_of

TASK: Final = Task(
    key="02-clock",
    function="clock",
    title="Forward through a pipeline, tick by tick",
    notebook="exercise_02_clock",
    hints=(
        "Draw K = 3 and M = 4 on paper: a row for each stage, a column for each tick. Micro-batch 0 is on stage 0 in "
        "tick 0, on stage 1 in tick 1, on stage 2 in tick 2. Where is micro-batch 1?",
        "A micro-batch moves one stage a tick, and each enters one tick after the one before. So the micro-batch m "
        "that stage k works on in tick t is known from t and k alone, as a difference.",
        "In tick t, stage k has micro-batch t - k, if there is one of that number: 0 <= t - k < M. The last cell, "
        "micro-batch M - 1 on stage K - 1, runs in tick M + K - 2, so there are M + K - 1 ticks.",
    ),
)

Cells = list[tuple[int, int]]


def perform(clock: Any, K: int, M: int) -> Any:
    """The ticks, as lists even where they are sets or generators."""
    found = clock(K, M)
    if isinstance(found, str | dict) or not hasattr(found, "__iter__"):
        return found
    return [_list(tick) for tick in found]


def _list(tick: Any) -> Any:
    if isinstance(tick, str | dict) or not hasattr(tick, "__iter__"):
        return tick
    return [pair.tolist() if isinstance(pair, np.ndarray) else pair for pair in tick]


def examine(examiner: Examiner, rng: Random) -> Success:
    """Small sizes with K unlike M, more of either, and random ones; then a forward of the digits in this order."""
    small = [(3, 4), (4, 2), (1, 3), (3, 1), (1, 1), (4, 4)]
    for K, M in small + [(rng.randint(1, 9), rng.randint(1, 12)) for _ in range(15)]:
        _judge(examiner, K, M)
    ticks = _judge(examiner, 4, 6)
    _forward(ticks, 4, 6, rng)
    words = (
        "Then 40 handwritten digits, in 6 micro-batches, went through 4 stages of a network in your order and came "
        "out as they do from the whole network. 24 forwards took 9 ticks."
    )
    return Success(words, (Chart("your clock", "", ticks=ticks),))


def truth(K: int, M: int) -> list[Cells]:
    """Cell (m, k) runs in tick m + k."""
    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]


def _judge(examiner: Examiner, K: int, M: int) -> list[Cells]:
    call = f"clock(K={K}, M={M})"
    value = examiner.ask(call, K=K, M=M)
    right = truth(K, M)
    ticks = _ticks(value, call)

    def wrong(slip: str, because: str, difference: str = "") -> Wrong:
        shown = Chart("yours", "", ticks=_drawable(ticks)), Chart("expected", "", ticks=right)
        return Wrong(
            Finding(slip, because, call, _grid(right), _grid(ticks), difference or _first(ticks, right), shown)
        )

    cells = [cell for tick in ticks for cell in tick]
    alien = [(m, k) for m, k in cells if not (0 <= m < M and 0 <= k < K)]
    if alien:
        raise _alien(cells, alien[0], K, M, wrong)
    twice = next((cell for cell in cells if cells.count(cell) > 1), None)
    if twice:
        raise wrong("twice", "Every micro-batch passes every stage exactly once.", f"{_say(twice)} is there twice")
    done: set[tuple[int, int]] = set()
    for t, tick in enumerate(ticks):
        for m, k in tick:
            if k > 0 and (m, k - 1) not in done:
                raise _early(ticks, t, (m, k), K, M, wrong)
        stages = [k for _, k in tick]
        crowded = next((k for k in stages if stages.count(k) > 1), None)
        if crowded is not None:
            because = "A stage works on one micro-batch at a time: it is one device."
            raise wrong("crowded", because, f"tick {t}: stage {crowded} has {stages.count(crowded)} micro-batches")
        done.update(tick)
    missing = next(((m, k) for m in range(M) for k in range(K) if (m, k) not in done), None)
    if missing:
        idle = [k for k in range(K) if not any(k == stage for _, stage in done)]
        if done and idle:
            because = (
                f"Only {K - len(idle)} of {K} stages work at all. However few micro-batches there are, "
                "each passes every stage: over what does your loop for the stages run?"
            )
            raise wrong("idle-stages", because, f"{_say(missing)} is not there")
        because = "Not every micro-batch passes every stage. How many ticks are there, counted from 0?"
        raise wrong("missing", because, f"{_say(missing)} is not there")
    if [m for m, k in cells if k == 0] != list(range(M)):
        raise wrong("order", "Micro-batches enter in order: 0 first, so that their outputs join in order again.")
    if len(ticks) > len(right):
        if not all(ticks):
            raise wrong("empty-tick", "There is a tick in which nothing runs.", f"{len(ticks)} ticks, one is empty")
        if max(map(len, ticks)) == 1:
            because = "One forward a tick: a loop, no pipeline. Different stages can work in the same tick."
            raise wrong("one-at-a-time", because, f"{len(ticks)} ticks instead of {len(right)}")
        raise wrong("too-slow", "It runs, and takes longer than it must: some stage could start sooner.")
    return ticks


def _ticks(value: Any, call: str) -> list[Cells]:
    expected = "a list of ticks, each a list of pairs (m, k)"
    if not isinstance(value, list | tuple):
        because = f"The answer is a list of ticks; this is {a_name_of(value)}."
        raise Wrong(Finding("not-ticks", because, call, expected, a_name_of(value)))
    if value and all(_is_pair(item) and not _is_pair(item[0]) for item in value):
        because = "The pairs are not grouped: a list for each tick tells what runs at the same time."
        raise Wrong(Finding("flat", because, call, expected, "a list of pairs"))
    ticks = []
    for t, tick in enumerate(value):
        for pair in tick if isinstance(tick, list | tuple) else [tick]:
            if not _is_pair(pair):
                because = "Each tick is a list of pairs (m, k): a micro-batch and the stage that works on it."
                raise Wrong(Finding("not-pairs", because, call, expected, f"tick {t} has {pair!r}"))
        ticks.append([(int(m), int(k)) for m, k in tick])
    return ticks


def _is_pair(item: Any) -> bool:
    whole = int | np.integer
    return isinstance(item, tuple | list) and len(item) == 2 and all(isinstance(number, whole) for number in item)


def _alien(cells: Cells, cell: tuple[int, int], K: int, M: int, wrong: Blame) -> Wrong:
    if sorted((b, a) for a, b in cells) == sorted((m, k) for m in range(M) for k in range(K)):
        because = "The pairs are the wrong way round: (m, k) is the micro-batch first, then the stage."
        return wrong("swapped", because, f"{cell} is {_say(cell)}")
    if min(m for m, _ in cells) == 1 and max(m for m, _ in cells) == M:
        return wrong("from-one", "Micro-batches and stages count from 0.", f"{_say(cell)} does not exist")
    because = "Filling and draining: at the ends some stages have nothing to do, and then they are not in the tick."
    return wrong("no-bounds", because, f"{_say(cell)} does not exist: m < {M}, k < {K}")


def _early(ticks: list[Cells], t: int, cell: tuple[int, int], K: int, M: int, wrong: Blame) -> Wrong:
    m, k = cell
    difference = f"tick {t}: {_say(cell)}, which stage {k - 1} has not finished before"
    if (m, k - 1) in ticks[t]:
        because = (
            "A stage takes what the stage in front has *finished*: within one tick a micro-batch is on one stage only."
        )
        return wrong("same-tick", because, difference)
    if t == 0 and k == K - 1:
        return wrong(
            "from-the-back", "Forward starts on stage 0. It is backward that starts on the last one.", difference
        )
    return wrong(
        "too-early", "A stage can't start a micro-batch before the stage in front has finished it.", difference
    )


def _forward(ticks: list[Cells], K: int, M: int, rng: Random) -> None:
    """Send digits through K stages in this order; raise Wrong if they come out differently."""
    x = np.asarray(digits().x_train[:40], dtype=float)
    layers = ref.mlp([64, 32, 32, 32, 10], seed=rng.randrange(1000))
    stages = [layers[0:2], layers[2:4], layers[4:6], layers[6:]]
    held: dict[tuple[int, int], Any] = {(m, -1): piece for m, piece in enumerate(split_batch(x, M))}
    for tick in ticks:
        for m, k in tick:
            held[m, k] = ref.predict(stages[k], held.pop((m, k - 1)))
    out = np.concatenate([held[m, K - 1] for m in range(M)])
    if not np.allclose(out, ref.predict(layers, x), rtol=1e-12, atol=1e-12):
        raise Wrong(Finding("other-output", "The digits come out differently from the whole network's."))


def _drawable(ticks: list[Cells]) -> list[Cells]:
    return [[(m, k) for m, k in tick if m >= 0 and k >= 0] for tick in ticks]


def _grid(ticks: list[Cells]) -> str:
    """A line per stage, a column per tick: the micro-batches, a dot for none."""
    ticks = ticks[:24]
    stages = sorted({k for tick in ticks for _, k in tick})
    lanes = []
    for k in stages[:8]:
        columns = ["+".join(str(m) for m, other in tick if other == k) or "." for tick in ticks]
        lanes.append((f"stage {k}", columns))
    wide = max((len(column) for _, columns in lanes for column in columns), default=1)
    return "\n".join(f"{name}  {' '.join(f'{c:>{wide}}' for c in columns)}" for name, columns in lanes) or "nothing"


def _first(ticks: list[Cells], right: list[Cells]) -> str:
    for t in range(max(len(ticks), len(right))):
        ours, theirs = (sorted(found[t]) if t < len(found) else [] for found in (ticks, right))
        if ours != theirs:
            return f"tick {t}: {ours or 'nothing'} instead of {theirs or 'nothing'}"
    return ""


def _say(cell: tuple[int, int]) -> str:
    return f"micro-batch {cell[0]} on stage {cell[1]}"
