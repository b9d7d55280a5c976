"""Around a trial of layers or of a loss, which finds what they return: whatever it sets is put back afterwards.

Meanwhile layers hold other weights and buffers: on PyTorch's device "meta", whose tensors hold no numbers, or, where
layers can't run there, copies with the same numbers. All that hangs on the layers by attributes, lists, dictionaries
and plain objects is put back, and so are random numbers; what a forward reaches in another way, such as a global name,
is not.

`torch.func.functional_call` would not do here: of a weight or a layer that has two names it puts back only one, and it
puts back nothing that a forward sets: a table of angles that a layer keeps would stay without numbers, and a count
would be one too high. Nor would a deep copy of the layers: locks, graphs and open files can't be copied.
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from .weights import stand_in

_META: Final = torch.device("meta")

_MAPPINGS: Final = (dict, OrderedDict, defaultdict, Counter)
_CONTAINERS: Final = (*_MAPPINGS, list, set, deque)

_NOT_LOOKED_INTO: Final = (nn.Module, Tensor, np.ndarray, type, ModuleType, FunctionType)


@contextmanager
def without_numbers(layers: nn.Module) -> Iterator[None]:
    """Here `layers` hold weights and buffers on the device "meta".

    A tensor that is neither a weight nor a buffer stays where it is.
    """
    with _random_numbers_kept(torch.device("cpu")), _holding(layers, lambda tensor: stand_in(tensor, _META)):
        yield


@contextmanager
def with_copies(layers: nn.Module, device: torch.device) -> Iterator[None]:
    """Here `layers`, which are on `device`, hold copies of their weights and buffers."""
    with _random_numbers_kept(device), _holding(layers, lambda tensor: stand_in(tensor, copied=True)):
        yield


@contextmanager
def as_before(function: object) -> Iterator[None]:
    """Around a call of `function`, such as a loss. It keeps what it holds: a module all that layers keep in a trial, a
    function what is in the lists, dictionaries and sets that it, or a function it calls, refers to by name. Of random
    numbers the caller takes care."""
    if isinstance(function, nn.Module):
        with _holding(function, lambda tensor: stand_in(tensor, copied=True)):
            yield
        return
    held: list[Any] = []
    found: list[Any]
    functions, seen = [function], set[int]()
    while functions:
        one = functions.pop()
        if id(one) not in seen and not isinstance(one, nn.Module):
            seen.add(id(one))
            inner = getattr(one, "__func__", getattr(one, "func", one))
            found = []
            for cell in getattr(inner, "__closure__", None) or ():
                with suppress(ValueError):  # a name that has no value yet
                    found.append(cell.cell_contents)
            held += [*found, getattr(one, "__dict__", None), getattr(getattr(one, "__self__", None), "__dict__", None)]
            functions += [*filter(callable, found), *([] if inner is one else [inner])]
    parts = [(part, copy(part)) for part in _reached(held, into_objects=False) if isinstance(part, _CONTAINERS)]
    try:
        yield
    finally:
        for part, before in parts:
            _put_back(part, before)


@contextmanager
def _holding(layers: nn.Module, make: Callable[[Tensor], Tensor]) -> Iterator[None]:
    others = {id(tensor): make(tensor) for tensor in chain(layers.parameters(), layers.buffers())}
    reached = list(_reached(vars(module) for module in layers.modules()))
    held: list[tuple[Any, Any]] = [(part, copy(part)) for part in reached if isinstance(part, _CONTAINERS)]
    put_back = [undo for part in reached if (undo := _undo(part)) is not None]
    try:
        for part, _ in held:
            for key, value in _entries(part):
                if isinstance(value, Tensor):
                    if id(value) not in others:
                        others[id(value)] = stand_in(value, copied=True)
                    part[key] = others[id(value)]
        yield
    finally:
        for part, before in held:
            _put_back(part, before)
        for undo in put_back:
            undo()


def _reached(roots: Iterable[Any], *, into_objects: bool = True) -> Iterator[Any]:
    """`roots`, and all that hangs on them, each once."""
    queue: deque[Any] = deque(roots)
    seen: set[int] = set()
    while queue:
        one = queue.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, _MAPPINGS):
            queue.extend(one.values())
        elif isinstance(one, (list, tuple, deque)):
            queue.extend(one)
        elif into_objects and hasattr(one, "__dict__") and not isinstance(one, _NOT_LOOKED_INTO):
            queue.append(vars(one))


def _entries(part: Any) -> list[tuple[Any, Any]]:
    """The entries that can be exchanged; in a set no tensors are looked for."""
    if isinstance(part, _MAPPINGS):
        return list(part.items())
    return list(enumerate(part)) if isinstance(part, (list, deque)) else []


def _put_back(part: Any, before: Any) -> None:
    """Make `part` hold what `before` does; not touched if it does, since another thread may look at it."""
    if isinstance(part, _MAPPINGS):
        now, then = list(part.items()), list(before.items())
        same = len(now) == len(then) and all(a is c and b is d for (a, b), (c, d) in zip(now, then, strict=True))
    else:
        same = len(part) == len(before) and (
            part == before if isinstance(part, set) else all(a is b for a, b in zip(part, before, strict=True))
        )
    if not same:
        part.clear()
        part.extend(before) if isinstance(part, (list, deque)) else part.update(before)


def _undo(part: Any) -> Callable[[], object] | None:
    """How a thing that is changed in place is made what it is now; None for all others."""
    if isinstance(part, torch.Generator):
        return partial(part.set_state, part.get_state())
    if isinstance(part, random.Random):
        return partial(part.setstate, part.getstate())
    if isinstance(part, np.random.RandomState):
        return partial(part.set_state, part.get_state())
    if isinstance(part, np.random.Generator):
        return partial(setattr, part.bit_generator, "state", part.bit_generator.state)
    if isinstance(part, np.ndarray) and part.flags.writeable:
        return partial(np.copyto, part, part.copy())
    return None


@contextmanager
def _random_numbers_kept(device: torch.device) -> Iterator[None]:
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
