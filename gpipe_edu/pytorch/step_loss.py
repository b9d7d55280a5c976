"""The loss that a step returns: a number, whose `backward()` says that the step has run it."""

from __future__ import annotations

import copy
from typing import Any, NoReturn

from torch import Tensor

from .torch_private import DISABLED_TORCH_FUNCTION


class StepLoss(Tensor):
    """As a detached tensor; what is computed from it, a copy of it and what is saved of it are plain tensors."""

    __torch_function__ = DISABLED_TORCH_FUNCTION

    def backward(self, *args: Any, **named: Any) -> NoReturn:
        """Raises RuntimeError: there is nothing left to do."""
        raise RuntimeError(
            "this loss is that of a step, which has run the backward already, and the gradients are in .grad; leave "
            "loss.backward() out, or call the pipe for an output with a graph: loss_fn(pipe(x), y).backward()"
        )

    def _plain(self) -> Tensor:
        return self.as_subclass(Tensor)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return repr(self._plain())

    def __format__(self, spec: str) -> str:
        return format(self._plain(), spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return copy.deepcopy(self._plain(), memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._plain().__reduce_ex__(protocol)  # type: ignore[no-untyped-call]
