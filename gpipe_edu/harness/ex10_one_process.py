"""What runs in each of the processes: the stage is built, the learner's function called, and what it did noted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from gpipe_edu.distributed.training import rank_steps
from gpipe_edu.reference.twin import as_arrays
from gpipe_edu.sandbox.asking import ask_judge
from gpipe_edu.schedule import Schedule
from gpipe_edu.words import with_article

from .asked import build_asked
from .ex10_processes import ProcessAnswer, cuts_of
from .networks import Item


def run_in_process(
    run_stage: Any, k: int, schedule: Schedule, items: list[Item], counts: list[int], pieces: Any, steps: int
) -> ProcessAnswer:
    """What process k has after all steps."""
    import torch

    K = schedule.stages
    a, b = list(pairwise(cuts_of(len(items), K)))[k]
    stage: Any = build_asked(items)[a:b]
    training, came_back = _watch(stage)
    shapes: list[tuple[int, ...]] = [(n, _width(items, a)) for n in counts]
    tensors = None if pieces is None else [torch.from_numpy(piece) for piece in pieces]
    loss_fn, ops = torch.nn.CrossEntropyLoss(), list(schedule.rows[k])

    def step(*args: Any) -> Any:
        ask_judge(("step",))
        return run_stage(*args)

    value, grads = rank_steps(step, k, K, stage, ops, shapes, tensors, loss_fn, steps)
    training.append(all(module.training for module in stage.modules()))
    loss = _number(value) if k == K - 1 else None
    return ProcessAnswer(
        loss, as_arrays(grads), as_arrays(stage.parameters()), all(training), came_back[-len(counts) :]
    )


def _watch(stage: Any) -> tuple[list[bool], list[bool]]:
    """Two lists that grow with each forward: was it in training mode, and did a gradient other than 0 come back."""
    training: list[bool] = []
    came_back: list[bool] = []

    def leaves(module: Any, inputs: Any, output: Any) -> None:
        index = len(came_back)
        training.append(module.training)
        came_back.append(False)
        if output.requires_grad:
            output.register_hook(lambda gradient: came_back.__setitem__(index, bool(gradient.any())))

    stage[-1].register_forward_hook(leaves)
    return training, came_back


def _number(value: Any) -> Any:
    """The loss as a number; for what is none, what it is."""
    import torch

    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    return value if value is None or isinstance(value, int | float | np.number) else with_article(type(value).__name__)


def _width(items: list[Item], layer: int) -> int:
    """How many features go into a layer: as many as into the next Linear, for a Tanh keeps their number."""
    return next(len(item[0]) for item in items[layer:] if isinstance(item, tuple))
