"""What travels between stages: a tensor or a tuple of tensors, as in nn.Sequential."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from gpipe_edu.base.words import shorten

Value = Tensor | tuple[Tensor, ...]


def tensors(value: Value) -> tuple[Tensor, ...]:
    """The tensors of a value, one or several."""
    return value if isinstance(value, tuple) else (value,)


def like(value: Value, parts: tuple[Tensor, ...]) -> Value:
    """`parts` in the form of `value`."""
    return parts if isinstance(value, tuple) else parts[0]


def change(function: Callable[[Tensor], Tensor], value: Value) -> Value:
    """`function` on every tensor of a value."""
    return like(value, tuple(function(part) for part in tensors(value)))


def sizes_of(pieces: Sequence[Value]) -> list[int]:
    """Samples in each micro-batch."""
    return [tensors(piece)[0].shape[0] for piece in pieces]


def check(value: object, what: str) -> Value:
    """`value` if it can travel. Raises TypeError that says what `what` gave instead of tensors."""
    parts = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        raise TypeError(
            f"{what} is a {type(value).__name__}, a NamedTuple, whose names are lost between stages; give a plain tuple"
        )
    if parts and all(isinstance(part, torch.Tensor) for part in parts):
        return value  # type: ignore[return-value]
    inside = ", ".join(type(part).__name__ for part in parts)
    got = f"a tuple of ({inside})" if isinstance(value, tuple) else type(value).__name__
    do = ": its values as a tuple, say, which the next layer gets as it is" if isinstance(value, Mapping) else ""
    raise TypeError(f"{what} is {got}; it must be a tensor or a tuple of tensors{do}")


def not_in_pieces(value: object, what: str) -> Value:
    """`check` of what a call was given. Raises TypeError also for a list, as of micro-batches that were cut before."""
    if isinstance(value, list):
        raise TypeError(
            f"{what} is a list; give the whole mini-batch, a tensor, which is cut into micro-batches here, and several "
            "tensors for each sample as a tuple"
        )
    return check(value, what)


def shown(argument: object) -> str:
    """An argument as an error quotes it: a tensor by its shape, anything long by its beginning."""
    if isinstance(argument, Tensor):
        return f"a tensor of shape {tuple(argument.shape)}"
    return shorten(repr(argument), 80)


def differentiable(tensor: Tensor) -> bool:
    """False for whole numbers and truth values, which have no gradient."""
    return tensor.is_floating_point() or tensor.is_complex()


def plain(tensor: Tensor) -> Tensor:
    """`tensor` in one piece of memory, which a message carries as it is; some are conjugated or negated only when they
    are read."""
    return tensor.resolve_conj().resolve_neg().contiguous()
