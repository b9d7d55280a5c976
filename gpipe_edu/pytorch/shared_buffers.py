"""Buffers that several stages hold, such as one mask or one rotary embedding for all blocks.

That is right while nobody writes to them. Stages run at the same time, and each rank of several processes has a copy:
what a layer writes there in a step, the others see too early, too late or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .guards import memory_of

State = tuple[Tensor | None, int]
"""A buffer, and how often it was written to."""


class SharedBuffers:
    """The buffers that layers of two or more `stages` have. here: the stages in this process, by default all."""

    def __init__(self, stages: Sequence[Sequence[nn.Module]], here: Collection[int] | None = None) -> None:
        places: dict[int, list[tuple[int, nn.Module, str]]] = {}
        for k, module in _modules(stages):
            for name, buffer in module._buffers.items():
                if buffer is not None and not is_lazy(buffer) and not buffer.is_meta and buffer.numel() > 0:
                    places.setdefault(memory_of(buffer) or id(buffer), []).append((k, module, name))
        self._here: list[tuple[nn.Module, str, str]] = []
        for held in places.values():
            if len({k for k, _, _ in held}) > 1:
                where = ", ".join(f"{type(module).__name__}.{name} in stage {k}" for k, module, name in held)
                self._here += [(module, name, where) for k, module, name in held if here is None or k in here]
        self._written = ""

    @contextmanager
    def of_step(self) -> Iterator[None]:
        """Around all that runs layers."""
        before = [_state(module, name) for module, name, _ in self._here]
        yield
        for (module, name, where), was in zip(self._here, before, strict=True):
            if _is_written(_state(module, name), was):
                self._written = where

    def check(self) -> None:
        """Raises ValueError if one was written to in an earlier step."""
        if self._written:
            raise ValueError(
                f"a layer has written to a buffer that several stages share ({self._written}), and what one stage "
                "writes the others may not see, or too late; give each layer its own: buffer.clone(), or "
                "copy.deepcopy(layer) where they share the layer"
            )


def modules_of_several(stages: Sequence[Sequence[nn.Module]]) -> set[nn.Module]:
    """The modules with buffers that are in two stages or more."""
    first: dict[nn.Module, int] = {}
    return {module for k, module in _modules(stages) if module._buffers and first.setdefault(module, k) != k}


def _modules(stages: Sequence[Sequence[nn.Module]]) -> Iterator[tuple[int, nn.Module]]:
    """The modules of each stage, with its number."""
    return ((k, module) for k, layers in enumerate(stages) for layer in layers for module in layer.modules())


def _state(module: nn.Module, name: str) -> State:
    buffer = module._buffers[name]
    return buffer, _version(buffer)


def _is_written(now: State, before: State) -> bool:
    """Whether it has other numbers: a layer may hold the same ones in the type of its input, say."""
    (buffer, version), (held, earlier) = now, before
    if buffer is held or buffer is None or held is None:
        return buffer is not held or version != earlier
    comparable = buffer.layout == held.layout == torch.strided and buffer.shape == held.shape
    return _version(held) != earlier or not comparable or not torch.equal(buffer, held.to(buffer))


def _version(buffer: Tensor | None) -> int:
    return -1 if buffer is None or buffer.is_inference() else buffer._version
