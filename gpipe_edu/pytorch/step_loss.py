"""The loss that a step returns: a number, whose `backward()` says that the step has run it."""

from __future__ import annotations

import copy
from typing import Any, NoReturn

from torch import Tensor

from . import torch_private


def as_step_loss(loss: Tensor) -> Tensor:
    """`loss` as a StepLoss. One of the user's own kind stays so; and without the private name, PyTorch has the word."""
    known = type(loss) is Tensor and torch_private.disabled_torch_function is not None
    return loss.as_subclass(StepLoss) if known else loss


class StepLoss(Tensor):
    """As a detached tensor; what is computed from it, a copy of it and what is saved of it are plain tensors."""

    __torch_function__ = torch_private.disabled_torch_function

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
