"""What crosses each boundary between stages, found on PyTorch's device "meta", whose tensors hold no numbers.

Each layer is called that way when a pipeline is made, and once for each new form of mini-batch, with hooks and all, but
its weights, buffers and random numbers stay as they are. PyTorch's engine sends tensors from each stage to the next
one, in one order; so a value of several tensors is taken apart there, and a skip to the next stage goes with it. What
goes further is in `far_skips.py`.

`torch.func.functional_call` would not do here: of a weight or a layer that has two names it puts back only one, and it
puts back nothing that a forward sets: a table of angles that a layer keeps would stay without numbers, and a count
would be one too high.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gpipe_edu.pytorch.skip import Way, shelf
from gpipe_edu.pytorch.stage import IN_PLACE, MAIN
from gpipe_edu.pytorch.time_first import TimeIsCut, samples_are_first
from gpipe_edu.pytorch.values import check, differentiable
from gpipe_edu.pytorch.weights import stand_in

Held = Tensor | tuple[Tensor, ...] | dict[str, Tensor]
"""A value between two layers."""

_ROWS = 2
"""BatchNorm refuses to train on one sample."""

_OTHER_ROWS = 22
"""A stage that may have as many time steps as samples is tried again with this many: hardly any has both 2 and 22."""


class Part(NamedTuple):
    """A tensor that crosses. shape: of one sample. dtype: of its numbers."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"shape {self.shape} and type {self.dtype}"


class Form(NamedTuple):
    """How a value holds its tensors. number: how many. keys: of a dictionary. alone: one tensor, not a tuple of one."""

    number: int
    keys: tuple[str, ...] | None
    alone: bool

    @classmethod
    def of(cls, value: Held) -> Form:
        """The form of `value`."""
        keys = tuple(value) if isinstance(value, dict) else None
        return cls(len(parts_of(value)), keys, isinstance(value, Tensor))

    def hold(self, parts: Sequence[Tensor]) -> Held:
        """A value of this form."""
        if self.keys is not None:
            return dict(zip(self.keys, parts, strict=True))
        return parts[0] if self.alone else tuple(parts)


class Boundary(NamedTuple):
    """parts: the tensors that cross, those of one value after those of another. forms: by name, those of the value that
    goes from layer to layer, and of the skips from an earlier stage to a later one."""

    parts: tuple[Part, ...]
    forms: tuple[tuple[str, Form], ...]

    @classmethod
    def of(cls, values: Mapping[str, Held]) -> Boundary:
        """The boundary that `values` cross."""
        parts = [Part(tuple(one.shape[1:]), one.dtype) for value in values.values() for one in parts_of(value)]
        return cls(tuple(parts), tuple((name, Form.of(value)) for name, value in values.items()))

    def names(self) -> list[str]:
        """The names of its values."""
        return [name for name, _ in self.forms]

    def only(self, names: Sequence[str]) -> Boundary:
        """This boundary with these values alone, in this order."""
        found, start = {}, 0
        for name, form in self.forms:
            found[name] = form, self.parts[start : start + form.number]
            start += form.number
        parts = tuple(part for name in names for part in found[name][1])
        return Boundary(parts, tuple((name, found[name][0]) for name in names))

    def kinds(self) -> tuple[object, ...]:
        """All but the shapes."""
        return self.forms, tuple(part.dtype for part in self.parts)

    def empty(self, samples: int, device: torch.device, grad: bool = False) -> tuple[Tensor, ...]:
        """Uninitialized tensors for so many samples. grad: whether those that may require a gradient do."""
        made = (torch.empty((samples, *part.shape), dtype=part.dtype, device=device) for part in self.parts)
        return tuple(one.requires_grad_(grad and differentiable(one)) for one in made)

    def bytes(self, samples: int) -> int:
        """The size of so many samples."""
        return samples * sum(part.dtype.itemsize * int(torch.Size(part.shape).numel()) for part in self.parts)

    def pack(self, values: Mapping[str, Held]) -> tuple[Tensor, ...]:
        """The tensors of `values`, each in one piece of memory, as they travel."""
        return tuple(one.contiguous() for name, _ in self.forms for one in parts_of(values[name]))

    def unpack(self, parts: Sequence[Tensor]) -> dict[str, Held]:
        """The inverse of `pack`."""
        values, start = {}, 0
        for name, form in self.forms:
            values[name] = form.hold(parts[start : start + form.number])
            start += form.number
        return values

    def __str__(self) -> str:
        keys = self.forms[0][1].keys
        named = [f"{key!r} of " for key in keys] if keys else ["" for _ in self.parts]
        return " and ".join(f"{name}{part}" for name, part in zip(named, self.parts, strict=False))


