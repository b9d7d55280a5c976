"""Random numbers that do not depend on which thread comes first, and that a recompute draws again.

PyTorch has one generator per device, shared by all threads. So an op that draws random numbers gets its own seed, made
from step, micro-batch and stage, and holds a lock while it runs; the generator is then put back. A stage that draws
none is found out by its first op of the step and runs without the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.Lock()


class Randomness:
    """The random numbers of one step. Takes one number from PyTorch's generator, so `torch.manual_seed` rules it."""

    def __init__(self) -> None:
        self.seed = int(torch.randint(2**62, ()))
        self._draws: dict[int, bool] = {}  # per stage: does it draw random numbers?

    def may_draw(self, stage: int) -> bool:
        """False once the stage's first op has drawn none."""
        return self._draws.get(stage, True)

    @contextmanager
    def of(self, micro_batch: int, stage: int, device: torch.device) -> Iterator[None]:
        """Around a forward or recompute: the same numbers for the same micro-batch and stage, in any thread."""
        generators = [torch.default_generator]
        if device.type == "cuda":
            generators.append(torch.cuda.default_generators[device.index])
        with _lock:
            before = [generator.get_state() for generator in generators]
            # A large odd multiplier keeps the seeds of neighbours apart; manual_seed takes 64 bits.
            seed = (self.seed + 0x9E3779B97F4A7C15 * (1 + (micro_batch << 20) + stage)) % 2**63
            for generator in generators:
                generator.manual_seed(seed)
            try:
                fresh = [generator.get_state() for generator in generators] if stage not in self._draws else None
                yield
                if fresh is not None:
                    after = [generator.get_state() for generator in generators]
                    self._draws[stage] = not all(map(torch.equal, fresh, after))
            finally:
                for generator, state in zip(generators, before, strict=True):
                    generator.set_state(state)
