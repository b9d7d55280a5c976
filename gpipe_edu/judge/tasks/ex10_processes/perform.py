"""How `run_stage` is called: handed on to processes, one for each stage, which note every message and every op.

In each of them the stage is built, the learner's function called, and what it did noted.
"""

from __future__ import annotations

import gc
import weakref
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu.base.words import with_article
from gpipe_edu.distributed.training import rank_steps
from gpipe_edu.judge.guest.memory import ignore_other_objects
from gpipe_edu.judge.guest.networks import Array, Item, modes_of
from gpipe_edu.judge.guest.processes import Diaries, run_judged
from gpipe_edu.process.asking import ask_judge
from gpipe_edu.process.packing import Forwarded
from gpipe_edu.reference.twin import as_arrays
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
    whether what was in that mode was so in each forward, and still is. came_back: for each forward, whether a gradient
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


@ignore_other_objects()
def run_in_process(run_stage: Any, k: int, asked: RunQuestion, counts: list[int], pieces: Any) -> ProcessAnswer:
    """What process k has after all steps. asked: without x and y, whose pieces it is given."""
    import torch  # late, like all that loads it: the judge imports this file, too

    from gpipe_edu.judge.guest.remote_layers import build_asked

    K, items, steps = asked.schedule.stages, asked.items, asked.steps
    a, b = list(pairwise(cuts_of(len(items), K)))[k]
    stage: Any = build_asked(items)[a:b]
    if asked.evaluating:
        stage[0].eval()
    seen = _Seen(stage)
    shapes: list[tuple[int, ...]] = [(n, width_of(items, a)) for n in counts]
    tensors = None if pieces is None else [torch.from_numpy(piece) for piece in pieces]
    loss_fn, ops = torch.nn.CrossEntropyLoss(), list(asked.schedule.rows[k])

    def step(*args: Any) -> Any:
        ask_judge(("step",))
        seen.begins()
        value = run_stage(*args)
        seen.returned()
        return value

    value, grads = rank_steps(step, k, K, stage, ops, shapes, tensors, loss_fn, steps)
    loss = _number(value) if k == K - 1 else None
    return ProcessAnswer(
        loss,
        as_arrays(grads),
        as_arrays(stage.parameters()),
        seen.training,
        seen.evaluating,
        seen.came_back[-len(counts) :],
        seen.left,
        seen.hooks,
    )


class _Seen:
    """What is seen of a stage in its forwards and after each step; see `ProcessAnswer`."""

    def __init__(self, stage: Any) -> None:
        self.training = self.evaluating = True
        self.came_back: list[bool] = []
        self.left = self.hooks = 0
        self._stage, self._modes = stage, modes_of(stage)
        self._results: list[Any] = []
        self._ours: int | None = None
        stage[-1].register_forward_hook(self._leaves)

    def begins(self) -> None:
        """A step begins; before the first, all hooks are ours or those of `rank_steps`."""
        if self._ours is None:
            self._ours = self._count_hooks()

    def _leaves(self, module: Any, inputs: Any, output: Any) -> None:
        index = len(self.came_back)
        self._look_at_modes()
        self.came_back.append(False)
        self._results.append(weakref.ref(output))
        if output.requires_grad:
            output.register_hook(lambda gradient: self.came_back.__setitem__(index, bool(gradient.any())))

    def _look_at_modes(self) -> None:
        for now, given in zip(modes_of(self._stage), self._modes, strict=True):
            self.training &= now or not given
            self.evaluating &= given or not now

    def _count_hooks(self) -> int:
        kinds = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
        return sum(len(getattr(module, kind)) for module in self._stage.modules() for kind in kinds)

    def returned(self) -> None:
        """The function returned: what is still there is held from outside of it."""
        self._look_at_modes()
        gc.collect()
        self.left = max(self.left, sum(result() is not None for result in self._results))
        self.hooks = max(self.hooks, self._count_hooks() - (self._ours or 0))


def _number(value: Any) -> Any:
    """The loss as a number; for anything else, what it is."""
    import torch

    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    return value if value is None or isinstance(value, int | float | np.number) else with_article(type(value).__name__)


def width_of(items: list[Item], layer: int) -> int:
    """How many features go into a layer: as many as into the next Linear, for a Tanh keeps their number."""
    return next(len(item[0]) for item in items[layer:] if isinstance(item, tuple))
