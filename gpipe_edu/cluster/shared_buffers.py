"""Buffers that layers on several ranks share, such as one mask for all blocks: each rank gets a copy.

That is right while nobody writes to them. A layer that does, in a step, would leave the others with the old values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import nn


class SharedBuffers:
    """Those of this `rank` that others have, too. homes: for each stage its rank."""

    def __init__(self, stages: Sequence[Sequence[nn.Module]], homes: Mapping[int, int], rank: int) -> None:
        places: dict[int, list[tuple[int, nn.Module, str]]] = {}
        for k, layers in enumerate(stages):
            for module in (module for layer in layers for module in layer.modules()):
                for name, buffer in module._buffers.items():
                    if buffer is not None and not buffer.is_meta and buffer.numel() > 0:
                        places.setdefault(buffer.data_ptr(), []).append((k, module, name))
        self._here: list[tuple[nn.Module, str, str]] = []
        for held in places.values():
            if len({homes[k] for k, _, _ in held}) > 1:
                where = ", ".join(f"{type(module).__name__}.{name} in stage {k}" for k, module, name in held)
                self._here += [(module, name, where) for k, module, name in held if homes[k] == rank]
        self._written = ""

    @contextmanager
    def of_step(self) -> Iterator[None]:
        """Around all that runs layers."""
        before = [self._state(module, name) for module, name, _ in self._here]
        yield
        for (module, name, where), was in zip(self._here, before, strict=True):
            if self._state(module, name) != was:
                self._written = where

    def check(self) -> None:
        """Raises ValueError if one was written to in an earlier step."""
        if self._written:
            raise ValueError(
                f"a layer has written to a buffer that layers on several ranks share ({self._written}), and each rank "
                "has a copy, which the others do not see; give each layer its own: buffer.clone()"
            )

    @staticmethod
    def _state(module: nn.Module, name: str) -> tuple[int, int]:
        buffer = module._buffers[name]
        return id(buffer), -1 if buffer is None else buffer._version
