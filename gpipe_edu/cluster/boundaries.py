"""What crosses each boundary between stages, found by a trial of two samples: on PyTorch's device "meta", whose tensors
hold no numbers, or, where layers look at numbers, with numbers.

Each layer is called that way when a pipeline is made, and once for each new form of mini-batch, with hooks and all, but
its weights, buffers and random numbers stay as they are (`pytorch/trial.py`). PyTorch's engine sends tensors from each
stage to the next one, in one order; so a value of several tensors is taken apart there, and a skip to the next stage
goes with it. What goes further is in `far_skips.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from gpipe_edu.pytorch.guards import what_it_means
from gpipe_edu.pytorch.skip import Way, shelf
from gpipe_edu.pytorch.stage import IN_PLACE, MAIN
from gpipe_edu.pytorch.time_first import TimeIsCut, samples_are_first
from gpipe_edu.pytorch.trial import with_copies, without_numbers
from gpipe_edu.pytorch.values import check, differentiable, not_in_pieces, plain

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
        return tuple(plain(one) for name, _ in self.forms for one in parts_of(values[name]))

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


def behind(stage: StageLayers, boundary: Boundary, device: torch.device, samples: int) -> Boundary:
    """What crosses the boundary behind `stage`, whose layers are on `device`, if `boundary` goes in.

    samples: those of the mini-batch, for the message. Raises ValueError or TypeError for a stage that changes the
    number of samples, changes its input in place, gives back anything but tensors, or can't be run.
    """
    try:
        return _tried(stage, boundary, device, _ROWS, samples)
    except TimeIsCut:
        return _tried(stage, boundary, device, _OTHER_ROWS, samples)


def _tried(stage: StageLayers, boundary: Boundary, device: torch.device, rows: int, samples: int) -> Boundary:
    """Without numbers, and, where that fails, with numbers, which a stage has unless it is on the device "meta"."""
    try:
        return _run(stage, boundary.empty(rows, torch.device("meta")), boundary, without_numbers(stage))
    except TimeIsCut:
        raise
    except Exception as error:
        failure = error
    for fill in _FILLINGS if not any(one.is_meta for one in chain(stage.parameters(), stage.buffers())) else ():
        try:
            arrived = boundary.empty(rows, device)
            fill(arrived)
            return _run(stage, arrived, boundary, with_copies(stage, device))
        except TimeIsCut:
            raise
        except Exception as error:
            if fill is _like_data:  # of it, since PyTorch's words about "meta" say nothing of the layer
                failure = error
    meaning = what_it_means(failure, rows, samples)
    if type(failure) in (TypeError, ValueError) and not meaning:  # one of a class of its own may not travel
        raise failure
    first = (str(failure).strip() or "no words").splitlines()[0]
    raise ValueError(
        f"stage {stage.index} can't be run with samples of {boundary}: {type(failure).__name__}: {first}. "
        + (f"Here {meaning}" if meaning else "It was tried on samples made up, by which processes learn what travels")
    ) from failure


def _run(
    stage: StageLayers, arrived: tuple[Tensor, ...], boundary: Boundary, trial: AbstractContextManager[None]
) -> Boundary:
    k, rows = stage.index, len(arrived[0])
    versions, held = [one._version for one in arrived], boundary.unpack(arrived)
    shapes = {tuple(one.shape) for one in arrived}
    with samples_are_first(stage.layers, shapes, f" of stage {k}", refuse_doubts=True), trial:
        values = {**stage(held), **stage.passing(held)}
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


def _like_data(parts: Iterable[Tensor]) -> None:
    """Numbers between 0 and 1, whose logarithms, roots and inverses there are; the whole number 1; True."""
    source = torch.Generator().manual_seed(0)
    for part in parts:
        part.copy_(torch.rand(part.shape, generator=source)) if differentiable(part) else part.fill_(1)


def _zeros(parts: Iterable[Tensor]) -> None:
    """Zeros and False: the only whole number that is a place in every table."""
    for part in parts:
        part.zero_()


_FILLINGS: Final[tuple[Callable[[Iterable[Tensor]], None], ...]] = (_like_data, _zeros)
"""What a stage is tried on, one after another, until one works."""


def boundaries(
    stages: Sequence[StageLayers], first: Boundary, samples: int, *, complete: bool = True
) -> list[Boundary]:
    """What goes into stage 0, which is `first`, into stage 1, ... and what comes out of the last one. Raises as
    `behind` does.

    complete: whether all stages are here as they will run. If not, this ends before a stage that can't be tried here.
    """
    found = [first]
    for stage in stages:
        try:
            found.append(behind(stage, found[-1], torch.device("cpu"), samples))
        except (TypeError, ValueError):
            if complete:
                raise
            break
    return found


def parts_of(value: Held) -> tuple[Tensor, ...]:
    """The tensors of a value, one or several."""
    return tuple(value.values()) if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)


def samples_in(value: Held) -> int:
    """How many samples `value` has; 0 for a single number, which has none."""
    first = parts_of(value)[0]
    return len(first) if first.ndim else 0


def travelling(value: object, what: str) -> Held:
    """`value` if it can travel between ranks. Raises TypeError that says what `what` is instead."""
    if type(value) is dict and value and all(isinstance(key, str) for key in value):
        check(tuple(value.values()), what)
        return value
    return not_in_pieces(value, what) if what in ("x", "the example") else check(value, what)
