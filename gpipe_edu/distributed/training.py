"""One training step of a pipeline whose stages are processes, each of which runs a function of the learner's.

The network is cut, and each process gets one stage; what comes back is the loss, the gradients, and the times of each
forward and backward, noted by the processes themselves on the clock that they share.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from gpipe_edu.base.validate import whole
from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.split import balance_uniform, split_batch
from gpipe_edu.timeline import Span, Timeline

from .diary import Entry
from .local_group import LocalGroup

if TYPE_CHECKING:
    from torch import Tensor, nn


class TrainingResult(NamedTuple):
    """loss: of the mini-batch, as the last process returned it. grads: one for each parameter, in the network's order.

    timeline: of the quickest step, measured. sent: (from, to, shape) of each message of one step, in order of time.
    """

    loss: Any
    grads: list[Tensor | None]
    timeline: Timeline
    sent: list[tuple[int, int, tuple[int, ...]]]


def train_processes(
    run_stage: Callable[..., Any],
    net: nn.Sequential,
    schedule: Schedule,
    x: Tensor,
    y: Tensor,
    loss_fn: Callable[..., Any],
    *,
    steps: int = 1,
    seconds: float = 30,
) -> TrainingResult:
    """Run `schedule` with a process for each stage of `net`; in process k,

        run_stage(k, K, stage, ops, shapes, pieces, loss_fn)

    is called, `steps` times, each a step of its own (the first ones are slow). The weights and gradients of `net` stay
    as they are. Raises ValueError for a schedule that this can't run, and otherwise what `run_processes` raises.
    """
    _check(schedule.check(), len(net), len(x))
    whole("steps", steps, 1)
    K, M = schedule.stages, schedule.micro_batches
    cuts = [0, *accumulate(balance_uniform(len(net), K))]
    stages: list[Any] = [net[a:b] for a, b in pairwise(cuts)]
    xs, ys = split_batch(x, M), split_batch(y, M)
    shapes = _shapes(stages, x, [len(piece) for piece in xs])
    calls = [
        partial(
            rank_steps,
            run_stage,
            k,
            K,
            stages[k],
            list(schedule.rows[k]),
            shapes[k],
            xs if k == 0 else ys if k == K - 1 else None,
            loss_fn,
            steps,
        )
        for k in range(K)
    ]
    with LocalGroup() as group:
        values, diaries = group.run(calls, seconds)
    grads = [grad for _, grads in values for grad in grads]
    ran = [[_step(diary, number) for diary in diaries] for number in range(steps)]
    timelines = [_timeline(schedule, step) for step in ran]
    quickest = min(timelines, key=lambda timeline: timeline.makespan)
    return TrainingResult(values[-1][0], grads, quickest, _messages(ran[-1]))


def rank_steps(
    run_stage: Callable[..., Any],
    k: int,
    K: int,
    stage: nn.Sequential,
    ops: list[Op],
    shapes: list[tuple[int, ...]],
    pieces: Any,
    loss_fn: Callable[..., Any],
    steps: int,
) -> tuple[Any, list[Any]]:
    """In process k: run the steps; returns what the last one returned, and the gradients of the stage's weights."""
    from .rank import this_watch

    watch, value = this_watch(), None
    watch.stage(stage)
    ops, shapes = list(ops), list(shapes)  # the same in every step: a function that uses them up fails in the second
    for _ in range(steps):
        stage.zero_grad(set_to_none=True)
        watch.barrier()
        watch.step()
        value = run_stage(k, K, stage, ops, shapes, pieces, watch.loss(loss_fn))
        watch.step_ended()
    return value, [parameter.grad for parameter in stage.parameters()]


def _step(diary: Sequence[Entry], number: int) -> list[Entry]:
    """The entries of one training step."""
    begins = [index for index, entry in enumerate(diary) if "step" in entry]
    return list(diary[begins[number] : [*begins, len(diary)][number + 1]])


def _spans(k: int, ops: Sequence[Op], diary: Sequence[Entry]) -> list[Span]:
    """The ops of process k in a step: its n-th forward is the n-th F of its row, a backward names its forwards."""
    order = [op.micro_batch for op in ops if op.kind == "F"]
    found = []
    for entry in diary:
        indices = [entry["index"]] if entry.get("op") == "F" else entry.get("index", [])
        found += [
            Span(k, Op(entry["op"], order[index], k), entry["start"], entry["end"])
            for index in indices
            if index < len(order)
        ]
    return found


def _timeline(schedule: Schedule, diaries: Sequence[Sequence[Entry]]) -> Timeline:
    ran = [span for k, row in enumerate(schedule.rows) for span in _spans(k, row, diaries[k])]
    if not ran:
        raise ValueError("no op was measured: run_stage must run the stage that it is given, forward and backward")
    first = min(span.start for span in ran)
    moved = [span._replace(start=span.start - first, end=span.end - first) for span in ran]
    return Timeline(moved, schedule.devices, name=f"{schedule.name}, processes", source="measured", unit="s")


def _messages(diaries: Sequence[Sequence[Entry]]) -> list[tuple[int, int, tuple[int, ...]]]:
    found = [
        (entry["t"], k, entry["peer"], tuple(entry["shape"]))
        for k, diary in enumerate(diaries)
        for entry in diary
        if "send" in entry.get("do", "")
    ]
    return [(k, peer, shape) for _, k, peer, shape in sorted(found)]


def _shapes(stages: Sequence[nn.Sequential], x: Tensor, sizes: Sequence[int]) -> list[list[tuple[int, ...]]]:
    """For each stage, the shape of its input for each micro-batch: one sample goes through a copy of the network."""
    import torch

    found, value = [], x[:1]
    with torch.no_grad():
        for stage in stages:
            found.append([(n, *value.shape[1:]) for n in sizes])
            value = copy.deepcopy(stage).eval()(value)
    return found


def _check(schedule: Schedule, layers: int, N: int) -> None:
    kinds = sorted({op.kind for row in schedule.rows for op in row} - set("FB"))
    if kinds:
        raise ValueError(
            f"the schedule has {', '.join(kinds)}; processes run F and B only, so take gpipe or one_f_one_b"
        )
    if schedule.stages < 2 or schedule.stages != schedule.devices:
        found = f"{schedule.stages} stages on {schedule.devices} devices"
        raise ValueError(f"the schedule has {found}; it must have one stage for each process, and at least two")
    if layers < schedule.stages:
        raise ValueError(f"the network has {layers} layers, too few for {schedule.stages} stages")
    if schedule.micro_batches > N:
        raise ValueError(f"{N} samples are too few for {schedule.micro_batches} micro-batches")
