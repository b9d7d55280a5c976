"""What `train` shows of a step in PyTorch, on threads and on ranks: compared with one device, and with its plan."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

from torch import Tensor, nn

from gpipe_edu.split import split_batch
from gpipe_edu.timeline import Timeline

ROUNDS = 7
"""Steps timed of each variant, in turn; medians are shown."""


def in_turn(jobs: list[Callable[[], None]], ready: Callable[[], None], through: Callable[[], None]) -> list[float]:
    """Median seconds of each job. They take turns, so that other load on the machine affects all of them alike.

    ready: called before the clock starts. through: called before it stops, returns when the job has finished.
    """
    seconds: list[list[float]] = [[] for _ in jobs]
    for _ in range(ROUNDS + 1):
        for job, times in zip(jobs, seconds, strict=True):
            ready()
            started = perf_counter()
            job()
            through()
            times.append(perf_counter() - started)
    return [median(times[1:]) for times in seconds]


def accumulate(net: nn.Module, loss: Callable[..., Any], x: Tensor, y: Tensor, micro_batches: int) -> None:
    """The same gradients on the one device where net, x and y are: one micro-batch after the other."""
    for piece, target in zip(split_batch(x, micro_batches), split_batch(y, micro_batches), strict=True):
        (loss(net(piece), target) * (len(piece) / len(x))).backward()


def step_rows(piped: float, alone: float, samples: int, who: str) -> list[tuple[str, str]]:
    """The rows about a step of `samples`, from its seconds and those of one device; who: what is compared with it."""
    return [
        ("step", f"{piped * 1e3:.1f} ms, {samples / piped:,.0f} samples/s, measured (median of {ROUNDS})"),
        ("one device", f"{alone * 1e3:.1f} ms: {who} {alone / piped:.2f} times as fast, measured"),
    ]


def plan_rows(plan: Timeline, measured: Timeline, known: str) -> list[tuple[str, str]]:
    """The rows about planned and measured; known: what the plan was based on."""
    return [
        ("bubble, planned", f"{plan.bubble_fraction:.1%}, with {known}"),
        ("bubble, measured", f"{measured.bubble_fraction:.1%} of all device time is idle"),
        ("step, planned", f"{plan.makespan / measured.makespan - 1:+.1%} against the measured step"),
    ]
