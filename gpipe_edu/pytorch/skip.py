"""Skip connections: a layer stashes a tensor, a later one takes it, even if it runs on another device.

    nn.Sequential(encoder, Stash("a"), middle, Take("a", torch.add), decoder)

In a pipeline the tensor goes straight from the stage that stashes to the stage that takes, and its gradient comes
straight back. In a plain nn.Sequential the same layers do the same, so one-device training needs no change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor, nn

_local = threading.local()


def _shelf() -> dict[str, Any]:
    """What this thread has stashed and not yet taken: inside a pipeline, of the micro-batch that is running."""
    shelf: dict[str, Any] = _local.__dict__.setdefault("shelf", {})
    return shelf


class Stash(nn.Module):
    """Passes its input on and keeps it under `name` until a later `Take(name, ...)`.

    keep: applied to the input before keeping it, for example a convolution that makes it smaller.
    """

    def __init__(self, name: str, keep: nn.Module | None = None) -> None:
        super().__init__()
        self.name, self.keep = name, keep

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        _shelf()[self.name] = x if self.keep is None else self.keep(x)
        return x


class Take(nn.Module):
    """Returns `combine(x, skip)`, where skip is what `Stash(name)` kept, and frees it.

    Raises RuntimeError if nothing was stashed under that name.
    """

    def __init__(self, name: str, combine: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.name, self.combine = name, combine

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        if self.name not in _shelf():
            raise RuntimeError(f'Take("{self.name}") found nothing; a Stash("{self.name}") must run before it')
        return self.combine(x, _shelf().pop(self.name))


class Way(NamedTuple):
    """Values named `name` go from stage `source` to stage `target`, and their gradients back."""

    name: str
    source: int
    target: int


def skip_ways(stages: Sequence[Sequence[nn.Module]]) -> list[Way]:
    """The skips that cross stage boundaries.

    Raises ValueError for a name stashed or taken twice, stashed but never taken, taken but never stashed, or taken
    by a layer before the one that stashes it.
    """
    stashed: dict[str, tuple[int, int]] = {}
    taken: dict[str, tuple[int, int]] = {}
    number = 0  # counts blocks in the order they run
    for stage, layers in enumerate(stages):
        for block in (block for layer in layers for block in _blocks(layer)):
            number += 1
            for module in block.modules():
                if isinstance(module, (Stash, Take)):
                    places = stashed if isinstance(module, Stash) else taken
                    if module.name in places:
                        verb = "stashed" if isinstance(module, Stash) else "taken"
                        raise ValueError(f'the skip "{module.name}" is {verb} twice; give each skip its own name')
                    places[module.name] = (number, stage)
    for name in stashed.keys() - taken.keys():
        raise ValueError(f'the skip "{name}" is stashed but never taken; add a Take("{name}", ...) behind it')
    for name in taken.keys() - stashed.keys():
        raise ValueError(f'the skip "{name}" is taken but never stashed; add a Stash("{name}") in front of it')
    for name, (place, _) in stashed.items():
        if taken[name][0] < place:
            raise ValueError(f'the skip "{name}" is taken before it is stashed; put Stash("{name}") in front of it')
    ways = [Way(name, stage, taken[name][1]) for name, (_, stage) in stashed.items()]
    return [way for way in ways if way.source != way.target]


def _blocks(layer: nn.Module) -> Iterator[nn.Module]:
    """The layers that a Sequential runs one after another; for other modules the order is known only to them."""
    if isinstance(layer, nn.Sequential) and type(layer).forward is nn.Sequential.forward:
        for part in layer.children():
            yield from _blocks(part)
    else:
        yield layer


@contextmanager
def shelf(received: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """For the forward of one micro-batch: a shelf of its own that starts with `received`, to be read afterwards."""
    outer = _shelf()
    _local.shelf = dict(received)
    try:
        yield _local.shelf
    finally:
        _local.shelf = outer
