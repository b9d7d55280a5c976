"""Exercise 17, first part: copies that are forgotten, counted at home, or sent to experts that are full."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tests.solutions.bank import Bank

BANK = Bank("ex17/exchange")


@BANK.right
def by_the_rules(chosen, home, device_of, capacity, token_bytes):
    taken = [0] * len(device_of)
    links = {}
    for token in range(len(chosen)):
        for e in chosen[token]:
            if taken[e] < capacity:
                taken[e] += 1
                link = (home[token], device_of[e])
                if link[0] != link[1]:
                    links[link] = links.get(link, 0) + token_bytes
    return links


@BANK.right
def exact_numbers(chosen, home, device_of, capacity, token_bytes):
    return by_the_rules(chosen, home, device_of, capacity, Fraction(token_bytes))


@BANK.right
def expert_by_expert(chosen, home, device_of, capacity, token_bytes):
    links = defaultdict(int)
    for e, device in enumerate(device_of):
        senders = [where for experts, where in zip(chosen, home, strict=True) if e in experts]
        for sender in senders[:capacity]:
            if sender != device:
                links[sender, device] += token_bytes
    return links


@BANK.right
def all_pairs_with_zeros(chosen, home, device_of, capacity, token_bytes):
    D = max(home + device_of) + 1
    matrix, taken = np.zeros((D, D), int), Counter()
    for experts, sender in zip(chosen, home, strict=True):
        for e in experts:
            taken[e] += 1
            if taken[e] <= capacity:
                matrix[sender, device_of[e]] += token_bytes
    return {(a, b): matrix[a, b] for a in range(D) for b in range(D) if a != b}


class Answer(Enum):
    STAYS = "stays"
    SENT = "sent"
    DROPPED = "dropped"


class Copy(NamedTuple):
    sender: int
    expert: int


@dataclass
class Layer:
    device_of: list
    room: list

    def ask(self, copy):
        self.room[copy.expert] -= 1
        if self.room[copy.expert] < 0:
            return Answer.DROPPED
        return Answer.STAYS if self.device_of[copy.expert] == copy.sender else Answer.SENT


@BANK.right
def with_zeros_at_home(chosen, home, device_of, capacity, token_bytes):
    layer, links = Layer(device_of, [capacity] * len(device_of)), Counter()
    for experts, sender in zip(chosen, home, strict=True):
        for copy in (Copy(sender, e) for e in experts):
            links[sender, device_of[copy.expert]] += token_bytes * (layer.ask(copy) is Answer.SENT)
    return links


ROOM, TAKES = "if taken[e] < capacity:", "                taken[e] += 1\n"
LINK, AWAY = "(home[token], device_of[e])", "if link[0] != link[1]:"
TOKENS, ADD = "in range(len(chosen))", "+ token_bytes"


def change(slip, name, *texts):
    BANK.changed(slip, name, *texts, of=by_the_rules)


change("one-copy", "the_best_expert", "in chosen[token]:", "in chosen[token][:1]:")
change("own-device", "all_links", AWAY, "if True:")
change("no-capacity", "never_full", ROOM, "if True:")
change("latest-first", "last_come_first_served", TOKENS, "in reversed(range(len(chosen)))")
change("off-by-one", "one_more", ROOM, "if taken[e] <= capacity:")
change("off-by-one", "one_less", ROOM, "if taken[e] < capacity - 1:")
change("no-direction", "sorted_pairs", LINK, "tuple(sorted((home[token], device_of[e])))")
change("from-behind", "to_from", LINK, "(device_of[e], home[token])")
change("experts-as-devices", "no_device_of", LINK, "(home[token], e)")
change(
    "experts-as-devices",
    "expert_on_a_link",
    "links[link] =",
    "links[home[token], e] =",
    "links.get(link",
    "links.get((home[token], e)",
)
change("experts-in-order", "in_order", LINK, "(home[token], e * (max(device_of) + 1) // len(device_of))")
change("experts-in-order", "in_turn", LINK, "(home[token], e % (max(device_of) + 1))")
change("copies-alone", "copies", ADD, "+ 1")
change("shared-out", "a_share_for_each", ADD, "+ token_bytes / len(chosen[token])")
change(
    "own-take-no-place", "only_the_sent_ones_count", TAKES, "                taken[e] += home[token] != device_of[e]\n"
)
change(
    "of-the-device",
    "a_full_device",
    ROOM,
    "if taken[device_of[e]] < capacity:",
    TAKES,
    "                taken[device_of[e]] += 1\n",
)
change(
    "input-changed",
    "takes_them_away",
    TAKES,
    TAKES + "                device_of[e] = device_of[e] + 0\n                home.append(0)\n",
)
change("not-a-number", "with_units", "return links", 'return {link: f"{size} B" for link, size in links.items()}')
change("not-a-link", "by_words", "return links", 'return {f"{a} to {b}": size for (a, b), size in links.items()}')
change("not-a-link", "by_receiver", "return links", "return {b: size for (a, b), size in links.items()}")
change("not-a-dict", "total", "return links", "return sum(links.values())")
change("not-a-dict", "a_list_of_links", "return links", "return [(a, b, size) for (a, b), size in links.items()]")
change("no-return", "prints_it", "return links", "print(links)")
change("own-device", "never_full_and_at_home", ROOM, "if True:", AWAY, "if True:")


@BANK.wrong("no-capacity")
def capacity_is_a_warning(chosen, home, device_of, capacity, token_bytes):
    links = Counter()
    for experts, sender in zip(chosen, home, strict=True):
        for device in (device_of[e] for e in experts):
            if device != sender:
                links[(sender, device)] += token_bytes
    return dict(links)


@BANK.wrong("once-per-device")
def one_copy_for_a_device(chosen, home, device_of, capacity, token_bytes):
    taken, links = Counter(), Counter()
    for experts, sender in zip(chosen, home, strict=True):
        targets = set()
        for e in experts:
            if taken[e] < capacity:
                taken[e] += 1
                targets.add(device_of[e])
        for to in targets - {sender}:
            links[sender, to] += token_bytes
    return links


@BANK.wrong("of-each-device")
def buffers_of_each_sender(chosen, home, device_of, capacity, token_bytes):
    taken, links = Counter(), Counter()
    for experts, sender in zip(chosen, home, strict=True):
        for e in experts:
            taken[sender, e] += 1
            if taken[sender, e] <= capacity and device_of[e] != sender:
                links[sender, device_of[e]] += token_bytes
    return links


@BANK.wrong("of-the-device")
def capacity_of_a_link(chosen, home, device_of, capacity, token_bytes):
    links = Counter()
    for experts, sender in zip(chosen, home, strict=True):
        for e in experts:
            links[sender, device_of[e]] += 1
    return {(a, b): min(count, capacity) * token_bytes for (a, b), count in links.items() if a != b}


@BANK.wrong("whole-token")
def all_or_nothing(chosen, home, device_of, capacity, token_bytes):
    taken, links = Counter(), Counter()
    for experts, sender in zip(chosen, home, strict=True):
        if all(taken[e] < capacity for e in experts):
            taken.update(experts)
            for e in experts:
                if device_of[e] != sender:
                    links[sender, device_of[e]] += token_bytes
    return links


@BANK.wrong("whole-token")
def leaves_the_loop_when_one_is_full(chosen, home, device_of, capacity, token_bytes):
    taken, links = Counter(), Counter()
    for experts, sender in zip(chosen, home, strict=True):
        for e in experts:
            if taken[e] == capacity:
                break
            taken[e] += 1
            if device_of[e] != sender:
                links[sender, device_of[e]] += token_bytes
    return links


@BANK.wrong("first-choices")
def first_choices_first(chosen, home, device_of, capacity, token_bytes):
    taken, links = Counter(), Counter()
    for choice in range(len(chosen[0])):
        for experts, sender in zip(chosen, home, strict=True):
            e = experts[choice]
            taken[e] += 1
            if taken[e] <= capacity and device_of[e] != sender:
                links[sender, device_of[e]] += token_bytes
    return links


@BANK.wrong("both-ways")
def there_and_back(chosen, home, device_of, capacity, token_bytes):
    there = by_the_rules(chosen, home, device_of, capacity, token_bytes)
    return {(a, b): there.get((a, b), 0) + there.get((b, a), 0) for pair in there for a, b in (pair, pair[::-1])}


@BANK.wrong("both-ways")
def twice_as_much(chosen, home, device_of, capacity, token_bytes):
    return {link: 2 * size for link, size in by_the_rules(chosen, home, device_of, capacity, token_bytes).items()}


@BANK.wrong("evenly")
def an_all_to_all_is_even(chosen, home, device_of, capacity, token_bytes):
    D = max(home + device_of) + 1
    tokens = Counter(home)
    each = len(chosen[0]) * token_bytes / D
    return {(a, b): tokens[a] * each for a in range(D) for b in range(D) if a != b}


@BANK.wrong("everyone")
def all_tokens_to_all(chosen, home, device_of, capacity, token_bytes):
    D = max(home + device_of) + 1
    return {(a, b): home.count(a) * token_bytes for a in range(D) for b in range(D) if a != b}


@BANK.wrong("off")
def with_headers(chosen, home, device_of, capacity, token_bytes):
    return by_the_rules(chosen, home, device_of, capacity, token_bytes + 16)


_links = {}


@BANK.wrong("stays")
def adds_up_for_ever(chosen, home, device_of, capacity, token_bytes):
    for link, size in by_the_rules(chosen, home, device_of, capacity, token_bytes).items():
        _links[link] = _links.get(link, 0) + size
    return _links
