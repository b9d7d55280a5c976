"""Exercise 13, second part: an optimizer step with its state divided, judged by what Adam is given and by the weights.

Adam notes its arguments, and gradients are random: so they show which piece a device has updated, and whose gradients
are in what it used. The truth is one device that has all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu.judge.case import Case, Exam, Sign, Signs
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
    judge_failure,
    shares_in,
    shares_in_words,
)
from gpipe_edu.judge.tasks.ex13_zero1.perform import AdamCall, DeviceAnswer, StepAnswer, StepQuestion, adam_of

_ROUNDED: Final = 1e-9
"""Above this, weights near 1 were not computed in float64."""


class _Step(NamedTuple):
    """One step, and what is right: weights before and after it, and the gradients of each device; all in D pieces."""

    number: int
    before: list[Array]
    after: list[Array]
    gradients: list[list[Array]]

    @property
    def D(self) -> int:
        """How many devices there are."""
        return len(self.gradients)


def examine(exam: Exam, rng: Random) -> Success:
    """One step on two devices, three, four; pieces of unequal length; one device; then several steps."""
    _judge(exam, rng, [6, 6])
    _judge(exam, rng, [8, 8, 8])
    _judge(exam, rng, [9, 9, 9, 9])
    with exam.blame_on("unequal-pieces"):
        _judge(exam, rng, rng.sample(range(7, 12), 3))
    with exam.blame_on("one-device"):
        _judge(exam, rng, [7])
    with exam.blame_on("second-step", spare=["fresh-state", "other-state", "state-touched", "more-in-state"]):
        _judge(exam, rng, [7, 6], steps=3)
    P = _judge(exam, rng, [250, 251, 250, 251], steps=4)
    return exam.success(P=P, own=250, state=2 * 250, whole=2 * P)


def _judge(exam: Exam, rng: Random, lengths: Sequence[int], steps: int = 1) -> int:
    """Judge some steps with a device for each piece; returns how many weights there are."""
    numbers, D = np.random.default_rng(rng.randrange(2**32)), len(lengths)
    weights = [numbers.normal(size=length) for length in lengths]
    gradients = [[[numbers.normal(size=length) for length in lengths] for _ in range(steps)] for _ in range(D)]
    call = f"D = {D}, pieces of {', '.join(map(str, lengths))} numbers"
    case = exam.case(f"{call}, {steps} steps" if steps > 1 else call)
    asked = StepQuestion(weights, gradients, rate=round(rng.uniform(0.05, 0.2), 3))
    told = Told(D)
    answer = case.ask_for(StepAnswer, asked, None, told)
    if answer.failure:
        failure = Failure(*answer.failure)
        judge_failure(case, failure, lambda trouble: about_ring_failure(failure, trouble, answer.diaries, lengths))
    case.judge(about_collectives(answer.diaries))
    devices = [DeviceAnswer(*device) for device in answer.devices]
    for step in _steps(asked):
        _judge_step(case, devices, step)
    case.judge(about_messages(answer.diaries, told, lengths))
    if min(lengths) > FEW:
        for step in _steps(asked):
            case.judge(_about_what_was_known(told, step))
            case.judge(_about_what_came(told, step))
    return sum(lengths)


def _about_what_was_known(told: Told, step: _Step) -> Signs:
    """Each device sent, and got, only what its own pieces and what had come can give."""
    for k, own in enumerate(step.gradients):
        mean = np.mean([pieces[k] for pieces in step.gradients], axis=0)
        known = told.known(k, step.number, [*own, *step.before])
        right = known.sends_only_what_it_has([(mean, step.after[k])]) and all(map(known.has, step.after))
        yield Sign("no-message", not right, came=f"numbers on device {k} that no message had brought")


def _about_what_came(told: Told, step: _Step) -> Signs:
    """Each device got the others' new weights themselves."""
    for k in range(step.D):
        came = [m.array for m in told.messages if m[:3] == (k, step.number, False)]
        others = [new for p, new in enumerate(step.after) if p != k]
        got = sum(bool(_pieces_like(new, came)) for new in others)
        sent = f"{got} of {len(others)} pieces of new weights in messages to device {k}"
        yield Sign("no-weights", got < len(others), expected=f"{len(others)} of them", came=sent)


def _steps(asked: StepQuestion) -> Iterator[_Step]:
    """The steps on one device."""
    states: list[dict[str, Any]] = [{} for _ in asked.weights]
    before = asked.weights
    for number in range(len(asked.gradients[0])):
        gradients = [own[number] for own in asked.gradients]
        means = [np.mean(pieces, axis=0) for pieces in zip(*gradients, strict=True)]
        after = [adam_of(*piece, asked.rate) for piece in zip(before, means, states, strict=True)]
        yield _Step(number, before, after, gradients)
        before = after


def _judge_step(case: Case, devices: Sequence[DeviceAnswer], step: _Step) -> None:
    for rank, device in enumerate(devices):
        lengths = [len(piece) for piece in step.before]
        case.judge(about_pieces(device.weights[step.number], rank, lengths))
    for rank, device in enumerate(devices):
        case.judge(_about_adam(device, rank, step))
    for rank, device in enumerate(devices):
        case.judge(_about_the_weights(device.weights[step.number], rank, step))


