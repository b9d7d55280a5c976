"""What acts on an optimizer and leaves no trace there is noted when it is made.

All other schedulers write `initial_lr` into the optimizer's groups, but ReduceLROnPlateau writes nothing, and a
GradScaler may be known to the loss function alone. PyTorch has no list of them and no hook for their creation, so their
`__init__` is replaced by one that also notes them: users need not pass on what they might forget.
"""

from __future__ import annotations

from functools import wraps
from typing import Any, Final, TypeVar
from weakref import WeakSet

from torch.amp import GradScaler
from torch.optim.lr_scheduler import ReduceLROnPlateau

T = TypeVar("T")


def note(kind: type[T]) -> WeakSet[T]:
    """The objects of `kind`, or of a subclass, that are made from now on, while they are in use."""
    noted: WeakSet[T] = WeakSet()
    make = kind.__init__

    @wraps(make)
    def make_and_note(self: T, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        noted.add(self)

    setattr(kind, "__init__", make_and_note)  # noqa: B010
    return noted


SCALERS: Final = note(GradScaler)
PLATEAUS: Final = note(ReduceLROnPlateau)
