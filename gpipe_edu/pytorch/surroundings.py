"""What stands around a call in the user's thread, and must hold for what a pipe runs on its own threads.

PyTorch and Python keep it per thread. What is a mere setting goes along with the ops: context variables and the default
device. What watches a thread, a profiler or a FLOP counter say, can be in one thread only; so the ops come to it, and
run there one by one, in an order that the schedule allows.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from .ledger import hooks_in_force
from .randomness import Stream

_T = TypeVar("_T")


def thread_is_watched() -> bool:
    """Whether something looks at what PyTorch does in this thread, and in no other."""
    return (
        # False for a profiler that was asked for all threads: that one needs no help.
        torch._C._autograd._profiler_enabled()
        or hooks_in_force() is not None
        or any(not isinstance(mode, Stream) for mode in _get_current_dispatch_mode_stack())
        or any(not isinstance(mode, DeviceContext) for mode in _get_current_function_mode_stack())  # type: ignore[no-untyped-call]
    )


class Surroundings:
    """The settings of the thread that makes one, to be taken to others, or to a later moment."""

    def __init__(self) -> None:
        self._variables = contextvars.copy_context()
        self._device = torch.get_default_device() if torch._C._len_torch_function_stack() else None
        self._hooks = hooks_in_force()

    def run(self, job: Callable[[], _T]) -> _T:
        """What `job` returns, called as if in that thread, then."""
        return self._variables.copy().run(self._inside, job)  # a copy: a context serves one thread at a time

    def _inside(self, job: Callable[[], _T]) -> _T:
        with ExitStack() as around:
            if self._device is not None:
                around.enter_context(self._device)
            if self._hooks is not None:
                around.enter_context(torch.autograd.graph.saved_tensors_hooks(*self._hooks))
            return job()
