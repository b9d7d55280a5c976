"""Is the one thing that is wrong in a profile found, and where?"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final, NamedTuple

from gpipe_edu import gpipe, one_f_one_b
from gpipe_edu.exercises.case import Case, Exam, Sign, Signs
from gpipe_edu.harness.forms import describe, is_whole
from gpipe_edu.sandbox.findings import Success
from gpipe_edu.timeline import Span, Timeline, step_with_fault
from gpipe_edu.words import plural

SLOW_RANK, UNEVEN, SLOW_LINK, NO_OVERLAP = FAULTS = "slow rank", "uneven cut", "slow link", "no overlap"

_KNOBS: Final = {SLOW_RANK: "slow_rank", SLOW_LINK: "slow_link", NO_OVERLAP: "waits_for_sends"}


class Profile(NamedTuple):
    """A step, and what is wrong with it, where."""

    timeline: Timeline
    layers: list[int]
    fault: str
    rank: int


class Diagnosis(NamedTuple):
    """What was said of a profile, in the case that asked for it."""

    case: Case
    profile: Profile
    fault: str
    rank: int


_FIRST: Final = (
    "not-per-layer",
    "link-behind",
    "one-hiccup",
    "blames-the-victim",
    "overlap-for-link",
    "link-for-overlap",
    "only-the-cut",
    "ops-for-messages",
    "messages-for-ops",
    "other-rank",
)
"""Which slip is told of those that show in several profiles: from the most telling to the least."""


def examine(exam: Exam, rng: Random) -> Success:
    """Each fault several times, in an order by chance; twice without messages, as some profilers have none."""
    faults = list(FAULTS) * 6
    rng.shuffle(faults)
    _judge([_ask(exam, _draw(rng, fault)) for fault in faults])
    with exam.blame_on("without-messages"):
        _judge([_ask(exam, _draw(rng, fault), messages=False) for fault in (SLOW_RANK, UNEVEN)])
    return exam.success(count=len(faults) + 2)


def _draw(rng: Random, fault: str) -> Profile:
    while True:
        K, M = rng.randint(3, 6), rng.randint(6, 12)
        layers = [4] * K
        rank = rng.randrange(K - 1 if fault == SLOW_LINK else K)
        if fault == UNEVEN:
            layers[rank] += rng.randint(2, 4)
        else:
            layers[rng.randrange(K)] -= 1
        schedule = rng.choice((gpipe, one_f_one_b))(K, M)
        knobs = {_KNOBS[fault]: rank} if fault in _KNOBS else {}
        timeline = step_with_fault(schedule, layers, seed=rng.randrange(2**32), **knobs)
        if all(_overlap(timeline, k) > 0.2 for k in range(K) if (fault, k) != (NO_OVERLAP, rank)):
            return Profile(timeline, layers, fault, rank)


def _overlap(timeline: Timeline, k: int) -> float:
    """The share of a rank's messages during which it runs an op: some ranks never do, for no fault of theirs."""
    mine = [message for message in timeline.messages if message.source == k]
    row = timeline.row(k)
    meanwhile = [any(span.start < one.there and span.end > one.start for span in row) for one in mine]
    return sum(meanwhile) / len(mine)


def _ask(exam: Exam, profile: Profile, messages: bool = True) -> Diagnosis:
    timeline, layers, fault, rank = profile
    K, M = len(layers), len(timeline.row(0)) // 2
    call = f"{K} ranks with {layers} layers, {plural(M, 'micro-batch')}"
    case = exam.case(call + ("" if messages else ", a profile without messages"), expected=f"({fault!r}, {rank})")
    sent = list(map(tuple, timeline.messages)) if messages else []
    found = case.ask(spans=list(map(tuple, timeline.spans)), messages=sent, layers=layers)
    case.came = describe(tuple(found) if isinstance(found, list) else found)
    case.judge(_about_the_form(found, K))
    return Diagnosis(case, profile, found[0], int(found[1]))


def _about_the_form(found: Any, K: int) -> Signs:
    yield Sign("not-a-pair", not isinstance(found, list) or len(found) != 2)
    names = ", ".join(f'"{name}"' for name in FAULTS)
    yield Sign("other-name", not isinstance(found[0], str) or found[0] not in FAULTS, words={"names": names})
    yield Sign("no-rank", not is_whole(found[1]) or not 0 <= found[1] < K, words={"last": K - 1})


def _judge(asked: Sequence[Diagnosis]) -> None:
    """Judge all of them together: a habit shows in many."""
    wrong = [one for one in asked if (one.fault, one.rank) != (one.profile.fault, one.profile.rank)]
    signs = [(one, _sign(one, asked)) for one in wrong]
    for one, sign in sorted(signs, key=lambda pair: _FIRST.index(pair[1].slip)):
        one.case.judge([sign])


def _sign(one: Diagnosis, asked: Sequence[Diagnosis]) -> Sign:
    _, layers, fault, rank = one.profile
    words = {"rank": rank, "layers": layers[rank], "fault": fault}
    if one.fault == fault:
        alike = [other for other in asked if other.fault == other.profile.fault == fault]
        if fault == SLOW_LINK:
            behind = all(other.rank == other.profile.rank + 1 for other in alike)
            return Sign("link-behind" if behind else "other-rank", words=words)
        longest = _longest(one.profile.timeline)
        words |= {"rank": one.rank, "op": longest.op}
        if all(other.rank == _longest(other.profile.timeline).device for other in alike):
            return Sign("one-hiccup", words=words)
        victim = all(other.rank == _most_idle(other.profile.timeline) for other in alike)
        return Sign("blames-the-victim" if victim else "other-rank", words=words)
    slips = {
        (SLOW_RANK, UNEVEN): "not-per-layer",
        (UNEVEN, SLOW_RANK): "only-the-cut",
        (NO_OVERLAP, SLOW_LINK): "overlap-for-link",
        (SLOW_LINK, NO_OVERLAP): "link-for-overlap",
    }
    others = "ops-for-messages" if fault in (SLOW_LINK, NO_OVERLAP) else "messages-for-ops"
    return Sign(slips.get((one.fault, fault), others), words=words)


def _longest(timeline: Timeline) -> Span:
    return max(timeline.spans, key=lambda span: span.end - span.start)


def _most_idle(timeline: Timeline) -> int:
    return max(range(timeline.devices), key=timeline.idle)
