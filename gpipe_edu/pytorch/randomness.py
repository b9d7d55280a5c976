"""Random numbers that do not depend on which thread comes first, and that a recompute draws again.

PyTorch has one generator per device, shared by all threads. So an op that draws random numbers gets its own seed, made
from the generator's state, micro-batch and stage, and holds a lock while it runs; the generator is then put back. A
stage that draws none is found out by its first op of the step and runs without the lock.

Known limits: forwards that draw run one at a time, and a layer that draws for some micro-batch must draw for the first
one as well, or a recompute cannot draw the same again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.Lock()
_local = threading.local()


class Randomness:
    """The random numbers of one step. `torch.manual_seed` rules them; a step that draws none leaves no trace."""

    def __init__(self) -> None:
        state = torch.get_rng_state().numpy().tobytes()
        self._seed = int.from_bytes(hashlib.blake2b(state, digest_size=7).digest(), "big")
        self._draws: dict[int, bool] = {}  # per stage: does it draw random numbers?
        # A pipeline inside an op of another one: that op holds the lock already, and its seed rules.
        self._nested = getattr(_local, "holds_lock", False)

    def may_draw(self, stage: int) -> bool:
        """False once the stage's first op has drawn none."""
        return not self._nested and self._draws.get(stage, True)

    @contextmanager
    def of(self, micro_batch: int, stage: int, device: torch.device) -> Iterator[None]:
        """Around a forward or recompute: the same numbers for the same micro-batch and stage, in any thread."""
        generators = [torch.default_generator]
        if device.type == "cuda":
            generators.append(torch.cuda.default_generators[device.index])
        with _lock:
            _local.holds_lock = True
            before = [generator.get_state() for generator in generators]
            # A large odd multiplier keeps the seeds of neighbours apart; manual_seed takes 64 bits.
            seed = (self._seed + 0x9E3779B97F4A7C15 * (1 + (micro_batch << 20) + stage)) % 2**63
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
                _local.holds_lock = False

    def finish(self) -> None:
        """After a step that drew: move the generator on, so that the next step draws other numbers."""
        if any(self._draws.values()):
            torch.randint(2, ())
