"""Sleepers: hundreds of steps in which layers keep their streams busy by chance; a missing wait is a wrong number."""

from __future__ import annotations

import random
from itertools import product

from benchmarks.gpu.equality import (
    EXACT,
    LOSS,
    MODES,
    SCHEDULES,
    Sleeps,
    batch,
    difference,
    gradients,
    pipe_of,
    plain_gradients,
)
from benchmarks.gpu.findings import Findings
from benchmarks.gpu.ops import gpu
from benchmarks.gpu.sizes import Sizes


def run(found: Findings, sizes: Sizes) -> None:
    random.seed(0)
    Sleeps.cycles = sizes.cycles
    expected, worst, first = plain_gradients(), 0.0, ""
    pipes = [pipe_of([gpu()], schedule=schedule, checkpoint=mode) for schedule, mode in product(SCHEDULES, MODES)]
    x, y = (part.to(gpu()) for part in batch())
    for number in range(sizes.steps):
        pipe = pipes[number % len(pipes)]
        pipe.zero_grad()
        if number // len(pipes) % 2:
            LOSS(pipe(x), y).backward()
        else:
            pipe.step(x, y, LOSS)
        differs = difference(gradients(pipe), expected)
        if differs > EXACT and not first:
            first = f"the first is step {number}, by {pipe.schedule.name}"
            found.check("a wrong step", first, False)
        worst = max(worst, differs)
        if number % 50 == 49 or number == sizes.steps - 1:
            found.figure("steps", f"{number + 1}, the worst differs by {worst:.1e}")
    found.bar(f"float64, {sizes.steps} steps", worst, EXACT)
