"""What is to be trained, on which machine, and in which numbers."""

from __future__ import annotations

from typing import Final, NamedTuple

from gpipe_edu.base.validate import whole

from .machine import Machine
from .model import Model


class BytesPerParameter(NamedTuple):
    """Bytes per parameter."""

    weight: int
    gradient: int
    optimizer: int  # what the optimizer keeps, with its own copy of the weight if there is one

    def shared(self, zero: int, ranks: int) -> tuple[float, float, float]:
        """Bytes on one of `ranks` devices: ZeRO-1 divides the optimizer's, ZeRO-2 gradients too, ZeRO-3 all."""
        parts = self.weight, self.gradient, self.optimizer
        return tuple(  # type: ignore[return-value]  # three of them
            part / (ranks if zero >= stage else 1) for part, stage in zip(parts, (3, 2, 1), strict=True)
        )


STATES: Final = {
    "sgd": BytesPerParameter(4, 4, 0),
    "momentum": BytesPerParameter(4, 4, 4),
    "rmsprop": BytesPerParameter(4, 4, 4),
    "adam": BytesPerParameter(4, 4, 8),
    "mixed-adam": BytesPerParameter(2, 4, 12),
}
"""By optimizer, in 32-bit numbers; "mixed-adam" computes with 16 bits and adds gradients up in 32, as Megatron Core
does. Rajbhandari et al. 2019 (arXiv 1910.02054, 3.1) count 2 bytes for a gradient, which is never added to another."""


class Job(NamedTuple):
    """What is to be trained, and on which machine."""

    model: Model
    batch: int  # N, over all replicas
    machine: Machine
    state: BytesPerParameter = STATES["adam"]
    activation: int = 4  # bytes per number stored or sent

    def check(self) -> Job:
        """Return self. Raises ValueError or TypeError for what cannot be planned, naming it and what is allowed."""
        whole("batch", self.batch, 1)
        whole("activation", self.activation, 1)
        for name, value in self.state._asdict().items():
            whole(f"state {name}", value, 0)
        self.machine.check()
        return self
