"""What `train` needs from any engine, and the sentences that all engines share."""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpipe_edu.schedule import Schedule
from gpipe_edu.timeline import Timeline

Array: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = NDArray[np.int64]

MOMENTUM: Final = 0.9
"""Of SGD, in all engines."""


class Trainer(Protocol):
    """One engine with a model on it. With several ranks, each has one, and all call the same methods in turn."""

    schedule: Schedule
    balance: tuple[int, ...]
    done: int
    """Steps made by the earlier run that this one continues."""

    def step(self, x: Array, y: Labels, number: int) -> float:
        """Train on one mini-batch; returns its loss."""

    def accuracy(self, x: Array, y: Labels) -> float:
        """The share of samples that the model reads right."""

    def measure(self, x: Array, y: Labels) -> Timeline:
        """Run one mini-batch without an update; returns when its ops ran."""

    def figures(self, x: Array, y: Labels) -> list[tuple[str, str]]:
        """The results, measured on one mini-batch: names and sentences."""


def kib(sizes: tuple[int, ...]) -> str:
    """Bytes per device, as people read them."""
    return ", ".join(f"{size / 1024:,.0f}" for size in sizes) + f" KiB on device 0 to {len(sizes) - 1}"


def same(difference: float) -> tuple[str, str]:
    """The row about gradients."""
    return "gradients", f"differ from one-device training by {difference:.1e} of their size, measured"