class StageLayers(nn.Module):
    """`layers` of stage `index`, from what arrives there to what leaves: the value, and skips by name."""

    def __init__(self, index: int, layers: nn.Sequential, ways: Sequence[Way]) -> None:
        super().__init__()
        self.index, self.layers = index, layers
        self._taken = {way.name for way in ways if way.target == index}
        self._stashed = [way.name for way in ways if way.source == index]

    def forward(self, arrived: Mapping[str, Held]) -> dict[str, Held]:
        """What leaves, given what arrived. Raises TypeError for what can't travel."""
        with shelf({name: value for name, value in arrived.items() if name in self._taken}) as kept:
            values = {MAIN: travelling(self.layers(arrived[MAIN]), f"the output of stage {self.index}")}
        for name in self._stashed:
            if name not in kept:
                raise ValueError(
                    f'the Stash("{name}") of stage {self.index} did not run, and a later stage waits for it'
                )
            values[name] = travelling(kept[name], f'what Stash("{name}") keeps for a later stage')
        return values

    def passing(self, arrived: Mapping[str, Held]) -> dict[str, Held]:
        """Skips from a stage before this one to one after it."""
        return {name: value for name, value in arrived.items() if name != MAIN and name not in self._taken}


def to_neighbour(boundary: Boundary, stage: int, ways: Iterable[Way]) -> Boundary:
    """The part of `boundary`, behind `stage`, that goes to the next stage: the value, and the skips that end there."""
    return boundary.only([MAIN, *(way.name for way in ways if way.source == stage == way.target - 1)])


def behind(stage: StageLayers, boundary: Boundary) -> Boundary:
    """What crosses the boundary behind `stage` if `boundary` goes in.

    Raises ValueError or TypeError for a stage that changes the number of samples, changes its input in place, gives
    back anything but tensors, or can't be run without numbers.
    """
    try:
        return _tried(stage, boundary, _ROWS)
    except TimeIsCut:
        return _tried(stage, boundary, _OTHER_ROWS)


def _tried(stage: StageLayers, boundary: Boundary, rows: int) -> Boundary:
    k, arrived = stage.index, boundary.empty(rows, torch.device("meta"))
    versions, held = [one._version for one in arrived], boundary.unpack(arrived)
    shapes = {tuple(one.shape) for one in arrived}
    try:
        with (
            samples_are_first(stage.layers, shapes, f" of stage {k}", refuse_doubts=True),
            without_numbers(stage),
        ):
            values = {**stage(held), **stage.passing(held)}
    except (TypeError, ValueError):
        raise
    except Exception as error:
        first = (str(error).strip() or "no words").splitlines()[0]
        raise ValueError(
            f"stage {k} can't be run with samples of {boundary}: {type(error).__name__}: {first}. It was tried without "
            "numbers, on PyTorch's device 'meta', by which processes learn what travels between them"
        ) from error
    if [one._version for one in arrived] != versions:  # also of stage 0: its micro-batches are parts of one tensor
        raise ValueError(f"stage {k}: {IN_PLACE}")
    for value in values.values():
        for part in parts_of(value):
            if part.ndim == 0 or len(part) != rows:
                raise ValueError(
                    f"stage {k} makes shape {tuple(part.shape)} of {rows} samples; between ranks go tensors whose "
                    "first dimension is the samples"
                )
    return Boundary.of(values)


def boundaries(stages: Sequence[StageLayers], first: Boundary) -> list[Boundary]:
    """What goes into stage 0, which is `first`, into stage 1, ... and what comes out of the last one. Raises as
    `behind` does."""
    found = [first]
    for stage in stages:
        found.append(behind(stage, found[-1]))
    return found


def parts_of(value: Held) -> tuple[Tensor, ...]:
    """The tensors of a value, one or several."""
    return tuple(value.values()) if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)


def travelling(value: object, what: str) -> Held:
    """`value` if it can travel between ranks. Raises TypeError that says what `what` is instead."""
    if type(value) is dict and value and all(isinstance(key, str) for key in value):
        check(tuple(value.values()), what)
        return value
    return check(value, what)


_META: Final = torch.device("meta")


@contextmanager
def without_numbers(layers: nn.Module) -> Iterator[None]:
    """Here `layers` hold weights and buffers on the device "meta"; then all is put back, whatever a forward has set.

    That covers attributes, what lists, dictionaries and sets among them hold, and the state of random numbers. A tensor
    that is neither a weight nor a buffer stays where it is.
    """
    ours = {id(tensor): stand_in(tensor, _META) for tensor in chain(layers.parameters(), layers.buffers())}
    attributes = [vars(module) for module in layers.modules()]
    parts = [part for known in attributes for part in known.values() if type(part) in (dict, OrderedDict, list, set)]
    held = [(part, copy(part)) for part in [*attributes, *parts]]
    try:
        with _random_numbers_kept():
            for part, _ in held:
                for key, value in _entries(part):
                    if id(value) in ours:
                        part[key] = ours[id(value)]
            yield
    finally:
        for part, before in held:
            part.clear()
            part.extend(before) if isinstance(part, list) else part.update(before)


def _entries(part: Any) -> list[tuple[Any, Any]]:
    """The entries of a list or a dictionary; in a set no tensors are looked for."""
    return list(part.items()) if isinstance(part, dict) else list(enumerate(part)) if isinstance(part, list) else []


@contextmanager
def _random_numbers_kept() -> Iterator[None]:
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
