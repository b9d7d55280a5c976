"""To study only a pipeline's timing: stages whose work is known, and a stopwatch for a learner's pipeline.

A real layer's time depends on cores, caches and libraries. A stage that sleeps needs none, so its pipeline shows
what the schedule alone does, on any machine; one that counts in Python holds the GIL all the time.

The stopwatch notes when each call of a stage ran, forward and backward: `with watch(net, balance) as calls:` around one
training step in one thread. It hooks the layers of `net`, so it works for any wrapper that runs these layers stage by
stage; micro-batches are numbered in the order in which they enter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.timeline.simulate import replay

Work = Callable[[], object]


def nap() -> None:
    """10 ms without using a core, like waiting for another device."""
    time.sleep(0.01)


def count() -> None:
    """A loop in plain Python: some milliseconds, holding the GIL all the time."""
    for _ in range(200_000):
        pass


class Chore(nn.Module):
    """Returns x times a weight of 1; does `work` once in a forward and twice in a backward, so that B = 2 F."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.work, self.weight = work, nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        """The input, times the weight. Any shape."""
        done: Tensor = _Work.apply(x * self.weight, self.work)  # type: ignore[no-untyped-call]
        return done


class _Work(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, work: Work) -> Tensor:
        ctx.work = work
        work()
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        ctx.work()
        ctx.work()
        return gradients[0], None


class StageCalls:
    """What was noted during one step."""

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self._entered, self._left = [0] * stages, [0] * stages
        self._forwards: dict[tuple[int, int], list[float]] = {}
        self._backwards: list[tuple[int, int, float]] = []
        self._again: set[tuple[int, int]] = set()
        self.end = 0.0

    @property
    def schedule(self) -> Schedule:
        """Per stage the order of its calls; a backward that computed the forward again is a C."""
        return Schedule([[span.op for span in self._spans() if span.device == k] for k in range(self._stages)])

    def measured_timeline(self, name: str) -> Timeline:
        """The calls as they ran."""
        return Timeline(self._spans(), self._stages, name=name, source="measured", unit="s")

    def replayed_timeline(self, name: str) -> Timeline:
        """The same calls with the same times, as if each stage had a device of its own."""
        times = {span.op: span.end - span.start for span in self._spans()}
        return replay(self.schedule, times.__getitem__, source="replayed", unit="s").with_name(name)

    def _spans(self) -> list[Span]:
        if not self._backwards:
            raise RuntimeError("no backward was seen; run pipe(x) and backward() inside `with watch(net, balance)`")
        spans = [Span(k, Op("F", m, k), *times) for (m, k), times in self._forwards.items()]
        # With a single thread, a backward lasts until the next one begins.
        ends = [start for _, _, start in self._backwards[1:]] + [self.end]
        for (m, k, start), end in zip(self._backwards, ends, strict=True):
            spans.append(Span(k, Op("C" if (m, k) in self._again else "B", m, k), start, end))
        first = min(span.start for span in spans)
        return [Span(span.device, span.op, span.start - first, span.end - first) for span in spans]

    def enter(self, k: int, *_: Any) -> None:
        """A call of stage k begins: a forward, or within a backward the forward again."""
        if self._backwards:
            self._again.add(self._backwards[-1][:2])
            return
        self._forwards[self._entered[k], k] = [perf_counter(), 0.0]
        self._entered[k] += 1

    def leave(self, k: int, layer: nn.Module, given: Any, output: Tensor) -> None:
        """A call of stage k ends. A hook on its output tells when the backward begins."""
        if self._backwards:
            return
        m = self._left[k]
        self._left[k] += 1
        self._forwards[m, k][1] = perf_counter()
        if output.requires_grad:
            output.register_hook(partial(self._arrive, m, k))  # type: ignore[no-untyped-call]

    def _arrive(self, m: int, k: int, gradient: Tensor) -> None:
        self._backwards.append((m, k, perf_counter()))


@contextmanager
def watch(net: nn.Sequential, balance: Sequence[int]) -> Iterator[StageCalls]:
    """Note the calls of one step. Raises ValueError for a balance that does not fit."""
    if sum(balance) != len(net) or min(balance, default=0) < 1:
        raise ValueError(f"balance is {list(balance)}, and net has {len(net)} layers; give the balance of the pipeline")
    calls, ends = StageCalls(len(balance)), list(accumulate(balance))
    hooks = []
    for k, (count, end) in enumerate(zip(balance, ends, strict=True)):
        hooks.append(net[end - count].register_forward_pre_hook(partial(calls.enter, k)))
        hooks.append(net[end - 1].register_forward_hook(partial(calls.leave, k)))
    try:
        yield calls
    finally:
        calls.end = perf_counter()
        for hook in hooks:
            hook.remove()
