"""How `zero1_step` is called: in D processes at once, for some steps, with an optimizer that notes what it is given."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.guest.processes import Diaries, run_judged
from gpipe_edu.judge.guest.told_links import LIMIT
from gpipe_edu.process.packing import Forwarded

unpack = Forwarded


class StepQuestion(NamedTuple):
    """weights: D pieces, the same on all devices. gradients: of each device, for each step, D pieces. rate: Adam's."""

    weights: list[Array]
    gradients: list[list[list[Array]]]
    rate: float


class StepAnswer(NamedTuple):
    """devices: a `DeviceAnswer` of each. diaries: what each has noted. failure: why there are none."""

    devices: list[Any]
    diaries: Diaries
    failure: tuple[Any, ...] | None = None


class AdamCall(NamedTuple):
    """What Adam was given, and in which step.

    seen: how many calls its state has seen. is_given: whether that is the dict that the step was given. as_left:
    whether there is in the given one what Adam has left in it, and nothing else.
    """

    step: int
    weight: Any
    gradient: Any
    seen: int
    is_given: bool
    as_left: bool


class DeviceAnswer(NamedTuple):
    """weights: what each step gave back. calls: an `AdamCall` for each."""

    weights: list[Any]
    calls: list[Any]


def perform(zero1_step: Any, **given: Any) -> StepAnswer:
    """The answer to a `StepQuestion`."""
    from .perform_in_process import step_in_process

    weights, gradients, rate = StepQuestion(**given)
    calls = [partial(step_in_process, zero1_step, rank, weights, own, rate) for rank, own in enumerate(gradients)]
    return StepAnswer(*run_judged(calls, LIMIT))


def adam_of(weight: Any, gradient: Any, state: Any, rate: float) -> Any:
    """The new weight, by Adam; `state`, a dict, is empty at first.

    eps is large, so that a gradient that is too large by a factor shows.
    """
    t = state["t"] = state.get("t", 0) + 1
    m = state["m"] = 0.9 * state.get("m", 0) + 0.1 * gradient
    v = state["v"] = 0.99 * state.get("v", 0) + 0.01 * gradient**2
    return weight - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 0.1)
