"""Exercise 13: the sum over a ring of processes, judged by what is in each piece and by the messages it took.

Gradients are random, so one can work out which devices' pieces are in a sum, and how often: that tells what a round did
wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu.judge.case import Exam, Sign
from gpipe_edu.judge.findings import Success
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.guest.processes import Failure
from gpipe_edu.judge.processes import (
    FEW,
    Told,
    about_collectives,
    about_messages,
    about_pieces,
    about_ring_failure,
    is_all,
    is_mixed,
    judge_failure,
    shares_in,
    shares_in_words,
)
from gpipe_edu.judge.tasks.ex13_ring.perform import RingAnswer, RingQuestion

_ROUNDED: Final = 1e-9
"""Above this, a sum of few numbers near 1 is not in float64."""


def examine(exam: Exam, rng: Random) -> Success:
    """Two devices, three, four, one; pieces of unequal length; then two gradients, one after the other."""
    _judge(exam, rng, [6, 6])
    _judge(exam, rng, [12, 12, 12])
    _judge(exam, rng, [9, 9, 9, 9])
    with exam.blame_on("unequal-pieces"):
        _judge(exam, rng, rng.sample(range(7, 12), 3))
    with exam.blame_on("one-device"):
        _judge(exam, rng, [7])
    with exam.blame_on("second-call"):
        _judge(exam, rng, [7, 6], calls=2)
    lengths = [len(piece) for piece in np.array_split(np.arange(1002), 4)]
    numbers = _judge(exam, rng, lengths)
    return exam.success(numbers=numbers, P=sum(lengths))


def _judge(exam: Exam, rng: Random, lengths: Sequence[int], calls: int = 1) -> int:
    """Judge a ring with a device for each piece; returns how many numbers device 0 has sent."""
    numbers, D = np.random.default_rng(rng.randrange(2**32)), len(lengths)
    gradients = [
        [[numbers.normal(size=length) for length in lengths] for _ in range(calls)] for _ in range(D)
    ]  # of device, call, piece
    call = f"D = {D}, pieces of {', '.join(map(str, lengths))} numbers"
    case = exam.case(f"{call}, the second of two calls" if calls > 1 else call)
    told = Told(D)
    answer = case.ask_for(RingAnswer, RingQuestion(gradients), None, told)
    if answer.failure:
        failure = Failure(*answer.failure)
        judge_failure(case, failure, lambda trouble: about_ring_failure(failure, trouble, answer.diaries, lengths))
    case.judge(about_collectives(answer.diaries))
    for k, sums in enumerate(answer.sums):
        for found in sums:
            case.judge(about_pieces(found, k, lengths))
    for number in range(calls):
        of_call = [sums[number] for sums in answer.sums], [own[number] for own in gradients]
        case.judge(_about_the_sums(*of_call, [told.sent(k, number) for k in range(D)]))
    case.judge(about_messages(answer.diaries, told, lengths))
    if min(lengths) > FEW:
        case.judge(_about_what_was_known(told, gradients, answer.sums))
    return sum(told.sizes[0][-1])


def _about_what_was_known(told: Told, gradients: list[list[list[Array]]], sums: Sequence[Any]) -> Iterator[Sign]:
    """Each device sent, and gave back, only what its own pieces and what had come can give."""
    for k, own in enumerate(gradients):
        for call, pieces in enumerate(own):
            known = told.known(k, call, pieces)
            right = known.sends_only_what_it_has() and all(map(known.has, sums[k][call]))
            yield Sign("no-message", not right, came=f"numbers on device {k} that no message had brought")


def _about_the_sums(
    sums: Sequence[Any], gradients: Sequence[list[Array]], messages: Sequence[list[Array]]
) -> Iterator[Sign]:
    """sums, gradients: of each device, D pieces. messages: of each device, what it has sent."""
    D, devices = len(sums), range(len(sums))
    of_piece = [[own[p] for own in gradients] for p in devices]
    places = [(k, p) for k in devices for p in devices]
    right = [np.sum(pieces, axis=0) for pieces in of_piece]
    off = {(k, p): float(np.max(np.abs(sums[k][p] - right[p]))) for k, p in places}
    if all(one < _ROUNDED for one in off.values()):  # else some may be no number
        return
    shares = {(k, p): shares_in(sums[k][p], of_piece[p]) for k, p in places}
    k, p = first = next(place for place in places if not off[place] < _ROUNDED)
    expected, came = f"device {k}, piece {p}: the sum over all devices", shares_in_words(shares[first])
    for q, other in enumerate(right):
        if q != p and other.shape == right[p].shape and np.allclose(sums[k][p], other, rtol=0, atol=1e-6):
            came = f"the sum of piece {q}"

    def sign(slip: str, shows: bool = True) -> Sign:
        return Sign(slip, shows, expected=expected, came=came)

    if all(one < 1e-5 for one in off.values()):
        yield sign("rounded")
        return
    found = [one for one in shares.values() if one is not None]
    known, full = len(found) == len(places), {place: is_all(one, 1) for place, one in shares.items()}
    yield sign("averaged", all(is_all(shares[place], 1 / D) for place in places))
    yield sign("nothing-sent", not any(messages))
    yield sign("own-only", _is_own(shares))
    for start, half in ((0, "first"), (D - 1, "second")):
        numbers = [_number_of(sent[start], of_piece) if len(sent) > start else None for sent in messages]
        yield sign("same-piece", len(set(numbers)) == 1 and numbers[0] is not None)._replace(words={"half": half})
        whole = [sent if len(sent) == 2 * (D - 1) else [] for sent in messages]
        rounds = [[_number_of(one, of_piece) for one in sent[start : start + D - 1]] for sent in whole]
        yield sign("wrong-way", all(_counts_up(numbers, D) for numbers in rounds))._replace(words={"half": half})
    others = [(k, p, q) for k, p in places for q in devices if p != q and right[p].shape == right[q].shape]
    yield sign("other-place", any(np.allclose(sums[k][p], right[q], rtol=0, atol=1e-6) for k, p, q in others))
    yield sign("added-twice", max((float(np.max(one)) for one in found), default=0) > 1.5)
    yield sign("half-of-it", all(sum(full[k, p] for p in devices) == 1 for k in devices))
    yield sign("not-added", known and all(np.isclose(np.sum(one), 1, atol=1e-6) for one in found))
    yield sign("some-missing", known and all(np.min(np.abs(one)) < 1e-6 for one in found if not is_all(one, 1)))
    every = [own[p] for own in gradients for p in devices]
    yield sign("mixed-pieces", any(is_mixed(sums[k][p], every) for k, p in places if shares[k, p] is None))
    yield sign("other-sum")


def _number_of(message: Array, of_piece: Sequence[Sequence[Array]]) -> int | None:
    """The number of a piece that was sent, a device's own or a sum of several devices'."""
    return next((p for p, pieces in enumerate(of_piece) if shares_in(message, pieces) is not None), None)


def _counts_up(numbers: Sequence[int | None], D: int) -> bool:
    """Whether a device sends, in each round of one half, the piece after that of the round before."""
    known = [number for number in numbers if number is not None]
    return D > 2 and len(known) == D - 1 and all((b - a) % D == 1 for a, b in pairwise(known))


def _is_own(shares: dict[tuple[int, int], Array | None]) -> bool:
    """Whether each device has only its own pieces."""
    every = [(k, one) for (k, _), one in shares.items() if one is not None]
    return len(every) == len(shares) and all(np.allclose(one, np.eye(len(one))[k], atol=1e-6) for k, one in every)
