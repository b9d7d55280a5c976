"""Whether all ranks have built the same pipeline, and are about to do the same, asked at each step.

Each rank builds the whole network and keeps its own layers. If ranks have built different ones, with other seeds for
example, or cut it elsewhere, a mixture of them trains: no error is raised, and the result is wrong. So they compare a
digest of each weight and buffer.

A rank, or a replica, that at some step went another way than the others would leave them waiting for messages that
never come. So each rank tells rank 0 its plans, and rank 0 answers all: two small messages a rank. Every rank is woken
once in each step; an all-gather, with more messages and one of gloo's threads for each rank, would take a measurable
part of the step's time (benchmarks/ranks.py).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from gpipe_edu.pytorch.values import plain

from .messages import receive, send, wait
from .ranks import gather, refuse_together

_NOTES: Final = 2
"""How many travel in each message: where ranks make different calls, too, their messages must have one length."""


def agree(call: Sequence[str], complaint: Exception | None, notes: Sequence[bool], group: Any, rule: str) -> list[bool]:
    """All ranks of `group` call this with what they are about to do, in words, and this rank's complaint, if any.

    Returns for each of the `notes` whether any rank has it. Raises the first complaint, or a ValueError that names
    the first rank that is about to do something else, and the `rule` that it breaks.
    """
    digest = hashlib.blake2b(repr((call, repr(complaint))).encode(), digest_size=7).digest()
    same, noted = _compare(int.from_bytes(digest, "big"), [*notes, *[False] * (_NOTES - len(notes))], group)
    if same and complaint is None:  # then no rank has one
        return noted[: len(notes)]
    told = gather((dist.get_rank(), list(call), complaint), group)
    for _, _, theirs in told:
        if theirs is not None:
            raise theirs
    first, expected, _ = told[0]
    for rank, others, _ in told:
        for one, other in zip(expected, others, strict=True):
            if one != other:
                hint = ": draw its order by a generator that nothing else uses" if one.startswith("digest=") else ""
                raise ValueError(f"rank {rank} was given {other}, and rank {first} {one}; {rule}{hint}")
    raise AssertionError("the digests differ")


def _compare(digest: int, notes: Sequence[bool], group: Any) -> tuple[bool, list[bool]]:
    """Whether all ranks have the same digest, and for each of the notes whether any has it."""
    # On the CPU where that is possible, so that no GPU is waited for.
    device = torch.device("cpu" if "cpu" in str(dist.get_backend_config(group)) else "cuda")
    mine, others = torch.tensor([digest, *map(int, notes)], device=device), range(1, dist.get_world_size(group))
    if dist.get_rank(group) > 0:
        answer = torch.empty_like(mine)
        wait([send(mine, 0, group), receive(answer, 0, group)])
    else:
        told = {rank: torch.empty_like(mine) for rank in others}
        wait([receive(theirs, rank, group) for rank, theirs in told.items()])
        digests, *noted = zip(mine.tolist(), *(theirs.tolist() for theirs in told.values()), strict=True)
        answer = torch.tensor([int(len(set(digests)) == 1), *map(max, noted)], device=device)
        wait([send(answer, rank, group) for rank in others])
    same, *found = map(bool, answer.tolist())
    return same, found


class Print(NamedTuple):
    """shape, kind: of a tensor. values: a digest of its bytes, "" on the device "meta", where there are none. trains:
    whether it requires a gradient."""

    shape: tuple[int, ...]
    kind: str
    values: str
    trains: bool

    def differs(self, other: Print) -> str:
        """How `other` differs from this tensor, "" if it does not."""
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
    """What a rank has built. arguments: of the pipeline. layers, tensors: `describe` of the layers without experts, and
    `fingerprint` of the network; no tensors if their values do not matter. experts: the names of the tensors of which
    replicas have no copies.
    """

    arguments: Mapping[str, str]
    layers: Sequence[str]
    tensors: Mapping[str, Print]
    experts: Sequence[str]


def compare(mine: BuiltNetwork, group: Any, replicas: Any) -> None:
    """All ranks of `group`, and of `replicas` if there are any, call this with what they have built.

    Raises ValueError, on every rank, naming the first rank that has built something else, and where they differ.
    """
    named = dist.get_rank(), mine
    # Replicas first: what one rank finds then reaches its whole pipeline, and so all ranks of all replicas.
    across = "" if replicas is None else _first_difference_of_replicas(gather(named, replicas))
    along = _first_difference(gather(named, group))
    refuse_together(across or along, group)


def _first_difference(built: Sequence[tuple[int, BuiltNetwork]]) -> str:
    """How the first rank that differs from the first one differs; "" if none does."""
    (first, theirs), *others = built
    for rank, found in others:
        apart = [name for name, value in theirs.arguments.items() if found.arguments[name] != value]
        how = ""
        if "experts" not in apart:  # or replicas would compare different tensors
            how = _other_tensor(theirs.tensors, found.tensors, first, rank) or _other_layer(theirs.layers, found.layers)
        if how:
            return (
                f"rank {rank} has built another network than rank {first}, first at {how}. Build the same one on every "
                "rank: the same code, and torch.manual_seed(0), say, in front of it"
            )
        if apart:
            one, other = theirs.arguments[apart[0]], found.arguments[apart[0]]
            return f"rank {rank} has {apart[0]} {other}, and rank {first} has {one}: give the same"
    return ""


def describe(net: nn.Module) -> list[str]:
    """The repr of a network's layers, a line each, without addresses in memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(net)).splitlines()


def _first_difference_of_replicas(built: Sequence[tuple[int, BuiltNetwork]]) -> str:
    """The same for replicas: their experts must differ, and all else must not."""
    holder: dict[str, int] = {}
    for rank, found in built:
        for name in found.experts:
            if holder.setdefault(name, rank) != rank:
                return (
                    f"ranks {holder[name]} and {rank} have an expert {name!r} each, and replicas have no copies of "
                    "experts: build different ones on each replica, under their numbers among all, such as "
                    "nn.ModuleDict({'2': ..., '3': ...}) on the second replica; they are also saved under these names"
                )
    shared = []
    for rank, found in built:
        tensors = {name: one for name, one in found.tensors.items() if name not in found.experts}
        shared.append((rank, found._replace(tensors=tensors)))
    return _first_difference(shared)


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
    """A digest of its numbers; "" on the device "meta"."""
    if tensor.is_meta:
        return ""
    if is_traceable_wrapper_subclass(tensor):  # its numbers are in the tensors that it wraps
        return " ".join(digest(getattr(tensor, name)) for name in tensor.__tensor_flatten__()[0])
    numbers = plain(tensor.detach().cpu()).reshape(-1).view(torch.uint8).numpy()
    return hashlib.blake2b(numbers.data, digest_size=16).hexdigest()
