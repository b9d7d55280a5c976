"""How `zero1_step` is called: in D processes at once, each between its two neighbours, for some steps, with an
optimizer that notes what it is given.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gpipe_edu.distributed.rank import this_watch
from gpipe_edu.judge.guest.forms import gather
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.guest.processes import LIMIT, Diaries, copied, plain_arrays, run_judged, told_links
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
    whether the given one still has what Adam left in it. alone: whether it has nothing else.
    """

    step: int
    weight: Any
    gradient: Any
    seen: int
    is_given: bool
    as_left: bool
    alone: bool


class DeviceAnswer(NamedTuple):
    """weights: what each step gave back. calls: an `AdamCall` for each."""

    weights: list[Any]
    calls: list[Any]


def perform(zero1_step: Any, **given: Any) -> StepAnswer:
    """The answer to a `StepQuestion`."""

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


def step_in_process(
    zero1_step: Any, rank: int, weights: list[Array], gradients: list[list[Array]], rate: float
) -> DeviceAnswer:
    """What process `rank` has after one step with each of its gradients."""
    D = len(weights)
    adam, answers = _Adam(rate), []
    for step, pieces in enumerate(gradients):
        adam.step = step
        watch = this_watch()
        watch.step()

        with told_links(rank, D) as (send, receive):
            found = gather(zero1_step(rank, D, weights, pieces, adam.state, adam, send, receive))
        answers.append(copied(found))
        if not _are_weights(found, weights):
            break  # the judge says what is wrong with them
        weights = found
    return DeviceAnswer(answers, adam.calls)


def _of_adam(state: dict[str, Any]) -> dict[str, Any]:
    """What Adam keeps in a state, without what the learner keeps beside it."""
    return {name: value for name, value in state.items() if name in ("t", "m", "v")}


class _Adam:
    """The optimizer of a device, which notes what it is given. state: the device's own."""

    def __init__(self, rate: float) -> None:
        self._rate, self._left = rate, dict[str, Any]()
        self.state: dict[str, Any] = {}
        self.step, self.calls = 0, list[AdamCall]()

    def __call__(self, weight: Any, gradient: Any, state: Any) -> Any:
        ours, left, kept = self.state, self._left, _of_adam(self.state)
        as_left = kept.keys() == left.keys() and all(np.array_equal(kept[name], left[name]) for name in left)
        alone = ours.keys() == kept.keys()
        given = plain_arrays(weight), plain_arrays(gradient)
        self.calls.append(AdamCall(self.step, *given, state.get("t", 0), state is ours, as_left, alone))
        new = adam_of(weight, gradient, state, self._rate)
        self._left = _of_adam(ours)
        return new


def _are_weights(found: Any, weights: list[Array]) -> bool:
    return isinstance(found, list) and [np.shape(one) for one in found] == [one.shape for one in weights]
