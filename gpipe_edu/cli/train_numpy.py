"""`train --engine numpy`: the reference engine, one op at a time."""

from __future__ import annotations

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.schedule import Schedule
from gpipe_edu.split import balance_uniform
from gpipe_edu.timeline import Timeline, merge_replays, simulate

from .trainer import MOMENTUM, Array, Labels, kib, same

RUNS = 5
"""Number of steps timed: the shortest time of each op is the one that other programs disturbed least."""


class NumpyTrainer:
    """An MLP on the NumPy pipeline; see `trainer.Trainer`."""

    done = 0

    def __init__(self, schedule: Schedule, sizes: list[int], rate: float, seed: int, device: str) -> None:
        if device not in ("auto", "cpu"):
            raise ValueError(f"device is {device!r}; the NumPy engine runs on the CPU only")
        self.schedule = schedule
        self.layers = ref.mlp(sizes, "tanh", seed=seed)
        self.balance = balance_uniform(len(self.layers), schedule.stages)
        self.optimizer = ref.SGD(self.layers, rate, momentum=MOMENTUM)

    def step(self, x: Array, y: Labels, number: int) -> float:
        """Train on one mini-batch; returns its loss."""
        result = ref.train_pipeline(self.layers, x, y, self.schedule, self.balance, step=number)
        self.optimizer.step(result.grads)
        return result.loss

    def accuracy(self, x: Array, y: Labels) -> float:
        """The share of samples that the model reads right."""
        return float(np.mean(ref.predict(self.layers, x).argmax(axis=1) == y))

    def measure(self, x: Array, y: Labels) -> Timeline:
        """Time the ops one by one in five steps; returns the shortest time of each, laid out on the devices."""
        runs = [ref.train_pipeline(self.layers, x, y, self.schedule, self.balance) for _ in range(RUNS)]
        self.result, self.timeline = runs[0], merge_replays(run.timeline for run in runs)
        return self.timeline

    def figures(self, x: Array, y: Labels) -> list[tuple[str, str]]:
        """Bubble, memory and equality."""
        plan = simulate(self.schedule.first(len(x)))
        _, expected = ref.train_sequential(self.layers, x, y)
        return [
            ("bubble, planned", f"{plan.bubble_fraction:.1%} of all device time is idle (F=1, B=2)"),
            (
                "bubble, replayed",
                f"{self.timeline.bubble_fraction:.1%} with op times measured one by one (tiny, uneven ops)",
            ),
            ("peak activations", f"{kib(self.result.peak_memory)}, measured"),
            same(ref.gradient_difference(self.result.grads, expected)),
        ]
