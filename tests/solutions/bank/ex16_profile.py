"""Exercise 16, a profile with one thing wrong."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from statistics import mean, median
from typing import NamedTuple

import numpy as np

from tests.solutions.bank import Bank

BANK = Bank("ex16/profile")
SEEN = []


@BANK.right
def step_by_step(timeline, layers):
    K = len(layers)
    times = []
    for k in range(K):
        ops = [span.end - span.start for span in timeline.row(k) if span.op.kind == "B"]
        times.append(median(ops) / layers[k])
    worst = times.index(max(times))
    if times[worst] > 1.3 * median(times):
        return "slow rank", worst
    sent = [[] for _ in range(K - 1)]
    for message in timeline.messages:
        link = min(message.source, message.target)
        sent[link].append(message.there - message.start)
    if timeline.messages:
        travel = [median(link) for link in sent]
        worst = travel.index(max(travel))
        if travel[worst] > 3 * min(travel):
            return "slow link", worst
        busy = [0] * K
        for message in timeline.messages:
            for span in timeline.row(message.source):
                busy[message.source] += span.start < message.there and span.end > message.start
        if min(busy) == 0:
            return "no overlap", busy.index(0)
    return "uneven cut", layers.index(max(layers))


changed = BANK.changed
changed("not-per-layer", "forgets_to_divide", "median(ops) / layers[k]", "median(ops)")
changed("link-behind", "named_by_its_end", 'return "slow link", worst', 'return "slow link", worst + 1')
changed(
    "link-behind",
    "link_by_its_receiver",
    "travel.index(max(travel))",
    "travel.index(max(travel)) + 1",
    "travel[worst] >",
    "max(travel) >",
)
changed(
    "other-rank",
    "fastest_rank",
    "worst = times.index(max(times))\n    if times[worst]",
    "worst = times.index(min(times))\n    if max(times)",
)
changed("other-rank", "fewest_layers", "layers.index(max(layers))", "layers.index(min(layers))")
changed("other-rank", "first_link", 'return "slow link", worst', 'return "slow link", worst and worst - 1')
changed(
    "other-rank",
    "neighbour_of_the_waiting",
    'return "no overlap", busy.index(0)',
    'return "no overlap", (busy.index(0) + 1) % K',
)
changed(
    "overlap-for-link",
    "overlap_is_asked_late",
    "travel[worst] > 3 *",
    "travel[worst] > 99 *",
    "if min(busy) == 0",
    "if min(busy) < 99",
    "busy.index(0)",
    "busy.index(min(busy))",
)
changed("link-for-overlap", "any_link_is_slow", "> 3 * min(travel)", ">= min(travel)")
changed("ops-for-messages", "never_looks_at_messages", "if timeline.messages:", "if not timeline.messages:")
changed("ops-for-messages", "never_looks_at_overlap", "if min(busy) == 0", "if min(busy) < 0")
changed("as-fast", "any_difference_counts", "times[worst] > 1.3 *", "times[worst] >")
changed(
    "messages-for-ops",
    "blames_sends_for_the_rest",
    "times[worst] > 1.3",
    "times[worst] < 0",
    'return "uneven cut", layers.index(max(layers))',
    'return "no overlap", 0',
)
changed("only-the-cut", "never_looks_at_ranks", "times[worst] > 1.3", "times[worst] < 0")
changed("limit-too-high", "ranks_by_chance", "times[worst] > 1.3", "times[worst] > 2.3")
changed("limit-too-high", "links_by_chance", "travel[worst] > 3 *", "travel[worst] > 9 *")
changed("without-messages", "counts_on_messages", "if timeline.messages:", "if True:")
changed("no-return", "forgets_the_last_case", 'return "uneven cut", layers', '"uneven cut", layers')
changed("one-hiccup", "first_backward_alone", "median(ops) / layers[k]", "ops[0] / layers[k]")
changed("one-hiccup", "mean_of_few_backwards", "median(ops) / layers[k]", "mean(ops) / layers[k]")
changed(
    "as-fast",
    "every_second_op_is_a_forward",
    'ops = [span.end - span.start for span in timeline.row(k) if span.op.kind == "B"]',
    "ops = [span.end - span.start for span in timeline.row(k)[::2]]",
)
changed("link-by-sender", "link_behind_the_sender", "min(message.source, message.target)", "min(message.source, K - 2)")
changed(
    "blames-the-victim",
    "most_idle_has_no_overlap",
    'return "no overlap", busy.index(0)',
    'return "no overlap", max(range(K), key=timeline.idle)',
)
changed(
    "one-layer-off",
    "one_more_is_uneven",
    "    sent = [[]",
    """    if max(layers) > sorted(layers)[-2]:
        return "uneven cut", layers.index(max(layers))
    sent = [[]""",
)
changed(
    "one-layer-off",
    "two_more_than_the_fewest",
    "    worst = times.index(max(times))\n    if times",
    """    if max(layers) >= min(layers) + 2:
        return "uneven cut", layers.index(max(layers))
    worst = times.index(max(times))
    if times""",
)
changed("input-changed", "sorts_the_callers_list", "    times = []\n", "    times = []\n    layers.sort()\n")
changed("other-unit", "as_long_as_in_the_example", "times[worst] > 1.3 * median(times)", "times[worst] > 2.6")
changed("other-unit", "a_link_takes_half", "travel[worst] > 3 * min(travel)", "travel[worst] > 3 * 0.5")
changed("ops-for-messages", "twice_the_mean_of_links", "> 3 * min(travel)", "> 2.2 * sum(travel) / len(travel)")
changed(
    "one-layer-off",
    "more_than_somebody_else",
    "    worst = times.index(max(times))\n    if times",
    """    if sum(layers) != 4 * K:
        return "uneven cut", layers.index(max(layers))
    worst = times.index(max(times))
    if times""",
)
changed("not-a-pair", "the_name_alone", 'return "uneven cut", layers.index(max(layers))', 'return "uneven cut"')
changed("not-a-pair", "a_sentence", 'return "uneven cut", layers.index(max(layers))', 'return f"rank {worst} has most"')
changed("other-name", "own_names", '"uneven cut"', '"unbalanced head"')
changed("no-rank", "all_of_them", 'return "slow link", worst', 'return "slow link", (worst, worst + 1)')
changed("no-rank", "a_name_for_the_rank", 'return "slow rank", worst', 'return "slow rank", f"rank {worst}"')
changed("no-rank", "from_one", 'return "uneven cut", layers.index(max(layers))', 'return "uneven cut", K')
changed("arguments", "wants_one_more", "timeline, layers):", "timeline, layers, schedule):")
changed("error", "messages_as_dicts", "message.there - message.start", 'message["there"] - message["start"]')


changed("limit-too-high", "exactly_the_factor", "times[worst] > 1.3 *", "times[worst] >= 1.6 *")
changed(
    "limit-too-high",
    "exactly_the_factor_and_sends_for_the_rest",
    "times[worst] > 1.3 *",
    "times[worst] >= 1.6 *",
    'return "uneven cut", layers.index(max(layers))',
    "k = layers.index(max(layers))\n"
    '    return ("uneven cut" if layers[k] >= sorted(layers)[-2] + 2 else "no overlap"), k',
)


@BANK.right
def cut_first_and_messages_last(timeline, layers):
    ranks = range(len(layers))
    if max(layers) >= sorted(layers)[-2] + 2:
        return "uneven cut", layers.index(max(layers))
    usual = [median(s.end - s.start for s in timeline.row(k) if s.op.kind == "F") / layers[k] for k in ranks]
    if max(usual) > 1.3 * median(usual):
        return "slow rank", usual.index(max(usual))
    links = [
        median(m.there - m.start for m in timeline.messages if {m.source, m.target} == {k, k + 1}) for k in ranks[:-1]
    ]
    if max(links) > 3 * min(links):
        return "slow link", links.index(max(links))
    for k in ranks:
        sent, row = [m for m in timeline.messages if m.source == k], timeline.row(k)
        if not any(s.start < m.there and s.end > m.start for m in sent for s in row):
            return "no overlap", k
    return None


@BANK.right
def begins_from_the_start_on(timeline, layers):
    name, where = cut_first_and_messages_last(timeline, layers)
    if name != "no overlap":
        return name, where
    shares = []
    for k in range(len(layers)):
        sent, starts = [m for m in timeline.messages if m.source == k], [s.start for s in timeline.row(k)]
        shares.append(mean(any(m.start <= start < m.there for start in starts) for m in sent))
    return "no overlap", shares.index(min(shares))


changed(
    "begins-at-start",
    "begins_strictly_meanwhile",
    "m.start <= start < m.there",
    "m.start < start < m.there",
    of=begins_from_the_start_on,
)


@BANK.wrong("begins-at-start")
def asks_for_overlap_before_links(timeline, layers):
    name, where = cut_first_and_messages_last(timeline, layers)
    if name in ("slow link", "no overlap"):
        for k in range(len(layers)):
            sent, row = [m for m in timeline.messages if m.source == k], timeline.row(k)
            if not any(m.start < s.start < m.there for m in sent for s in row):
                return "no overlap", k
    return name, where


@BANK.wrong("blames-the-victim")
def most_idle(timeline, layers):
    name, _ = step_by_step(timeline, layers)
    idle = [timeline.idle(k) for k in range(len(layers))]
    return name, idle.index(max(idle))


@BANK.wrong("one-hiccup")
def longest_single_op(timeline, layers):
    name, rank = step_by_step(timeline, layers)
    if name == "slow rank":
        rank = max(timeline.spans, key=lambda span: span.end - span.start).device
    return name, rank


@BANK.wrong("other-rank")
def last_to_end(timeline, layers):
    name, _ = step_by_step(timeline, layers)
    return name, timeline.spans[-1].device


@BANK.wrong("other-rank")
def counts_messages_that_come(timeline, layers):
    """A rank that begins something while it receives is taken for one that does not wait for its sends."""
    name, rank = step_by_step(timeline, layers)
    if name != "no overlap":
        return name, rank
    for k in range(len(layers)):
        own = [message for message in timeline.messages if k in (message.source, message.target)]
        if not any(m.start <= span.start < m.there for m in own for span in timeline.row(k)):
            return name, k
    return name, (rank + 1) % len(layers)


@BANK.wrong("overlap-for-link")
def what_waits_has_no_overlap(timeline, layers):
    """Looks for gaps first, and everybody has some."""
    gaps = [max(b.start - a.end for a, b in pairwise(timeline.row(k))) for k in range(len(layers))]
    return "no overlap", gaps.index(max(gaps))


@BANK.wrong("stays")
def adds_to_what_it_has_seen(timeline, layers):
    SEEN.append(step_by_step(timeline, layers))
    return Counter(SEEN).most_common(1)[0][0]


class Fault(Enum):
    SLOW = "slow rank"
    CUT = "uneven cut"
    LINK = "slow link"
    SENDS = "no overlap"


class Found(NamedTuple):
    fault: str
    rank: int


@dataclass
class Rank:
    """What one rank did."""

    number: int
    ops: list = field(default_factory=list)
    waited: list = field(default_factory=list)

    @property
    def usual(self):
        return median(self.ops)


@BANK.right
def by_ranks(timeline, layers):
    """No overlap: the op behind each message begins no sooner than that is there."""
    ranks = [Rank(k) for k in range(len(layers))]
    for span in timeline.spans:
        ranks[span.device].ops.append((span.end - span.start) / layers[span.device] / (1 + (span.op.kind == "B")))
    for message in timeline.messages:
        row = timeline.row(message.source)
        behind = [span for span in row if span.start >= message.start - 1e-9 and span.op != message.op][:1]
        ranks[message.source].waited += [span.start >= message.there - 1e-9 for span in behind]
    ordered = sorted(ranks, key=lambda rank: rank.usual)
    if ordered[-1].usual > 1.25 * ordered[0].usual:
        return Found(Fault.SLOW.value, ordered[-1].number)
    links = defaultdict(list)
    for message in timeline.messages:
        links[frozenset((message.source, message.target))].append(message.end - message.start)
    slowest = max(links, key=lambda link: median(links[link]), default=None)
    if slowest and median(links[slowest]) > 4 * min(map(median, links.values())):
        return Found(Fault.LINK.value, min(slowest))
    for rank in ranks:
        if rank.waited and all(rank.waited):
            return Found(Fault.SENDS.value, rank.number)
    return Found(Fault.CUT.value, int(np.argmax(layers)))


@BANK.right
def last_that_begins_nothing(timeline, layers):
    """No overlap: the last rank whose next op begins only when the message of the one before is there."""
    name, where = step_by_step(timeline, layers)
    arrivals = {message.op: message.there for message in timeline.messages}
    for k in range(len(layers)):
        pairs = pairwise(timeline.row(k))
        if name == "no overlap" and all(b.start >= arrivals[a.op] for a, b in pairs if a.op in arrivals):
            where = k
    return name, where


changed("until-the-end", "last_behind_the_link", "message.there", "message.end", of=last_that_begins_nothing)
changed(
    "until-the-end", "first_behind_the_link", "s.start < m.there", "s.start < m.end", of=cut_first_and_messages_last
)


@BANK.right
def links_by_the_time_that_they_are_busy(timeline, layers):
    """A message takes longer in all on a slow link, and keeps it busy for longer."""
    name, where = step_by_step(timeline, layers)
    if name in ("slow link", "no overlap"):
        busy = [[] for _ in layers[1:]]
        for message in timeline.messages:
            busy[min(message.source, message.target)].append(message.end - message.start)
        usual = [median(times) for times in busy]
        if max(usual) > 3 * min(usual):
            return "slow link", usual.index(max(usual))
    return name, where


@BANK.wrong("undivided")
def cut_by_layers_ranks_by_time(timeline, layers):
    found = cut_first_and_messages_last(timeline, layers)
    if found and found[0] == "uneven cut":
        return found
    ranks = range(len(layers))
    usual = [median(s.end - s.start for s in timeline.row(k) if s.op.kind == "F") for k in ranks]
    if max(usual) > 1.3 * median(usual):
        return "slow rank", usual.index(max(usual))
    return found if found and found[0] != "slow rank" else ("no overlap", 0)


@BANK.right
def with_arrays(timeline, layers):
    times = (
        np.array(
            [np.median([s.end - s.start for s in timeline.row(k) if s.op.kind == "F"]) for k in range(len(layers))]
        )
        / layers
    )
    if times.max() > 1.3 * np.median(times):
        return ["slow rank", times.argmax()]
    if max(layers) - sorted(layers)[-2] >= 2:
        return ["uneven cut", np.argmax(layers)]
    lengths = np.zeros((2, len(layers) - 1))
    for _op, source, target, start, _end, there in timeline.messages:
        lengths[:, min(source, target)] += (there - start, 1)
    average = lengths[0] / lengths[1]
    if average.max() > 3 * average.min():
        return ["slow link", average.argmax()]
    overlap = [
        sum(
            max(0.0, min(span.end, one.there) - max(span.start, one.start))
            for one in timeline.messages
            if one.source == k
            for span in timeline.row(k)
        )
        for k in range(len(layers))
    ]
    return ["no overlap", int(np.argmin(overlap))]


@BANK.right
def by_elimination(timeline, layers):
    def score(k, kind):
        return mean(sorted(s.end - s.start for s in timeline.row(k) if s.op.kind == kind)[:3]) / layers[k]

    scores = [score(k, "F") + score(k, "B") for k in range(len(layers))]
    if max(scores) > 1.3 * min(scores):
        return "slow rank", scores.index(max(scores))
    if max(layers) >= median(layers) + 2:
        return "uneven cut", layers.index(max(layers))
    longest = sorted(timeline.messages, key=lambda one: one.start - one.there)
    if longest[0].there - longest[0].start > 3 * (longest[-1].there - longest[-1].start):
        return "slow link", min(longest[0].source, longest[0].target)
    for k in range(len(layers)):
        mine = [one for one in timeline.messages if one.source == k]
        if not any(s.start < one.there and s.end > one.start for one in mine for s in timeline.row(k)):
            return "no overlap", k
    return None


def cut_or_link(timeline, layers):
    """What shows without a look at ranks."""
    *_, second, most = sorted(layers)
    if most - second >= 2:
        return "uneven cut", layers.index(most)
    links = defaultdict(list)
    for message in timeline.messages:
        links[min(message.source, message.target)].append(message.there - message.start)
    travel = {k: median(times) for k, times in links.items()}
    slowest = max(travel, key=travel.get, default=0)
    return ("slow link", slowest) if travel and travel[slowest] > 3 * min(travel.values()) else None


def who_waits(timeline, K):
    for k in range(K):
        mine, row = [one for one in timeline.messages if one.source == k], timeline.row(k)
        if mine and not any(s.start < one.there and s.end > one.start for one in mine for s in row):
            return "no overlap", k
    return None


@BANK.wrong("other-rank")
def works_while_it_receives(timeline, layers):
    ranks = range(len(layers))
    if found := cut_or_link(timeline, layers):
        return found
    pace = [median(s.end - s.start for s in timeline.row(k) if s.op.kind == "B") / layers[k] for k in ranks]
    if max(pace) > 1.3 * median(pace):
        return "slow rank", pace.index(max(pace))
    for k in ranks:
        come, starts = [m for m in timeline.messages if m.target == k], [s.start for s in timeline.row(k)]
        if not any(m.start <= start < m.there for m in come for start in starts):
            return "no overlap", k
    return "slow rank", pace.index(max(pace))


@BANK.wrong("undivided")
def the_one_that_idles_least(timeline, layers):
    ranks = range(len(layers))
    return (
        cut_or_link(timeline, layers)
        or who_waits(timeline, len(layers))
        or ("slow rank", min(ranks, key=timeline.idle))
    )


@BANK.wrong("ops-for-messages")
def a_third_above_the_others(timeline, layers):
    """By whole forwards, which a rank with four layers takes longer for than those with three."""
    times = [median(s.end - s.start for s in timeline.row(k) if s.op.kind == "F") for k in range(len(layers))]
    slowest = times.index(max(times))
    if found := cut_or_link(timeline, layers):
        return found
    if times[slowest] > 1.25 * median(times):
        return "slow rank", slowest
    return who_waits(timeline, len(layers)) or ("slow rank", slowest)


@BANK.wrong("messages-for-ops")
def half_as_many_layers_more(timeline, layers):
    found, number = step_by_step(timeline, layers)
    most = max(layers)
    if found == "uneven cut" and 2 * most < 3 * sorted(layers)[-2]:
        return "no overlap", 0
    return found, number


@BANK.wrong("ops-for-messages")
def slow_link_beside_the_median_of_both(timeline, layers):
    """Medians everywhere; but of two links, one of them slow, the median is half of the slow one."""
    ranks = range(len(layers))
    if max(layers) >= sorted(layers)[-2] + 2:
        return "uneven cut", layers.index(max(layers))
    if timeline.messages:
        links = [
            median(m.there - m.start for m in timeline.messages if {m.source, m.target} == {k, k + 1})
            for k in ranks[:-1]
        ]
        if max(links) > 3 * median(links):
            return "slow link", links.index(max(links))
        for k in ranks:
            sent, row = [m for m in timeline.messages if m.source == k], timeline.row(k)
            if not any(s.start < m.there and s.end > m.start for m in sent for s in row):
                return "no overlap", k
    usual = [median(s.end - s.start for s in timeline.row(k) if s.op.kind == "F") / layers[k] for k in ranks]
    return "slow rank", usual.index(max(usual))
