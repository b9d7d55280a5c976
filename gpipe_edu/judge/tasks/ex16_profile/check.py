"""Is the one thing that is wrong in a profile found, and where?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from statistics import median
from typing import Any, Final, NamedTuple

from gpipe_edu import gpipe, one_f_one_b
from gpipe_edu.base.words import plural
from gpipe_edu.judge.case import Case, Exam, Sign, Signs
from gpipe_edu.judge.findings import Success
from gpipe_edu.judge.guest.forms import describe, is_whole
from gpipe_edu.schedule import Schedule
from gpipe_edu.timeline import Span, Timeline, step_with_fault

SLOW_RANK, UNEVEN, SLOW_LINK, NO_OVERLAP = FAULTS = "slow rank", "uneven cut", "slow link", "no overlap"

_KNOBS: Final = {SLOW_RANK: "slow_rank", SLOW_LINK: "slow_link", NO_OVERLAP: "waits_for_sends"}


class Profile(NamedTuple):
    """A step, what is wrong with it, and where. beside: a rank, if any, that waits for its link, which is no fault."""

    timeline: Timeline
    layers: list[int]
    fault: str
    rank: int
    beside: int | None = None


class Diagnosis(NamedTuple):
    """What was said of a profile, in the case that asked for it, and what was given."""

    case: Case
    profile: Profile
    given: dict[str, Any]
    fault: str
    rank: int


_FIRST: Final = (
    "not-per-layer",
    "as-fast",
    "one-hiccup",
    "undivided",
    "limit-too-high",
    "one-layer-off",
    "until-the-end",
    "begins-at-start",
    "link-behind",
    "link-by-sender",
    "blames-the-victim",
    "overlap-for-link",
    "link-for-overlap",
    "only-the-cut",
    "ops-for-messages",
    "messages-for-ops",
    "other-rank",
)
"""Which slip is told if several show in the profiles: from the most telling to the least."""


def examine(exam: Exam, rng: Random) -> Success:
    """Each fault several times, in random order, with few ranks and with many, one layer less or more on one of
    them, and an op that stumbles where a rank begins. Some expose what else goes right by chance: a mean, over few
    micro-batches; every second op taken for a forward, with an odd number of them; messages counted with their sender;
    a cut called uneven by the ratio of layers; a slow rank with fewer layers; messages that have left their link; the
    rank that idles least, taken for the slow one; a rank called slow for having one layer more;
    a cut called uneven by who has fewest.
    Then two without messages, as some profilers have none; some in another unit of time; and one in which messages
    that come in show overlap, and those that are sent show none."""
    profiles = [_draw(rng, fault, K, off) for fault in FAULTS for K, off in ((3, -1), (4, 1), (5, -1), (6, 1))]
    profiles += [_draw(rng, fault, rng.randint(3, 6), 1, M=4, first="B") for fault in FAULTS]
    profiles += [_draw(rng, fault, rng.randint(3, 6), -1, M=5, first="F", recipes=(gpipe,)) for fault in FAULTS]
    profiles += [_draw(rng, fault, rng.randint(3, 6), -1, first="F", recipes=(one_f_one_b,)) for fault in FAULTS]
    profiles.append(_draw(rng, UNEVEN, 4, each=8, wanted=lambda profile: max(profile.layers) == 8 + 2))
    profiles.append(_draw(rng, SLOW_LINK, 6, -1, wanted=lambda profile: _by_senders(profile) != profile.rank))
    profiles.append(_draw(rng, SLOW_RANK, 4, -1, wanted=lambda profile: profile.layers[profile.rank] == 4 - 1))
    profiles += [_draw(rng, NO_OVERLAP, 4, -1, beside=beside) for beside in (-1, 1)]
    profiles.append(_draw(rng, SLOW_RANK, 4, -1, M=4, first="B", wanted=_works_less))
    profiles.append(_draw(rng, NO_OVERLAP, 4, 1, each=3))
    profiles += [_draw(rng, fault, 4, 1, less=True) for fault in FAULTS if fault != UNEVEN]
    rng.shuffle(profiles)
    _judge([_ask(exam, profile) for profile in profiles])
    with exam.blame_on("without-messages"):
        _judge([_ask(exam, _draw(rng, fault, 4), messages=False) for fault in (SLOW_RANK, UNEVEN)])
    with exam.blame_on("other-unit"):
        _judge(
            [_ask(exam, _draw(rng, fault, 4), second=unit) for fault in (SLOW_RANK, SLOW_LINK) for unit in (0.004, 4e3)]
        )
    _judge([_ask(exam, _draw(rng, NO_OVERLAP, 3, -1, wanted=_receives_meanwhile))])
    return exam.success(count=exam.calls)


def _draw(
    rng: Random,
    fault: str,
    K: int,
    off: int = -1,
    *,
    M: int = 0,
    each: int = 4,
    less: bool = False,
    first: str = "",
    beside: int = 0,
    recipes: Sequence[Callable[[int, int], Schedule]] = (gpipe, one_f_one_b),
    wanted: Callable[[Profile], bool] = lambda profile: True,
) -> Profile:
    """A profile of K ranks. off: how many more layers one rank has, if the cut is not what is wrong. M: random if 0.
    each: the layers of all others. less: whether one has a layer less besides. first: a kind; its first op takes long,
    once, on a rank that is not at fault: the last rank, whose warm-up is its first forward, or the one in front of it.
    beside: how far behind the rank at fault another stands that begins nothing before its own message has left the
    link."""
    while True:
        layers, rank = [each] * K, rng.randrange(K - 1 if fault == SLOW_LINK else K)
        waits = rank + beside if beside else None
        if waits not in (None, *range(K)):
            continue
        if fault == UNEVEN:
            layers[rank] += rng.randint(2, 4)
        else:
            other, another = rng.sample(range(K), 2)
            layers[other] += off
            layers[another] -= less
        schedule = rng.choice(recipes)(K, M or rng.randint(4, 12))
        knobs: dict[str, Any] = {_KNOBS[fault]: rank} if fault in _KNOBS else {}
        knobs["waits_for_link"] = waits
        row = schedule.rows[K - 1 if rank < K - 1 else K - 2]
        knobs["stumbles"] = next((op for op in row if op.kind == first), None)
        try:
            timeline = step_with_fault(schedule, layers, seed=rng.randrange(2**32), **knobs)
        except ValueError:  # another rank waits as well
            continue
        profile = Profile(timeline, layers, fault, rank, waits)
        others = [k for k in range(K) if (fault, k) != (NO_OVERLAP, rank)]
        if all(_overlap(profile.timeline, k) > 0.2 for k in others) and wanted(profile):
            return profile


def _receives_meanwhile(profile: Profile) -> bool:
    """Whether the rank at fault begins an op while a message to it is on its way, which says nothing of its sends."""
    coming = [message for message in profile.timeline.messages if message.target == profile.rank]
    starts = [span.start for span in profile.timeline.row(profile.rank)]
    return any(message.start <= start < message.there for message in coming for start in starts)


def _overlap(timeline: Timeline, k: int, at_once: bool = True) -> float:
    """The share of a rank's messages during which it begins an op: some never do, through no fault of theirs.

    at_once: whether an op that begins at the very moment when the message leaves counts.
    """
    mine = [message for message in timeline.messages if message.source == k]
    starts = [span.start for span in timeline.row(k)]
    meanwhile = [
        any(one.start < start < one.there or (at_once and start == one.start) for start in starts) for one in mine
    ]
    return sum(meanwhile) / len(mine)


def _works_less(profile: Profile) -> bool:
    """Whether the rank at fault has fewer layers, and another rank idles less."""
    timeline, layers, _, rank, _ = profile
    return layers[rank] < max(layers) and min(range(timeline.devices), key=timeline.idle) != rank


def _by_senders(profile: Profile) -> int:
    """The link that seems slowest to those who count each message with the link behind its sender."""
    links: list[list[float]] = [[] for _ in profile.layers[1:]]
    for one in profile.timeline.messages:
        links[min(one.source, len(links) - 1)].append(one.there - one.start)
    return max(range(len(links)), key=lambda k: median(links[k]))


def _ask(exam: Exam, profile: Profile, messages: bool = True, second: float = 1) -> Diagnosis:
    """messages: whether there are any. second: the profile's unit of time, in the learner's."""
    timeline, layers, fault, rank, _ = profile
    K, M = len(layers), len(timeline.row(0)) // 2
    call = f"{K} ranks with {layers} layers, {plural(M, 'micro-batch')}"
    call += "" if messages else ", a profile without messages"
    call += "" if second == 1 else f", its times multiplied by {second:g}"
    case = exam.case(call, expected=f"({fault!r}, {rank})")
    spans = [(device, op, start * second, end * second) for device, op, start, end in timeline.spans]
    sent = [(*one[:3], *(time * second for time in one[3:])) for one in timeline.messages if messages]
    given = {"spans": spans, "messages": sent, "layers": layers}
    found, layers_after = case.ask(**given)
    case.came = describe(tuple(found) if isinstance(found, list) else found)
    case.judge(_about_the_form(found, K))
    case.judge([Sign("input-changed", layers_after != layers)])
    return Diagnosis(case, profile, given, found[0], int(found[1]))


def _about_the_form(found: Any, K: int) -> Signs:
    yield Sign("no-return", found is None, came="None")
    yield Sign("not-a-pair", not isinstance(found, list) or len(found) != 2)
    names = ", ".join(f'"{name}"' for name in FAULTS)
    yield Sign("other-name", not isinstance(found[0], str) or found[0] not in FAULTS, words={"names": names})
    yield Sign("no-rank", not is_whole(found[1]) or not 0 <= found[1] < K, words={"last": K - 1, "link": K - 2})


def _judge(asked: Sequence[Diagnosis]) -> None:
    """Judge all of them together: a habit shows in many."""
    wrong = [one for one in asked if (one.fault, one.rank) != (one.profile.fault, one.profile.rank)]
    signs = [(one, _sign(one, asked)) for one in wrong]
    for one, sign in sorted(signs, key=lambda pair: _FIRST.index(pair[1].slip)):
        one.case.judge([sign])


def _sign(one: Diagnosis, asked: Sequence[Diagnosis]) -> Sign:
    _, layers, fault, rank, beside = one.profile
    words = {"rank": rank, "layers": layers[rank], "fault": fault}
    called_slow = [other for other in asked if other.fault == SLOW_RANK != other.profile.fault]
    stumbled = all(other.rank == _stumble(other).device for other in called_slow)
    ranks = range(len(layers))
    if one in called_slow and stumbled and _without_stumble(one) not in [[SLOW_RANK, k] for k in ranks]:
        return Sign("one-hiccup", words=words | {"rank": one.rank, "op": _stumble(one).op})
    if one.fault == SLOW_RANK and fault == UNEVEN:
        own = all(other.rank == other.profile.rank for other in called_slow if other.profile.fault == UNEVEN)
        return Sign("not-per-layer" if own else "as-fast", words=words | {"said": one.rank})
    if fault == SLOW_RANK and layers[rank] < max(layers) and _needs_division(one):
        return Sign("undivided", words=words)
    if one.fault == NO_OVERLAP and one.rank == beside and _as_if_there_at_the_end(one) == [fault, rank]:
        return Sign("until-the-end", words={"said": one.rank})
    if one.fault != fault in (SLOW_RANK, SLOW_LINK) and _finds_it_where_it_is_worse(one):
        thing, factor = ("layer", "1.6 times") if fault == SLOW_RANK else ("message", "8 times")
        return Sign("limit-too-high", words=words | {"thing": thing, "factor": factor})
    called_uneven = [other for other in asked if other.fault == UNEVEN != other.profile.fault]
    if one in called_uneven and (
        all(other.profile.layers[other.rank] > median(other.profile.layers) for other in called_uneven)
        or len({other.profile.fault for other in called_uneven}) == len(FAULTS) - 1
    ):
        return Sign("one-layer-off", words={"rank": one.rank, "layers": layers})
    called_waiting = [other for other in asked if other.fault == NO_OVERLAP]
    if one in called_waiting and one.rank != rank and _counts_no_start(called_waiting):
        if _misses_the_start(one):
            return Sign("begins-at-start", words={"said": one.rank})
        if fault == NO_OVERLAP:  # those who count incoming messages may name the same ranks
            return Sign("other-rank", words=words)
    if one.fault == fault:
        alike = [other for other in asked if other.fault == other.profile.fault == fault]
        if fault == SLOW_LINK:
            behind = {other.rank - other.profile.rank for other in alike}
            slip = "link-behind" if behind == {1} else "link-by-sender" if behind == {0, 1} else "other-rank"
            return Sign(slip, words=words)
        words |= {"rank": one.rank, "op": _stumble(one).op}
        stumbling = [(_stumble(other).device, _longest(other.profile.timeline).device) for other in alike]
        stumbled = all(other.rank in ranks for other, ranks in zip(alike, stumbling, strict=True))
        if fault == SLOW_RANK and stumbled and _without_stumble(one) == [fault, rank]:
            return Sign("one-hiccup", words=words)
        victim = all(other.rank == _most_idle(other.profile.timeline) for other in alike)
        return Sign("blames-the-victim" if victim else "other-rank", words=words)
    slips = {
        (UNEVEN, SLOW_RANK): "only-the-cut",
        (NO_OVERLAP, SLOW_LINK): "overlap-for-link",
        (SLOW_LINK, NO_OVERLAP): "link-for-overlap",
    }
    others = "ops-for-messages" if fault in (SLOW_LINK, NO_OVERLAP) else "messages-for-ops"
    return Sign(slips.get((one.fault, fault), others), words=words)


def _counts_no_start(called: Sequence[Diagnosis]) -> bool:
    """Whether in all of these, said to have no overlap, the rank named was the first, or in all the last, that begins
    no op except at the moment when a message leaves. In one of them messages must be what is wrong: a default answer
    may hit such ranks by chance."""
    if not any(one.profile.fault in (SLOW_LINK, NO_OVERLAP) for one in called):
        return False
    ranks = [(one.rank, range(len(one.profile.layers)), one.profile.timeline) for one in called]
    never = [(rank, [k for k in all_ranks if not _overlap(timeline, k, False)]) for rank, all_ranks, timeline in ranks]
    return any(all(those and those[end] == rank for rank, those in never) for end in (0, -1))


def _stumble(one: Diagnosis) -> Span:
    """The op that takes longest for its kind and its layers: only one takes three times as long."""
    timeline, layers = one.profile[:2]
    return max(
        timeline.spans, key=lambda span: (span.end - span.start) / layers[span.device] / "_FB".index(span.op.kind)
    )


def _without_stumble(one: Diagnosis) -> Any:
    """What is said if that op takes as long as its like: an answer misled by it, and not by chance, then says something
    else."""
    stumble = _stumble(one).op
    spans = [
        (device, op, start, start + (end - start) / 3 if op == stumble else end)
        for device, op, start, end in one.given["spans"]
    ]
    return _ask_again(one, spans=spans)


def _misses_the_start(one: Diagnosis) -> bool:
    """Whether something else is said if the ops of the rank that was named begin a little after its messages leave."""
    left = {message.start for message in one.profile.timeline.messages if message.source == one.rank}
    spans = [
        (*given[:2], given[2] + (given[3] - given[2]) / 1000 * (device == one.rank and start in left), given[3])
        for (device, _, start, _), given in zip(one.profile.timeline.spans, one.given["spans"], strict=True)
    ]
    return bool(_ask_again(one, spans=spans) != [one.fault, one.rank])


def _needs_division(one: Diagnosis) -> bool:
    """Whether the fault is found if all times are those for one layer; and also if the ranks have equally many, where
    dividing by them makes no difference."""
    _, layers, fault, rank, _ = one.profile
    spans = [
        (device, op, start, start + (end - start) / layers[device]) for device, op, start, end in one.given["spans"]
    ]
    alike = [max(layers)] * len(layers)
    return all(_ask_again(one, spans=spans, layers=given) == [fault, rank] for given in (layers, alike))


def _finds_it_where_it_is_worse(one: Diagnosis) -> bool:
    """Whether the slow rank or link is found if all others are twice as fast, or four times."""
    _, _, fault, rank, _ = one.profile
    spans, messages = one.given["spans"], one.given["messages"]
    if fault == SLOW_RANK:
        spans = [(k, op, start, end if k == rank else (start + end) / 2) for k, op, start, end in spans]
    else:
        others = [min(source, target) != rank for _, source, target, *_ in messages]
        messages = [
            (*ends, start, *(start + (time - start) / 4 if other else time for time in times))
            for other, (*ends, start, end, there) in zip(others, messages, strict=True)
            for times in [(end, there)]
        ]
    return bool(_ask_again(one, spans=spans, messages=messages) == [fault, rank])


def _as_if_there_at_the_end(one: Diagnosis) -> Any:
    """What is said if each message is on its link until it arrives."""
    messages = [
        (op, source, target, start, there, there) for op, source, target, start, _, there in one.given["messages"]
    ]
    return _ask_again(one, messages=messages)


def _ask_again(one: Diagnosis, **other: Any) -> Any:
    """Ask in a new case: that of the profile keeps its number, by which it is asked once more in a new process."""
    again = one.case.exam.case(one.case.call, one.case.expected)
    found, _ = again.ask(**one.given | other)
    return found


def _longest(timeline: Timeline) -> Span:
    return max(timeline.spans, key=lambda span: span.end - span.start)


def _most_idle(timeline: Timeline) -> int:
    return max(range(timeline.devices), key=timeline.idle)
