"""Buffers that layers on several ranks share, such as one mask for all blocks, or the angles of one module of rotary
embeddings: each rank gets a copy.

That is right while they are only read. A layer that writes to them, in a step, would leave the others with the old
values. What a module does with its own is seen when layers run without numbers; what others do with them, in a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

State = tuple[Tensor | None, int]
"""A buffer, and how often it was written to."""


@contextmanager
def modules_that_write(modules: Iterable[nn.Module]) -> Iterator[set[nn.Module]]:
    """Around a run of layers: which of `modules` write to buffers of their own. They run as in training, where running
    means are written."""
    writing: set[nn.Module] = set()
    before: dict[nn.Module, dict[str, State]] = {}

    def begin(module: nn.Module, _given: object) -> None:
        before[module] = {name: _state(module, name) for name in module._buffers}

    def end(module: nn.Module, _given: object, _output: object) -> None:
        if any(_is_written(_state(module, name), was) for name, was in before.pop(module).items()):
            writing.add(module)

    noted = [(module, module.training) for module in modules]
    handles = [module.register_forward_pre_hook(begin) for module, _ in noted]
    handles += [module.register_forward_hook(end) for module, _ in noted]
    try:
        for module, _ in noted:
            module.training = True
        yield writing
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in noted:
            module.training = mode


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
        before = [_state(module, name) for module, name, _ in self._here]
        yield
        for (module, name, where), was in zip(self._here, before, strict=True):
            if _is_written(_state(module, name), was):
                self._written = where

    def check(self) -> None:
        """Raises ValueError if one was written to in an earlier step."""
        if self._written:
            raise ValueError(
                f"a layer has written to a buffer that layers on several ranks share ({self._written}), and each rank "
                "has a copy, which the others do not see; give each layer its own: buffer.clone()"
            )


def _state(module: nn.Module, name: str) -> State:
    buffer = module._buffers.get(name)
    return buffer, -1 if buffer is None else buffer._version


def _is_written(now: State, before: State) -> bool:
    """Whether it has other numbers; in the type of its input, say, a layer may hold the same ones again."""
    (buffer, _), (held, version) = now, before
    if buffer is None or held is None:
        return buffer is not held
    if held._version != version or buffer is held:
        return held._version != version
    return buffer.is_meta or buffer.shape != held.shape or not torch.equal(buffer, held.to(buffer))
