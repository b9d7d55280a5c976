"""How `run_stage` is called: handed on to processes, one for each stage, which note every message and every op."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import Any, Final, NamedTuple

from gpipe_edu.distributed import Crew
from gpipe_edu.process.packing import Forwarded
from gpipe_edu.sandbox.asking import ask_judge
from gpipe_edu.schedule import Schedule
from gpipe_edu.split import balance_uniform, split_batch

from .networks import Array, Item
from .processes import Diaries, failure_of

unpack = Forwarded


_LIMIT: Final = 5.0
"""Seconds for one call, on top of starting the processes."""


_crew = Crew()
"""In the learner's process: waits between two calls, because starting takes long."""


class RunQuestion(NamedTuple):
    """Training steps of a network in processes, all with the same mini-batch; the judge has the real weights."""

    items: list[Item]
    x: Array
    y: Array
    schedule: Schedule
    steps: int


class RunAnswer(NamedTuple):
    """What each process has afterwards, and what all have noted; or why they did not come to the end."""

    processes: list[Any]
    diaries: Diaries
    failure: tuple[Any, ...] | None = None


class ProcessAnswer(NamedTuple):
    """What one process has afterwards.

    loss: what the function gave back in the last process: a number, None, or what it is in words. training: whether the
    stage was and is in training mode. came_back: for each forward, whether a gradient that is not all zeros came back
    to its result.
    """

    loss: Any
    grads: list[Array | None]
    weights: list[Array | None]
    training: bool
    came_back: list[bool]


def perform(run_stage: Any, **given: Any) -> RunAnswer:
    """The answer to a `RunQuestion`, by processes."""
    from .ex10_one_process import run_in_process

    _, x, y, schedule, _ = asked = RunQuestion(**given)
    K, M = schedule.stages, schedule.micro_batches
    xs, ys = split_batch(x, M), split_batch(y, M)
    counts, pieces = [len(piece) for piece in xs], {0: xs, K - 1: ys}
    calls = [
        partial(run_in_process, run_stage, k, schedule, asked.items, counts, pieces.get(k), asked.steps)
        for k in range(K)
    ]
    try:
        return RunAnswer(*_crew.run(calls, _LIMIT, lambda k, question: ask_judge((k, question))))
    except Exception as error:
        return RunAnswer([], _crew.diaries, failure_of(error, _LIMIT))


def cuts_of(layers: int, K: int) -> list[int]:
    """Where each stage begins, and the end."""
    return [0, *accumulate(balance_uniform(layers, K))]
