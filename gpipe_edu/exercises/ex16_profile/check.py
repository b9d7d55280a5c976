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
    "one-hiccup",
    "one-layer-less",
    "link-behind",
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
    """Each fault several times, in an order by chance, with few ranks and with many, and with an op that stumbles where
    a rank begins; twice without messages, as some profilers have none; and in another unit of time."""
    profiles = [_draw(rng, fault, K) for fault in FAULTS for K in (3, 4, 5, 6, rng.randint(3, 6))]
    profiles += [_draw(rng, fault, rng.randint(3, 6), first=kind) for fault in FAULTS for kind in "FB"]
    rng.shuffle(profiles)
    _judge([_ask(exam, profile) for profile in profiles])
    with exam.blame_on("without-messages"):
        _judge([_ask(exam, _draw(rng, fault, 4), messages=False) for fault in (SLOW_RANK, UNEVEN)])
    with exam.blame_on("other-unit"):
        _judge(
            [_ask(exam, _draw(rng, fault, 4), second=unit) for fault in (SLOW_RANK, SLOW_LINK) for unit in (0.004, 4e3)]
        )
    return exam.success(count=exam.calls)


def _draw(rng: Random, fault: str, K: int, first: str = "") -> Profile:
    """A profile of K ranks. first: a kind, and the op that takes long once is the first one of it on a rank that is not
    at fault: the last one, whose warm-up is its first forward, or the one in front of it."""
    while True:
        M, layers = rng.randint(6, 12), [4] * K
        rank = rng.randrange(K - 1 if fault == SLOW_LINK else K)
        if fault == UNEVEN:
            layers[rank] += rng.randint(2, 4)
        else:
            layers[rng.randrange(K)] -= 1
        schedule = rng.choice((gpipe, one_f_one_b))(K, M)
        knobs: dict[str, Any] = {_KNOBS[fault]: rank} if fault in _KNOBS else {}
        row = schedule.rows[K - 1 if rank < K - 1 else K - 2]
        knobs["stumbles"] = next((op for op in row if op.kind == first), None)
        timeline = step_with_fault(schedule, layers, seed=rng.randrange(2**32), **knobs)
        if all(_overlap(timeline, k) > 0.2 for k in range(K) if (fault, k) != (NO_OVERLAP, rank)):
            return Profile(timeline, layers, fault, rank)


def _overlap(timeline: Timeline, k: int) -> float:
    """The share of a rank's messages during which it runs an op: some ranks never do, for no fault of theirs."""
    mine = [message for message in timeline.messages if message.source == k]
    row = timeline.row(k)
    meanwhile = [any(span.start < one.there and span.end > one.start for span in row) for one in mine]
    return sum(meanwhile) / len(mine)


def _ask(exam: Exam, profile: Profile, messages: bool = True, second: float = 1) -> Diagnosis:
    """messages: whether there are any. second: what the profile's unit of time is in the learner's."""
    timeline, layers, fault, rank = profile
    K, M = len(layers), len(timeline.row(0)) // 2
    call = f"{K} ranks with {layers} layers, {plural(M, 'micro-batch')}"
    call += "" if messages else ", a profile without messages"
    call += "" if second == 1 else f", its times multiplied by {second:g}"
    case = exam.case(call, expected=f"({fault!r}, {rank})")
    spans = [(device, op, start * second, end * second) for device, op, start, end in timeline.spans]
    sent = [(*one[:3], *(time * second for time in one[3:])) for one in timeline.messages if messages]
    found = case.ask(spans=spans, messages=sent, layers=layers)
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
    called_slow = [other for other in asked if other.fault == SLOW_RANK != other.profile.fault]
    if one in called_slow and all(other.rank == _stumble(other).device for other in called_slow):
        return Sign("one-hiccup", words=words | {"rank": one.rank, "op": _stumble(one).op})
    if fault != UNEVEN and all(other.fault == UNEVEN for other in asked):
        return Sign("one-layer-less", words={"rank": one.rank, "layers": layers})
    if one.fault == fault:
        alike = [other for other in asked if other.fault == other.profile.fault == fault]
        if fault == SLOW_LINK:
            behind = all(other.rank == other.profile.rank + 1 for other in alike)
            return Sign("link-behind" if behind else "other-rank", words=words)
        words |= {"rank": one.rank, "op": _stumble(one).op}
        if all(other.rank in (_stumble(other).device, _longest(other.profile.timeline).device) for other in alike):
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


def _stumble(one: Diagnosis) -> Span:
    return _stumbles(one.profile.timeline, one.profile.layers)


def _stumbles(timeline: Timeline, layers: Sequence[int]) -> Span:
    """The op that takes longer than any other for its kind and its layers: none is three times as long but one."""
    return max(
        timeline.spans, key=lambda span: (span.end - span.start) / layers[span.device] / "_FB".index(span.op.kind)
    )


def _longest(timeline: Timeline) -> Span:
    return max(timeline.spans, key=lambda span: span.end - span.start)


def _most_idle(timeline: Timeline) -> int:
    return max(range(timeline.devices), key=timeline.idle)
