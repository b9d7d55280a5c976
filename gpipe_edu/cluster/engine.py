"""PyTorch's runtime, which runs our schedules, with the loss of a mini-batch, in which each micro-batch has its proper
weight. The last few engines are kept: they take long to make, but also take memory.

Our schedules are written in the form that it reads: the same ops in the same order, a list for each rank. PyTorch
itself adds sends and receives, in an order that cannot deadlock.

PyTorch finds the loss of a micro-batch by its place in the order in which the last stage ran them, and a schedule may
run them in any order; so losses are kept here by micro-batch. Scaling by the engine would also scale what is already in
`.grad`, so the loss is scaled instead.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from gpipe_edu.pytorch.guards import depends_on_something, what_it_means
from gpipe_edu.pytorch.stage import Head
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.pipeline_csv import as_cells

from .far_skips import FarSkips
from .shared_clock import SharedClock
from .torch_private import Action, Runtime


class Engine(Runtime):  # type: ignore[misc]
    """Runs `schedule` with `stages`, those of this rank, and the `skips` that PyTorch does not send.

    Micro-batches may differ in size: PyTorch would cut them evenly, so they are given to it as they are.
    """

    def __init__(self, stages: list[Any], schedule: Schedule, skips: FarSkips, clock: SharedClock) -> None:
        # PyTorch needs a loss function to know that there is a backward; the loss itself is given to `run`.
        super().__init__(stages, schedule.micro_batches, loss_fn=_of_the_step, scale_grads=False)
        self._skips, self._clock, self._sizes = skips, clock, stages[0].sizes
        self._pieces: Sequence[tuple[Tensor, ...]] = ()
        self._heads: Sequence[Head] = ()
        self._losses: dict[int, Tensor] = {}
        """The losses of micro-batches between forward and backward, each with its graph."""
        self._done: dict[int, tuple[Tensor, bool]] = {}
        """The losses of micro-batches whose backward has begun, without the graph, which would hold all that this stage
        has received, and whether there was one."""
        self._prepare_schedule_with_comms(lower(schedule))

    def run(self, pieces: Sequence[tuple[Tensor, ...]], heads: Sequence[Head]) -> Tensor | None:
        """Run one mini-batch, in micro-batches; their tensors are read where stage 0 is.

        Returns the sum of what `heads` make of the outputs where the last stage is, else None.
        """
        self._pieces, self._heads = pieces, heads
        self._losses, self._done = {}, {}
        try:
            with self._skips.of_step():
                self.step(return_outputs=False)
        except (RuntimeError, ValueError) as error:
            if isinstance(error.__cause__, Exception) and " failed to run forward" in str(error):
                raise self._explained(error.__cause__) from None  # a layer's, without PyTorch's list of shapes
            raise self._explained(error) from error.__cause__
        if not self._done:
            return None
        depends_on_something(loss if trains else None for loss, trains in self._done.values())
        return torch.stack([self._done[m][0] for m in sorted(self._done)]).sum()

    def _explained(self, error: Exception) -> Exception:
        """`error`, with a note that says what it means for a stage."""
        samples = 0 if self._clock.now is None else self._sizes[self._clock.now.micro_batch]
        if meaning := what_it_means(error, samples, sum(self._sizes)):
            error.add_note(meaning)
        return error

    def _split_inputs(self, args: Any, kwargs: Any = None) -> tuple[list[Any], list[dict[str, Any]]]:
        return list(self._pieces), [{} for _ in self._pieces]

    def _maybe_compute_loss(
        self, stage: Any, output: Any, target_mbs: Any, mb_index: int, *others: Any, **named: Any
    ) -> None:
        if not stage.is_last:
            return
        self._losses[mb_index] = self._heads[mb_index](stage.output(output))
        self._clock.longer()

    def _maybe_get_loss(self, stage: Any, mb_index: int) -> Tensor | None:
        if not stage.is_last:
            return None
        loss = self._losses.pop(mb_index)
        self._done[mb_index] = loss.detach(), loss.requires_grad
        return loss

    def _update_losses(self, stages: Any, losses: Any) -> None:
        """Does nothing, since `run` returns the loss."""


def _of_the_step(output: Any, target: Any) -> Tensor:
    raise NotImplementedError("the loss of a micro-batch is that of its head")


def lower(schedule: Schedule) -> dict[int, list[Any]]:
    """PyTorch's actions for each device of `schedule`, which becomes a rank. A C is a backward whose stage recomputes,
    see `stage.py`.

    Raises ScheduleError for a schedule that can't run, ValueError for one with an R, which PyTorch's engine can't run.
    """
    rows = as_cells(schedule.check().rows)
    return {device: [Action.from_str(cell) for cell in row] for device, row in enumerate(rows)}


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Newest(Generic[K, V]):
    """At most `most` values by key, of a kind that takes long to make, and takes memory. The oldest goes.

    Not `functools.lru_cache`: around a method it holds the method's object, which holds it, so a pipeline that nobody
    uses any more would keep the memory of its engines until garbage is collected.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value of `key`, now the newest; None if it is not kept."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def keep(self, key: K, value: V) -> None:
        """Keep `value` as the newest; the oldest goes if there are too many."""
        self._values[key] = value
        if len(self._values) > self._most:
            self._values.popitem(last=False)
