"""Whether all ranks have built the same pipeline: they compare a digest of each weight and buffer.

Each rank builds the whole network and keeps its own layers. If ranks have built different ones, with other seeds for
example, or cut it elsewhere, a mixture of them trains: no error is raised, and the result is wrong.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .ranks import gather, refuse_together


class Print(NamedTuple):
    """shape, kind: of a tensor. values: a digest of its bytes, "" on the device "meta", where there are none. trains:
    whether it requires a gradient."""

    shape: tuple[int, ...]
    kind: str
    values: str
    trains: bool

    def differs(self, other: Print) -> str:
        """In what `other` differs from this tensor, "" if in nothing."""
        if self[:2] != other[:2]:
            return f"there it is {other.kind} of shape {other.shape}, here {self.kind} of shape {self.shape}"
        if self.trains != other.trains:
            return "there it is frozen, here it trains" if self.trains else "there it trains, here it is frozen"
        return "the numbers in it are others" if self.values and other.values and self.values != other.values else ""


def fingerprint(net: nn.Module) -> dict[str, Print]:
    """The `Print` of each weight and each buffer, by name."""
    tensors = [*net.named_parameters(), *net.named_buffers()]
    return {
        name: Print(tuple(one.shape), str(one.dtype).removeprefix("torch."), digest(one), one.requires_grad)
        for name, one in tensors
    }


class BuiltNetwork(NamedTuple):
    """What a rank has built. arguments: of the pipeline. layers, tensors: `describe` and `fingerprint` of the
    network; no tensors if their values do not matter.
    """

    arguments: Mapping[str, str]
    layers: Sequence[str]
    tensors: Mapping[str, Print]


def compare(mine: BuiltNetwork, group: Any, replicas: Any) -> None:
    """All ranks of `group`, and of `replicas` if there are any, call this with what they have built.

    Raises ValueError, on every rank, naming the first rank that has built something else, and where they differ.
    """
    named = dist.get_rank(), mine
    # Replicas first: what one rank finds then reaches its whole pipeline, and so all ranks of all replicas.
    across = "" if replicas is None else _first_difference(gather(named, replicas))
    along = _first_difference(gather(named, group))
    refuse_together(across or along, group)


def _first_difference(built: Sequence[tuple[int, BuiltNetwork]]) -> str:
    """How the first rank that differs from the first one differs; "" if none does."""
    (first, theirs), *others = built
    for rank, found in others:
        how = _other_tensor(theirs.tensors, found.tensors, first, rank) or _other_layer(theirs.layers, found.layers)
        if how:
            return (
                f"rank {rank} has built another network than rank {first}, first at {how}. Build the same one on every "
                "rank: the same code, and torch.manual_seed(0), say, in front of it"
            )
        for name, value in theirs.arguments.items():
            if found.arguments[name] != value:
                return f"rank {rank} has {name} {found.arguments[name]}, and rank {first} has {value}: give the same"
    return ""


def describe(net: nn.Module) -> list[str]:
    """The repr of a network's layers, a line each, without addresses in memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(net)).splitlines()


def _other_layer(theirs: Sequence[str], found: Sequence[str]) -> str:
    for one, other in zip_longest(theirs, found, fillvalue="nothing"):
        if one != other:
            return f"{one.strip()}: there it is {other.strip()}"
    return ""


def _other_tensor(theirs: Mapping[str, Print], found: Mapping[str, Print], first: int, rank: int) -> str:
    for name in dict.fromkeys([*theirs, *found]):
        if name in theirs and name in found:
            how = theirs[name].differs(found[name])
        else:
            has, lacks = (first, rank) if name in theirs else (rank, first)
            how = f"rank {has} has it, and rank {lacks} does not"
        if how:
            return f"{name}: {how}"
    return ""


def digest(tensor: Tensor) -> str:
    """Of its numbers; "" on the device "meta"."""
    if tensor.is_meta:
        return ""
    numbers = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return hashlib.blake2b(numbers.data, digest_size=16).hexdigest()
