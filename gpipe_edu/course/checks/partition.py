"""Exercise 06: is this cut of layers into stages the one whose slowest stage is fastest?

Any of the best cuts is right. That no cut is better is shown for each answer by filling stages, which takes the fewest
there can be; so neither a table nor our own solution decides.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import balance_by_cost, balance_uniform, gpipe
from gpipe_edu import reference as ref
from gpipe_edu.course.judging import Examiner, Traps
from gpipe_edu.course.task import Chart, Finding, Success, Task, Wrong
from gpipe_edu.data import digits
from gpipe_edu.process.plain import a_name_of

from .beliefs import told_as
from .counts import judge_counts
from .cuts import Answer, Costs, Counts, belief_behind, can_be_faster, stage_costs

TASK: Final = Task(
    key="06-partition",
    function="partition",
    title="Cut layers into stages by cost",
    notebook="exercise_06_partition",
    hints=(
        "Turn the question round. Suppose no stage may cost more than some limit. Filling one stage after another as "
        "far as the limit allows, how many stages do you need? Or: if you knew the best cuts of all shorter lists "
        "into K - 1 stages, how would you find the last cut?",
        "With a limit: find the smallest one for which K stages are enough. The answer is the cost of some run of "
        "neighbours, so there are few candidates. With shorter lists: best(start, K) is the smallest, over all ends of "
        "the first stage, of max(cost of the first stage, best(end, K - 1)).",
        "For the second way, write a helper best(start, stages) with `functools.cache`, so that nothing is computed "
        "twice, and sums from `itertools.accumulate`. Leave at least one layer for each later stage: the first stage "
        "ends at len(costs) - (stages - 1) at the latest. Then walk through the ends that were best.",
    ),
)

HIDDEN: Final = {"gpipe_edu.balance_by_cost": TASK.function}

_PROBES: Final[tuple[tuple[list[float], int], ...]] = (
    ([5, 1, 1, 1, 1, 1, 1, 5], 3),
    ([1, 1, 3, 5, 1], 3),
    ([4, 0, 0, 6, 2, 0, 7, 3], 4),
    ([1, 1, 1, 9, 1, 1, 1], 3),
    ([2, 7, 1, 8, 2, 8, 1, 8], 4),
    ([9, 1, 8, 2, 7, 3], 3),
    ([5, 9, 3, 4, 7, 3, 3], 4),
    ([1, 9, 2, 0, 7, 2, 2, 3], 4),
    ([3, 5], 2),
    ([6, 2, 4], 1),
    ([0, 0, 5], 3),
)
"""Small enough to see on paper what would be better. Zeros are what activations cost."""

_CLOSE: Final[tuple[tuple[list[float], int], ...]] = (
    ([4444, 4444, 10000, 8887, 10000], 3),
    ([10000, 9331, 10000, 4666, 4666], 3),
    ([4444, 4444, 41112, 8887, 41113], 3),
    ([4444444, 4444444, 10000000, 8888887, 10000000], 3),
    ([10000000, 8888887, 10000000, 4444444, 4444444], 3),
    ([10000000, 9333331, 10000000, 4666666, 4666666], 3),
)
"""The second best cut is worse by 1. Fewer digits turn that round: 8887 is less than 4444 + 4444, 8.9 is more than
4.4 + 4.4; and 9331 is less than 4666 + 4666, 9.3 is more than 4.6 + 4.6."""

_NEARLY: Final = (
    "This is nearly the best cut, but another is better. Rounded costs cannot tell two cuts that differ by little, nor "
    "can a search for the limit that stops too soon. Compare what the stages cost, exactly."
)

_UNITS: Final = (
    (
        0.001,
        "0.001",
        "whole-numbers",
        "The same layers in thousandths get a worse cut. Costs come in any unit, seconds too: rounding them, or trying "
        "limits in steps of 1, ties the answer to one.",
    ),
    (
        2.0**-40,
        "2**-40",
        "fixed-unit",
        "The same layers with tiny numbers get a worse cut. Making them whole by a factor such as 1000, or ending a "
        "search at a fixed distance, suits some units only: let it depend on the costs.",
    ),
    (
        2.0**40,
        "2**40",
        "not-infinite",
        "The same layers with huge numbers are too much. A number such as 10**9 is no infinity, since a stage may cost "
        "more: begin with `math.inf`, or with the sum of all costs.",
    ),
)
"""factor, how it is told, slip, because. The powers of two change no digit of a sum."""

_MANY: Final = (
    "All was right with few stages, and with 40 it is not. What is said of 16 stages tells how fast it has to be, and "
    "is no bound: a table takes its size from K."
)


def perform(partition: Any, costs: list[float], K: int) -> Any:
    """The counts, as a list even where they come one by one or in an array; and the costs as they are afterwards."""
    found = partition(costs, K)
    if hasattr(found, "tolist"):
        found = found.tolist()
    elif not isinstance(found, str | dict | set | list) and hasattr(found, "__iter__"):
        found = list(found)
    return found, costs


def examine(examiner: Examiner, rng: Random) -> Success:
    """Small lists that tell the beliefs apart, other units, large and random ones, refusals, and a real network."""
    drawn = [([rng.randint(0, 9) + 0.0 for _ in range(rng.randint(5, 8))], rng.randint(2, 4)) for _ in range(6)]
    _judge_best(examiner, [*_PROBES, *drawn])
    for unit in _UNITS:
        _judge_unit(examiner, *unit)
    with told_as("nearly-best", _NEARLY):
        for costs, K in _CLOSE:
            _one(examiner, costs, K)
    few = "Layers that cost nothing are layers, too: each still belongs to some stage, and each stage has one."
    with told_as("all-zero", few):
        _judge(examiner, [0, 0, 0, 0], 2)
    for _ in range(12):
        L = rng.randint(1, 12)
        _one(examiner, [rng.choice([0.0, rng.random()]) for _ in range(L)], rng.randint(1, L))
    for K, L, slip, because in (
        (4, 3, "more-stages-than-layers", "There are more stages than layers, and a stage without layers is none."),
        (0, 3, "no-stages", "No stage at all, and layers to place: say so with ValueError."),
        (-1, 3, "no-stages", "A negative number of stages is a slip of the caller: say so with ValueError."),
    ):
        costs = [float(rng.randint(1, 9)) for _ in range(L)]
        call = f"partition({_told(costs)}, K={K})"
        examiner.refuses(call, slip, because, lambda value: _shown(value[0]), costs=costs, K=K)
    for L, K in ((60, 6), (200, 16)):
        _one(examiner, [rng.randint(1, 1000) / 8 for _ in range(L)], K)
    with told_as("many-stages", _MANY):
        _one(examiner, [rng.randint(1, 1000) / 8 for _ in range(100)], 40)
    return _train(examiner, rng)


def _judge(examiner: Examiner, costs: Costs, K: int, call: str = "", traps: Traps | None = None) -> Answer:
    """Ask, and judge all but whether the cut is a good one."""
    L, call = len(costs), call or f"partition({_told(costs)}, K={K})"
    expected = f"a list of {K} whole numbers that add up to {L}"
    because = (
        "It is still busy: trying all cuts takes for ever, since 60 layers have millions of them, 200 far more. Find "
        "out what is computed again and again, and keep it."
    )
    slow = {"stopped": ("every-cut", because)} if L > 20 else {}
    value, after = examiner.ask(call, {**slow, **(traps or {})}, costs=costs, K=K)

    def wrong(slip: str, because: str, difference: str = "") -> Wrong:
        return Wrong(Finding(slip, because, call, expected, _shown(value), difference))

    if value is None:
        raise wrong("no-return", "The function gave back `None`: does every way through it reach a `return`?")
    if not isinstance(value, list):
        raise wrong(
            "not-a-list", f"The answer is a list of layer counts, one for each stage; this is {a_name_of(value)}."
        )
    judge_counts(value, costs, K, wrong)
    if list(costs) != after:
        raise wrong("input-changed", "The list `costs` itself was changed. The caller still needs it: work on a copy.")
    return Answer(costs, K, tuple(int(count) for count in value))


def _judge_best(examiner: Examiner, cases: list[tuple[list[float], int]]) -> None:
    """Ask all, then name the belief that explains all answers, at the first that is not best."""
    answers: list[Answer] = []
    try:
        for costs, K in cases:
            answers.append(_judge(examiner, costs, K))
    except Wrong:
        if not any(map(_too_slow, answers)):
            raise
    first = next(filter(_too_slow, answers), None)
    if first is not None:
        belief = belief_behind(answers)
        if belief:
            raise _blame(first, belief.slip, belief.because)
        raise _blame(first, "not-best", "There is a cut whose largest stage is smaller.")


def _judge_unit(examiner: Examiner, factor: float, told: str, slip: str, because: str) -> None:
    """Layers that were cut well before, and now cost `factor` times as much each."""
    for costs, K in _PROBES[:5]:
        call = f"partition([cost * {told} for cost in {_told(costs)}], K={K})"
        with told_as(slip, because):
            found = _judge(examiner, [cost * factor for cost in costs], K, call, {"stopped": (slip, because)})
            answer = Answer(costs, K, found.counts)
            if _too_slow(answer):
                raise _blame(answer, slip, because, call)


def _one(examiner: Examiner, costs: list[float], K: int) -> Counts:
    answer = _judge(examiner, costs, K)
    if _too_slow(answer):
        raise _blame(answer, "not-best", "There is a cut whose largest stage is smaller.")
    return answer.counts


def _too_slow(answer: Answer) -> bool:
    return can_be_faster(answer.costs, answer.K, max(stage_costs(answer.costs, answer.counts)))


def _blame(answer: Answer, slip: str, because: str, call: str = "") -> Wrong:
    costs, K, counts = answer
    best = balance_by_cost(costs, K)
    ours, theirs = stage_costs(costs, counts), stage_costs(costs, best)
    call = call or f"partition({_told(costs)}, K={K})"
    difference = f"stage {ours.index(max(ours))} costs {max(ours):.10g}; no stage needs more than {max(theirs):.10g}"
    seen = max(ours) > 1.01 * max(theirs)
    charts = (_chart("your cut", ours), _chart("a best cut", theirs)) if seen else ()
    expected = f"{list(best)}, for instance: stage costs {_told(theirs)}"
    return Wrong(
        Finding(slip, because, call, expected, f"{list(counts)}: stage costs {_told(ours)}", difference, charts)
    )


def _chart(name: str, times: list[float], M: int = 4) -> Chart:
    return Chart(name, str(gpipe(len(times), M)), F=times, B=[2 * time for time in times])


def _train(examiner: Examiner, rng: Random) -> Success:
    """Cut a network of uneven layers by its multiply-adds, and train the digits with this cut."""
    widths = [64, *sorted((rng.randint(24, 80) for _ in range(9)), reverse=True), 10]
    layers = ref.mlp(widths, seed=rng.randrange(1000))
    costs = [float(layer.params["weight"].size) if layer.params else 0.0 for layer in layers]
    counts = _one(examiner, costs, 4)
    x, y, _, _ = digits()
    x, y = np.asarray(x[:48], dtype=float), y[:48]
    _, exact = ref.train_sequential(layers, x, y)
    found = ref.train_pipeline(layers, x, y, gpipe(4, 8), balance=counts).grads
    pairs = [(a[name], b[name]) for a, b in zip(found, exact, strict=True) for name in a]
    error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)
    if error > 1e-10:
        raise Wrong(Finding("other-gradient", "Cut like this, the digits give another gradient than on one device."))
    even = balance_uniform(len(layers), 4)
    words = (
        f"Then a network of {len(layers)} layers was cut by your function into stages of "
        f"{', '.join(map(str, counts))} layers and trained on digits: the gradients differ from those of one "
        f"device by at most {error:.0e}, which is rounding. "
        f"The charts are planned, with a layer's multiply-adds, in thousands, as its time."
    )
    thousands = [cost / 1000 for cost in costs]
    mine, plain = _chart("your cut", stage_costs(thousands, counts), 8), stage_costs(thousands, even)
    return Success(words, (mine, _chart("equal counts", plain, 8)))


def _told(costs: Costs) -> str:
    if len(costs) > 12:
        return f"{len(costs)} costs"
    return "[" + ", ".join(f"{cost:.0f}" if cost == int(cost) else f"{cost:.4g}" for cost in costs) + "]"


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, list | tuple | str | int | float) else a_name_of(value)
    return text if len(text) <= 120 else text[:117] + "..."
