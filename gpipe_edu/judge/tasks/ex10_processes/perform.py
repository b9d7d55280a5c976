"""How `run_stage` is called: handed on to processes, one for each stage, which note every message and every op."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import Any, Final, NamedTuple

from gpipe_edu.judge.guest.networks import Array, Item
from gpipe_edu.judge.guest.processes import Diaries, run_judged
from gpipe_edu.process.packing import Forwarded
from gpipe_edu.schedule import Schedule
from gpipe_edu.split import balance_uniform, split_batch

unpack = Forwarded


_LIMIT: Final = 5.0
"""Seconds for one call, on top of starting the processes."""


class RunQuestion(NamedTuple):
    """Training steps of a network in processes, all with the same mini-batch; the judge has the real weights.

    evaluating: the first layer of each stage is in evaluation mode, the others in training.
    """

    items: list[Item]
    x: Array
    y: Array
    schedule: Schedule
    steps: int
    evaluating: bool


class RunAnswer(NamedTuple):
    """What each process has afterwards, and what all have noted; or why they did not come to the end."""

    processes: list[Any]
    diaries: Diaries
    failure: tuple[Any, ...] | None = None


class ProcessAnswer(NamedTuple):
    """What one process has afterwards.

    loss: what the function gave back in the last process: a number, None, or what it is in words. training, evaluating:
    whether what was in that mode was so in each forward, and is so. came_back: for each forward, whether a gradient
    that is not all zeros came back to its result. left, hooks: how many results of forwards were still in memory when
    the function had returned, and how many hooks on the stage.
    """

    loss: Any
    grads: list[Array | None]
    weights: list[Array | None]
    training: bool
    evaluating: bool
    came_back: list[bool]
    left: int
    hooks: int


def perform(run_stage: Any, **given: Any) -> RunAnswer:
    """The answer to a `RunQuestion`, by processes."""
    from .perform_in_process import run_in_process

    asked = RunQuestion(**given)
    x, y, schedule = asked.x, asked.y, asked.schedule
    K, M = schedule.stages, schedule.micro_batches
    xs, ys = split_batch(x, M), split_batch(y, M)
    counts, pieces = [len(piece) for piece in xs], {0: xs, K - 1: ys}
    calls = [
        partial(run_in_process, run_stage, k, asked._replace(x=x[:0], y=y[:0]), counts, pieces.get(k)) for k in range(K)
    ]
    return RunAnswer(*run_judged(calls, _LIMIT))


def cuts_of(layers: int, K: int) -> list[int]:
    """Where each stage begins, and the end."""
    return [0, *accumulate(balance_uniform(layers, K))]
