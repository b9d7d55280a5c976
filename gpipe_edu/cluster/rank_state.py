"""The part of a training that each rank has for itself: its random numbers, and what only the user knows of.

The latter may be a place in the data or a ShardedGradScaler. A resume with the same stages and replicas gives each rank
its own; with others it gives what was the same on all ranks, or on all of the same replica.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from .checkpoint_folder import read_object, write_object
from .pipeline import Pipeline

Extra = Mapping[str, Any]
"""By name: a dict, a torch.Generator, or anything that has `state_dict` and `load_state_dict`."""


_NAME: Final = re.compile(r"replica-(\d+)-rank-(\d+)\.pt")


class Place(NamedTuple):
    """A rank within a replica."""

    replica: int
    rank: int

    @classmethod
    def of(cls, pipeline: Pipeline) -> Place:
        """The place of this process."""
        replica = 0 if pipeline.replicas is None else dist.get_rank(pipeline.replicas)
        return cls(replica, pipeline.rank)

    def path(self, folder: Path) -> Path:
        """The file of this rank."""
        return folder / f"replica-{self.replica}-rank-{self.rank}.pt"


def write(folder: Path, pipeline: Pipeline, extra: Extra) -> Path:
    """Write this rank's random states, and that of each `extra`; returns the file."""
    states = {name: _state(thing) for name, thing in extra.items()}
    file = Place.of(pipeline).path(folder)
    return write_object(file, {"random": _random(pipeline.device), "extra": states})


class RankState(NamedTuple):
    """random: states by kind of generator, those that this rank can have. extra: states by name. differing: names of
    those that ranks had differently, so that this rank can have none."""

    random: dict[str, Any]
    extra: dict[str, Any]
    differing: list[str]

    @classmethod
    def read(cls, folder: Path, pipeline: Pipeline) -> RankState:
        """What `write` has written to `folder`, for this rank."""
        names = (_NAME.fullmatch(path.name) for path in folder.iterdir())
        places = sorted(Place(int(found[1]), int(found[2])) for found in names if found)
        replicas, ranks = (max(numbers) + 1 for numbers in zip(*places, strict=True))
        mine = Place.of(pipeline)
        if replicas == pipeline.replica_count:
            places = [place for place in places if place.replica == mine.replica]
            if ranks == pipeline.schedule.devices:
                places = [mine]
        first, *others = (read_object(place.path(folder)) for place in places)
        common, differing = {}, {}
        for part, states in first.items():
            alike = {name: all(same(state, other[part][name]) for other in others) for name, state in states.items()}
            common[part] = {name: state for name, state in states.items() if alike[name]}
            differing[part] = [name for name in states if not alike[name]]
        return cls(common["random"], common["extra"], differing["extra"])

    def misfit(self, extra: Extra) -> str:
        """Why this job can't go on with them, as the end of a sentence; "" if it can."""
        saved = [*self.extra, *self.differing]
        for name in saved:
            if name not in extra:
                return f"was saved with an extra {name!r}, which would be lost: load(..., extra={{{name!r}: ...}})"
        for name in extra:
            if name not in saved:
                return f"was saved without an extra {name!r}; leave it out"
        for name in self.differing:
            return (
                f"was saved with an extra {name!r} that differed from rank to rank, so it can only be loaded with as "
                "many stages and replicas as then"
            )
        return ""

    def put_into(self, pipeline: Pipeline, extra: Extra) -> None:
        """Set this rank's generators and each `extra`."""
        for name, thing in extra.items():
            _put(self.extra[name], thing)
        # Last, since what was put back above may have drawn numbers.
        if "torch" in self.random:
            torch.set_rng_state(self.random["torch"])
        if "python" in self.random:
            random.setstate(self.random["python"])
        if "numpy" in self.random:
            np.random.set_state(self.random["numpy"])
        if "cuda" in self.random and pipeline.device.type == "cuda":
            torch.cuda.set_rng_state(self.random["cuda"], pipeline.device)


def check(extra: Extra) -> None:
    """Raises TypeError for an `extra` that can't be saved."""
    for name, thing in extra.items():
        if not isinstance(thing, (dict, torch.Generator)) and not _is_stateful(thing):
            raise TypeError(
                f"extra[{name!r}] is a {type(thing).__name__}; give a dict, which a load fills again, a "
                "torch.Generator, or what has state_dict and load_state_dict"
            )


def same(one: Any, other: Any) -> bool:
    """Whether two states are equal, whatever tensors and arrays are in them."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, Sequence) and not isinstance(one, (str, bytes)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _random(device: torch.device) -> dict[str, Any]:
    states = {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": np.random.get_state()}
    return states if device.type != "cuda" else {**states, "cuda": torch.cuda.get_rng_state(device)}


def _is_stateful(thing: object) -> bool:
    return hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")


def _state(thing: Any) -> Any:
    if isinstance(thing, torch.Generator):
        return thing.get_state()
    return thing.state_dict() if _is_stateful(thing) else thing


def _put(state: Any, thing: Any) -> None:
    if isinstance(thing, torch.Generator):
        thing.set_state(state)
    elif _is_stateful(thing):
        thing.load_state_dict(state)
    else:
        thing.clear()
        thing.update(state)
