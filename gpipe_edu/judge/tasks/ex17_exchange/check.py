"""Are these the bytes on each link? What was sent or dropped instead is found by counting it that way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from gpipe_edu.base.words import join_words
from gpipe_edu.judge.bill import Beliefs, ways
from gpipe_edu.judge.case import Case, Exam, Sign
from gpipe_edu.judge.findings import Success
from gpipe_edu.judge.guest.forms import describe, is_whole
from gpipe_edu.process.plain import a_name_of

Links: TypeAlias = dict[tuple[int, int], float]
"""Bytes by link, which is a pair of devices: from, to."""


class Routing(NamedTuple):
    """The routing of one layer, as `exchange_bytes` gets it."""

    chosen: list[list[int]]
    home: list[int]
    device_of: list[int]
    capacity: int
    token_bytes: int

    @property
    def devices(self) -> int:
        """How many there are: each is the home of some token, or holds an expert."""
        return max(self.home + self.device_of) + 1


def exchange(routing: Routing, **belief: Any) -> Links:
    """The bytes on each link in the dispatch. belief: what somebody believes instead, see `_RULES`."""
    its = _RULES | belief
    places, found = Counter[Any](), Counter[tuple[int, int]]()
    for chosen, home in its["order"](routing):
        experts, reached = its["copies"](chosen), set[int]()
        queues = [its["queue"](home, expert, its["place"](routing, expert)) for expert in experts]
        full = [places[queue] >= routing.capacity for queue in queues]
        if its["whole"] == "all" and any(full):
            continue
        if its["whole"] == "rest" and any(full):
            experts, queues = experts[: full.index(True)], queues[: full.index(True)]
        for expert, queue in zip(experts, queues, strict=True):
            to = its["place"](routing, expert)
            if to != home or its["own"] != "no place":
                if places[queue] >= its["room"](routing):
                    continue
                places[queue] += 1
            if (to == home and its["own"] != "sent") or (its["once"] and to in reached):
                continue
            reached.add(to)
            for link in its["links"](home, to, expert):
                found[link] += its["size"](routing)
    return dict(found)


_RULES: Final[dict[str, Any]] = {
    "copies": lambda experts: experts,
    "order": lambda routing: zip(routing.chosen, routing.home, strict=True),
    "place": lambda routing, expert: routing.device_of[expert],
    "queue": lambda home, expert, to: expert,
    "room": lambda routing: routing.capacity,
    "whole": "",
    "own": "",
    "once": False,
    "links": lambda home, to, expert: [(home, to)],
    "size": lambda routing: routing.token_bytes,
}
"""Which copies of a token are sent; in which order tokens come, with their experts and homes; where an expert is; what
has a capacity, and how large it is; whether a full expert costs a token "all" copies, or the "rest" of them; whether
copies for the own device are "sent", or take "no place" in an expert; whether a device gets a token once; on which
links a copy goes; its bytes."""

BELIEFS: Final[Beliefs] = {
    "one-copy": ({"copies": lambda experts: experts[:1]},),
    "own-device": ({"own": "sent"},),
    "no-capacity": ({"room": lambda routing: len(routing.home)},),
    "once-per-device": ({"once": True},),
    "of-each-device": ({"queue": lambda home, expert, to: (home, expert)},),
    "of-the-device": ({"queue": lambda home, expert, to: to}, {"queue": lambda home, expert, to: (home, to)}),
    "own-take-no-place": ({"own": "no place"},),
    "latest-first": ({"order": lambda routing: zip(routing.chosen[::-1], routing.home[::-1], strict=True)},),
    "first-choices": ({"order": lambda routing: _choice_by_choice(routing)},),
    "whole-token": ({"whole": "all"}, {"whole": "rest"}),
    "off-by-one": ({"room": lambda routing: routing.capacity + 1}, {"room": lambda routing: routing.capacity - 1}),
    "from-behind": ({"links": lambda home, to, expert: [(to, home)]},),
    "no-direction": ({"links": lambda home, to, expert: [(min(home, to), max(home, to))]},),
    "both-ways": (
        {"links": lambda home, to, expert: [(home, to), (to, home)]},
        {"links": lambda home, to, expert: [(home, to), (home, to)]},
    ),
    "experts-as-devices": (
        {"links": lambda home, to, expert: [(home, expert)]},
        {"place": lambda routing, expert: expert},
    ),
    "experts-in-order": (
        {"place": lambda routing, expert: expert * routing.devices // len(routing.device_of)},
        {"place": lambda routing, expert: expert % routing.devices},
    ),
    "copies-alone": ({"size": lambda routing: 1},),
    "shared-out": ({"size": lambda routing: routing.token_bytes / len(routing.chosen[0])},),
}
"""A slip -> the rules of those who believe it."""

_WITHOUT_ROUTING: Final[dict[str, Callable[[Routing], float]]] = {
    "evenly": lambda routing: len(routing.chosen[0]) * routing.token_bytes / routing.devices,
    "everyone": lambda routing: routing.token_bytes,
}
"""A slip -> the bytes that each token sends to every other device, whatever it chose."""

_SMALL: Final = (
    Routing([[0], [1], [1], [0]], [0, 0, 1, 1], [0, 1], 4, 10),
    Routing([[0, 1], [1, 2], [2, 3], [0, 3]], [0, 0, 1, 1], [0, 0, 1, 1], 4, 10),
    Routing([[0], [0], [0], [1]], [0, 1, 1, 1], [0, 1], 2, 10),
    Routing([[0], [0], [0], [0]], [1, 1, 1, 0], [0, 1], 2, 10),
    Routing([[0, 1], [0, 1], [0, 1]], [0, 0, 0], [1, 1], 2, 10),
    Routing([[0, 1], [0, 1], [0, 2]], [0, 0, 0], [0, 1, 1], 2, 10),  # the full expert comes before one with room
)


def examine(exam: Exam, rng: Random) -> Success:
    """Small routings, then random ones. All are asked first: one alone proves no slip."""
    asked = [_ask(exam, routing) for routing in (*_SMALL, *(_draw(rng) for _ in range(12)))]
    for answer in asked:
        if not _is(answer.links, exchange(answer.routing)):
            answer.case.difference = _difference(answer.links, exchange(answer.routing))
            answer.case.judge(_reasons(asked))
    most = max(asked, key=lambda answer: len(answer.routing.home))
    copies = sum(map(len, most.routing.chosen))
    sent = sum(exchange(most.routing).values()) / most.routing.token_bytes
    return exam.success(copies=copies, tokens=len(most.routing.home), sent=f"{sent:g}")


def _draw(rng: Random) -> Routing:
    """Two to four devices, with experts in no order; capacities from half the mean to twice the mean."""
    devices, each, tokens = rng.randint(2, 4), rng.randint(1, 3), rng.randint(2, 6)
    k = rng.randint(1, min(3, devices * each - 1))
    device_of, home = list(range(devices)) * each, list(range(devices)) * tokens
    rng.shuffle(device_of)
    rng.shuffle(home)
    liked = [rng.random() ** 2 for _ in device_of]
    chosen = [sorted(range(len(liked)), key=lambda e: rng.random() * liked[e])[-k:] for _ in home]
    mean = k * len(home) / len(device_of)
    return Routing(
        chosen, home, device_of, max(2, round(mean * rng.choice((0.5, 1, 1.25, 2)))), 2 * rng.randint(8, 512)
    )


class _Asked(NamedTuple):
    case: Case
    routing: Routing
    links: Links


def _ask(exam: Exam, routing: Routing) -> _Asked:
    truth = exchange(routing)
    case = exam.case(f"exchange_bytes({', '.join(map(str, routing))})", _in_words(truth))
    found, *after = case.ask(**routing._asdict())
    case.came = describe(found, 200)
    case.judge(_form(found))
    entries = found[0]
    case.came = describe(dict(entries), 200)
    case.judge(_keys_and_numbers(entries))
    links = {(int(key[0]), int(key[1])): float(value) for key, value in entries}
    case.came = _in_words({link: links[link] for link in links if links[link]})
    case.judge([Sign("input-changed", after != list(routing[:3]), came=describe(after, 200))])
    return _Asked(case, routing, links)


def _form(found: Any) -> Iterator[Sign]:
    yield Sign("no-return", found is None, came="None")
    a_dict = isinstance(found, list) and len(found) == 1 and isinstance(found[0], list)
    yield Sign("not-a-dict", not a_dict, words={"kind": a_name_of(found)})


def _keys_and_numbers(entries: Sequence[tuple[Any, Any]]) -> Iterator[Sign]:
    for key, value in entries:
        pair = isinstance(key, tuple) and len(key) == 2 and all(map(is_whole, key))
        yield Sign("not-a-link", not pair, difference=f"{describe(key)} is no pair of devices")
        number = isinstance(value, int | float | np.number)
        yield Sign("not-a-number", not number, difference=f"for {describe(key)} there is {describe(value)}")


def _reasons(asked: Sequence[_Asked]) -> Iterator[Sign]:
    for slip, size in _WITHOUT_ROUTING.items():
        yield Sign(slip, all(_is(answer.links, _alike(answer.routing, size(answer.routing))) for answer in asked))
    for slip, way in ways(BELIEFS):
        yield Sign(slip, all(_is(answer.links, exchange(answer.routing, **way)) for answer in asked))
    yield Sign("off")


def _choice_by_choice(routing: Routing) -> Iterator[tuple[list[int], int]]:
    """All tokens with their first choice, then all with their second, and so on."""
    for choice in range(len(routing.chosen[0])):
        yield from (([experts[choice]], home) for experts, home in zip(routing.chosen, routing.home, strict=True))


def _alike(routing: Routing, size: float) -> Links:
    """What links carry if each token sends so many bytes to every other device."""
    devices, found = range(routing.devices), Counter[tuple[int, int]]()
    for home in routing.home:
        found.update({(home, to): size for to in devices if to != home})
    return dict(found)


def _is(links: Links, truth: Links) -> bool:
    return all(abs(links.get(link, 0) - truth.get(link, 0)) < 1e-6 for link in links.keys() | truth.keys())


def _difference(links: Links, truth: Links) -> str:
    """The links that are wrong, at most three."""
    wrong = [link for link in sorted(links.keys() | truth.keys()) if links.get(link, 0) != truth.get(link, 0)]
    return join_words((f"{link}: {links.get(link, 0):g} and not {truth.get(link, 0):g}" for link in wrong), 3, "; ")


def _in_words(links: Links) -> str:
    return ", ".join(f"{link}: {links[link]:g}" for link in sorted(links)) or "nothing on any link"
