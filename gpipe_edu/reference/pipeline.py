"""The reference pipeline: any legal schedule, run op by op, in NumPy, written to be read.

The interpreter below is the whole engine. It takes the ops in one order in which they can run (a real pipeline runs
many at a time) and moves arrays between stages through two mailboxes:

    outputs[m, k]    what stage k sent forward for micro-batch m
    gradients[m, k]  what stage k sent backward
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.schedule.schedule import check_schedule
from gpipe_edu.split import balance_uniform, split_batch
from gpipe_edu.timeline import Timeline, replay

from .layers import Array, Layer, Params
from .losses import Loss, find_loss
from .sequential import check_samples
from .stage import Stage


class MemoryEntry(NamedTuple):
    """A line of the memory ledger: the bytes of activations that a device holds after an op."""

    op: Op
    bytes: int


@dataclass(frozen=True)
class Result:
    """What one step of the pipeline gave.

    loss, grads: as `train_sequential` returns them, one dict of arrays per layer. timeline: op times in seconds,
    measured one after another and laid out on the schedule's devices (`source` "replayed"), since this engine runs
    one op at a time. memory: per device, one `MemoryEntry` per op in running order. peak_memory: per device, the most
    bytes of activations held at any moment, within an op too. statistics: per layer, the sums that
    `BatchNorm.update_running` takes.
    """

    loss: float
    grads: list[Params]
    timeline: Timeline
    memory: list[list[MemoryEntry]]
    peak_memory: tuple[int, ...]
    statistics: list[Params]


def train_pipeline(
    layers: Sequence[Layer],
    x: Array,
    y: Any,
    schedule: Schedule,
    balance: Sequence[int] | None = None,
    loss: str | Loss = "cross_entropy",
    *,
    reduction: str = "mean",
    step: int = 0,
    make_stage: Callable[..., Stage] = Stage,
) -> Result:
    """Loss and gradients of one mini-batch, by running `schedule` op by op; equal to `train_sequential`.

    x: (N, ...), y: (N, ...), cut into the schedule's M micro-batches, or N if there are fewer samples. balance: layers
    per stage, by default as even as possible. loss: "cross_entropy", "mse" or a function (predictions, targets) ->
    (loss, gradient). reduction: "mean" weights micro-batch m by n_m / N, "sum" adds up. step: number of the training
    step, which seeds dropout. make_stage: called as `Stage` is, for stages of your own.
    Activations are counted, not parameters, gradients or what is between two stages.

    Raises ScheduleError for a schedule that cannot run, TypeError for x or y without samples, ValueError for arguments
    that do not fit each other, and what a layer raises, with a note that names stage, micro-batch and op. The layers
    are never changed.
    """
    check_schedule(schedule)
    check_samples(x=x, y=y)
    x = np.asarray(x, dtype=np.float64)
    N = len(x)
    if N == 0 or len(y) != N:
        raise ValueError(
            f"x has {N} samples and y has {len(y)}; give the same number of both, at least one, those of the whole "
            "mini-batch, which is cut into micro-batches here"
        )
    schedule = schedule.first(N)
    K, M = schedule.stages, schedule.micro_batches
    counts = _balance(layers, K, balance)
    loss_fn = find_loss(loss, reduction)
    xs, ys = split_batch(x, M), split_batch(y if hasattr(y, "shape") else np.asarray(y), M)
    sizes = [len(piece) for piece in xs]
    firsts = [0, *accumulate(sizes)]

    def stage(k: int) -> Stage:
        mine = layers[sum(counts[:k]) : sum(counts[: k + 1])]
        at = [[layer.at(firsts[m], step) for layer in mine] for m in range(M)]
        return make_stage(mine, at.__getitem__, lambda m: not schedule.needs.rematerializes(m, k))

    stages = [stage(k) for k in range(K)]
    outputs: dict[tuple[int, int], Array] = {(m, -1): xs[m] for m in range(M)}
    gradients: dict[tuple[int, int], Array] = {}
    losses = np.zeros(M)

    def run(kind: str, m: int, k: int) -> None:
        if kind == "F":
            outputs[m, k] = stages[k].forward(m, outputs.pop((m, k - 1)))
            if k == K - 1:
                value, gradient = loss_fn(outputs.pop((m, k)), ys[m])
                weight = sizes[m] / N if reduction == "mean" else 1.0
                losses[m], gradients[m, K] = weight * value, weight * gradient
        elif kind == "R":
            stages[k].recompute(m)
        elif kind == "B":
            gradients[m, k] = stages[k].backward(m, gradients.pop((m, k + 1)))
        elif kind == "C":
            gradients[m, k] = stages[k].checkpointed_backward(m, gradients.pop((m, k + 1)))
        elif kind == "I":
            gradients[m, k] = stages[k].input_gradient(m, gradients.pop((m, k + 1)))
        elif kind == "W":
            stages[k].weight_gradient(m)

    seconds: dict[Op, float] = {}
    memory: list[list[MemoryEntry]] = [[] for _ in range(schedule.devices)]
    peaks = [0] * schedule.devices
    stages_on = [sorted({op.stage for op in row}) for row in schedule.rows]
    # One BLAS thread: an op is the work of one device, and threads that compete for cores would distort its time.
    with _blas().limit(limits=1, user_api="blas"):
        for device, op, _ in schedule.steps:
            before = sum(stages[k].held_bytes for k in stages_on[device] if k != op.stage)
            stages[op.stage].peak_bytes = 0
            started = perf_counter()
            try:
                run(*op)
            except Exception as error:
                error.add_note(f"in {op} on device {device}: stage {op.stage}, micro-batch {op.micro_batch}")
                raise
            seconds[op] = perf_counter() - started
            peaks[device] = max(peaks[device], before + stages[op.stage].peak_bytes)
            memory[device].append(MemoryEntry(op, before + stages[op.stage].held_bytes))

    return Result(
        loss=float(losses.sum()),
        grads=[grads for stage in stages for grads in stage.grads],
        timeline=replay(schedule, seconds.__getitem__, source="replayed", unit="s"),
        memory=memory,
        peak_memory=tuple(peaks),
        statistics=[sums for stage in stages for sums in stage.statistics],
    )


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries in this process, cached because looking for them takes longer than a small step."""
    return ThreadpoolController()


def _balance(layers: Sequence[Layer], K: int, balance: Sequence[int] | None) -> tuple[int, ...]:
    counts = balance_uniform(len(layers), K) if balance is None else tuple(balance)
    if len(counts) != K or sum(counts) != len(layers) or min(counts) < 1:
        raise ValueError(
            f"balance is {counts}, which places {sum(counts)} layers on {len(counts)} stages; the schedule has {K} "
            f"stages and the model {len(layers)} layers, at least one for each stage"
        )
    return counts
