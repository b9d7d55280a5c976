"""What runs in each process of ZeRO-1: the learner's function, between its two neighbours, with its own optimizer."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpipe_edu.distributed.rank import this_watch
from gpipe_edu.judge.guest.forms import gather
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.guest.told_links import copied, plain_arrays, told_links

from .perform import AdamCall, DeviceAnswer, adam_of


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
            break  # the judge says what they are
        weights = found
    return DeviceAnswer(answers, adam.calls)


class _Adam:
    """The optimizer of a device, which notes what it is given. state: the device's own."""

    def __init__(self, rate: float) -> None:
        self._rate, self._left = rate, dict[str, Any]()
        self.state: dict[str, Any] = {}
        self.step, self.calls = 0, list[AdamCall]()

    def __call__(self, weight: Any, gradient: Any, state: Any) -> Any:
        ours, left = self.state, self._left
        as_left = ours.keys() == left.keys() and all(np.array_equal(ours[name], left[name]) for name in left)
        given = plain_arrays(weight), plain_arrays(gradient)
        self.calls.append(AdamCall(self.step, *given, state.get("t", 0), state is ours, as_left))
        new = adam_of(weight, gradient, state, self._rate)
        self._left = dict(ours)
        return new


def _are_weights(found: Any, weights: list[Array]) -> bool:
    return isinstance(found, list) and [np.shape(one) for one in found] == [one.shape for one in weights]
