"""The per-thread settings of the user's thread, which must also hold where a pipe runs on its own threads.

Mere settings are copied to the workers: context variables and the default device. What watches a thread, such as a
profiler or a FLOP counter, can be in one thread only; so the ops then run in that thread, one by one, in an order that
the schedule allows. Autocast is not here: a recompute needs it, too, so `mini_batch.py` notes it and `stage.py` sets
it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from . import torch_private
from .ledger import hooks_in_force
from .randomness import Stream

_T = TypeVar("_T")


def thread_is_watched() -> bool:
    """Whether a profiler or the like watches what PyTorch does in this thread alone."""
    return (
        # False for a profiler that watches all threads anyway.
        torch_private.profiler_enabled()
        or hooks_in_force() is not None
        or any(not isinstance(mode, Stream) for mode in torch_private.dispatch_modes())
        or bool(_function_modes())
    )


def _function_modes() -> list[TorchFunctionMode]:
    return [mode for mode in torch_private.function_modes() if not isinstance(mode, torch_private.DeviceContext)]


class Surroundings:
    """The settings of the thread that creates it, for use in other threads, or later."""

    def __init__(self) -> None:
        self._variables = contextvars.copy_context()
        self._device = torch.get_default_device() if torch_private.count_function_modes() else None
        self._hooks = hooks_in_force()
        self._modes = _function_modes()

    def run(self, job: Callable[[], _T]) -> _T:
        """What `job` returns, called as if in that thread, at that time."""
        return self._variables.copy().run(self._inside, job)  # a copy: a context serves one thread at a time

    def _inside(self, job: Callable[[], _T]) -> _T:
        with ExitStack() as around:
            if self._device is not None:
                around.enter_context(self._device)
            if self._hooks is not None:
                around.enter_context(torch.autograd.graph.saved_tensors_hooks(*self._hooks))
            # A TorchFunctionMode that changes a forward must change its recompute, too; backward() disables it.
            for mode in self._modes:
                if mode not in _function_modes():
                    around.enter_context(_push(mode))
            return job()


@contextmanager
def _push(mode: TorchFunctionMode) -> Iterator[None]:
    # Not `with mode`, which is the user's to enter and leave.
    torch_private.push_function_mode(mode)
    try:
        yield
    finally:
        torch_private.pop_function_mode()


class Modes:
    """Which layers were in training mode at a forward: that may have changed when its backward recomputes."""

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        self._then = [(module, module.training) for layer in layers for module in layer.modules()]

    @contextmanager
    def again(self) -> Iterator[None]:
        """Around the backward."""
        now = [(module, module.training) for module, _ in self._then]
        _switch(self._then)
        try:
            yield
        finally:
            _switch(now)


def _switch(modes: Iterable[tuple[nn.Module, bool]]) -> None:
    for module, training in modes:
        if module.training != training:
            module.training = training
