"""Exchanges among experts on all ranks, together: who got most, who waits for it, and what is said of a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from gpipe_edu.schedule import Op

from ..timeline import Exchange, Timeline
from .exchanges import Exchanged


def compare_ranks(ranks: Iterable[Sequence[dict[Op, Exchanged]]]) -> list[list[dict[Op, Exchange]]]:
    """What exchanges took, in microseconds, with who got most of all ranks that are there.

    ranks: for each rank its steps from the first to the last, with what its ops spent.

    All ranks send equally many numbers, those of a token's top experts, so the mean of those sent is also that of those
    received. The time of experts is in proportion to the numbers that they get; a rank that gets fewer than the busiest
    waits for it on the way back.
    """
    given = list(ranks)
    of: dict[tuple[int, Op, int], list[Exchanged]] = defaultdict(list)
    for steps in given:
        for number, step in enumerate(steps):
            for op, one in step.items():
                of[number, op, len(one.dispatches)].append(one)
    return [
        [
            {op: _exchange(one, of[number, op, len(one.dispatches)]) for op, one in step.items()}
            for number, step in enumerate(steps)
        ]
        for steps in given
    ]


def _exchange(mine: Exchanged, alike: Sequence[Exchanged]) -> Exchange:
    uneven = waits = mean_of_all = most_of_all = 0.0
    for own, *every in zip(mine.dispatches, *(one.dispatches for one in alike), strict=True):
        busiest = max(every, key=lambda one: one.received)
        mean = sum(one.sent for one in every) / len(every)
        most = max(mean, busiest.received)
        mean_of_all, most_of_all = mean_of_all + mean, most_of_all + most
        each = busiest.experts / busiest.received if busiest.received else 0.0
        if most > own.received:
            wait = min(own.back, each * (most - own.received))
            uneven, waits = uneven + wait * (most - mean) / (most - own.received), waits + wait
        else:
            uneven += each * (most - mean)
    return Exchange(mine.time, max(0.0, mine.exposed - waits), uneven, mean_of_all, most_of_all)


def said_of_exchanges(timeline: Timeline) -> str:
    """What a step's ops spent in exchanges, "" if they had none."""
    kinds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for span in timeline.spans:
        if (one := timeline.exchanges.get(span.op)) and span.end > span.start:
            length = span.end - span.start
            kinds[span.op.kind].append((one.time / length, one.exposed / length))
    if not kinds:
        return ""
    each = (
        f"{median(time for time, _ in of):.1%} of {kind}, {median(bare for _, bare in of):.1%} exposed"
        for kind, of in kinds.items()
    )
    found = f"measured exchange between experts, in the median op: {'; '.join(each)}"
    uneven = timeline.imbalances
    if not uneven:
        return f"{found}. Record shapes, and the profile tells how many tokens each got"
    stage = max(uneven, key=lambda one: uneven[one])
    return f"{found}. On stage {stage} the busiest device got {uneven[stage]:.2f} times the mean"