def _about_adam(device: DeviceAnswer, rank: int, step: _Step) -> Signs:
    """What the optimizer was given."""
    calls = [call for call in (AdamCall(*one) for one in device.calls) if call.step == step.number]
    own = len(step.before[rank])
    expected, came = f"device {rank}: Adam on the {own} weights of piece {rank}", f"{len(calls)} calls"
    yield Sign("no-adam", not calls, expected=expected, came=came)
    taken = [p for call in calls for p in _pieces_like(call.weight, step.before)]
    numbers = sum(np.size(call.weight) for call in calls)
    came = f"calls on {numbers} weights in all"
    every = len(set(taken)) > 1 or (not taken and numbers > own)
    yield Sign("every-piece", every, expected=expected, came=came)
    yield Sign("other-piece", any(p != rank for p in taken), expected=expected, came=f"piece {taken and taken[0]}")
    yield Sign("adam-twice", len(calls) > 1, expected=expected, came=came)
    call = calls[0]
    exchanged = not taken and rank in _pieces_like(call.gradient, step.before)
    yield Sign("adam-exchanged", exchanged, expected="adam(weight, gradient, state)", came="the gradient in front")
    yield Sign("other-weights", not taken, expected=expected, came="other weights")
    if step.number:  # what is kept, and where, shows only after the first step
        came = f"a state that has seen {call.seen} calls"
        yield Sign("fresh-state", call.seen < step.number, f"a state that has seen {step.number}", came)
        yield Sign("other-state", not call.is_given, expected="`state` itself", came="another dict")
    left = "what `adam` left in `state`"
    yield Sign("state-touched", call.is_given and not call.as_left, expected=left, came="something else in it")
    yield Sign("more-in-state", call.is_given and not call.alone, expected=left, came="more than that")
    yield from _about_the_gradient(call.gradient, rank, step)


def _pieces_like(weight: Any, pieces: Sequence[Array]) -> list[int]:
    return [p for p, one in enumerate(pieces) if np.shape(weight) == one.shape and np.allclose(weight, one, atol=1e-6)]


def _about_the_gradient(gradient: Any, rank: int, step: _Step) -> Signs:
    D, of_piece = step.D, [own[rank] for own in step.gradients]
    shares = shares_in(gradient, of_piece)
    expected, came = f"device {rank}: the mean of {D} devices' piece {rank}", shares_in_words(shares)
    if is_all(shares, 1 / D):
        return

    def sign(slip: str, shows: bool = True) -> Sign:
        return Sign(slip, shows, expected=expected, came=came)

    yield sign("not-averaged", is_all(shares, 1))
    yield sign("divided-twice", is_all(shares, 1 / D**2))
    yield sign("other-divisor", shares is not None and shares[0] > 1e-6 and is_all(shares, shares[0]))
    if shares is not None:
        others = np.delete(shares, rank)
        yield sign("own-gradient", bool(np.allclose(others, 0, atol=1e-6)))
        yield sign("some-missing", bool(np.min(np.abs(shares)) < 1e-6))
        yield sign("uneven", bool(np.ptp(shares) > 1e-6))
    means = [np.mean([own[p] for own in step.gradients], axis=0) for p in range(D)]
    about = [c * one for one in means for c in (1, D) if np.shape(one) == np.shape(gradient)]
    yield sign("other-gradient-piece", any(np.allclose(gradient, one, atol=1e-6) for one in about))
    yield sign("other-gradient")


def _about_the_weights(found: Sequence[Any], rank: int, step: _Step) -> Signs:
    off = [float(np.max(np.abs(a - b))) for a, b in zip(found, step.after, strict=True)]
    if all(one < _ROUNDED for one in off):  # else some may be no number
        return
    p = next(p for p, one in enumerate(off) if not one < _ROUNDED)
    old = [bool(np.allclose(a, b, rtol=0, atol=1e-9)) for a, b in zip(found, step.before, strict=True)]
    new = [one < 1e-5 for one in off]
    came = "the weights from before the step" if old[p] else f"off by {off[p]:.2g}"
    expected = f"device {rank}, piece {p}: the weights of one device"

    def sign(slip: str, shows: bool = True) -> Sign:
        return Sign(slip, shows, expected=expected, came=came)

    if all(new):
        yield sign("rounded")
        return
    yield sign("own-piece-old", old[rank])
    only = sum(new) == 1 and new[rank]
    yield sign("no-gather", only and all(one for q, one in enumerate(old) if q != rank))
    yield sign("some-old", all(a or b for a, b in zip(old, new, strict=True)))
    gradients = [np.sum([own[q] for own in step.gradients], axis=0) for q in range(step.D)]
    about = [c * one for one in gradients for c in (1, 1 / step.D) if np.shape(one) == np.shape(found[p])]
    yield sign("gathers-gradients", any(np.allclose(found[p], one, atol=1e-6) for one in about))
    places = [q for q in _pieces_like(found[p], step.after) if q != p]
    yield sign("other-place", bool(places))
    added = [a + b for a, b in zip(step.before, step.after, strict=True)]
    yield sign("weights-added", bool(np.allclose(found[p], added[p], rtol=0, atol=1e-6)))
    averages = [(a + b) / 2 for a, b in zip(step.before, step.after, strict=True)]
    yield sign("weights-averaged", bool(np.allclose(found[p], averages[p], rtol=0, atol=1e-6)))
    yield sign("wrong-weights")
