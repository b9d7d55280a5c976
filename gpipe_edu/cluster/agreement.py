"""Whether all ranks of a pipeline, or all replicas, are about to do the same, asked at each step: one that goes another
way than the others would leave them waiting for messages that never come.

Each rank tells rank 0, which answers all: two small messages a rank. Every rank is woken once in each step, so an
all-gather, with more messages and a thread of gloo's for each rank, would be a part of the step's time that one can
measure (benchmarks/ranks.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import torch
import torch.distributed as dist

from .messages import receive, send, wait
from .ranks import gather

_NOTES: Final = 2
"""So many travel in each message: where ranks make different calls, theirs must be of one length, too."""


def agree(call: Sequence[str], complaint: Exception | None, notes: Sequence[bool], group: Any, rule: str) -> list[bool]:
    """All ranks of `group` call this with what they are about to do, in words, and what speaks against it on this rank.

    Returns for each of the `notes` whether any rank has it. Raises what speaks against it on some rank, or ValueError
    that names the first rank that is about to do something else, and the `rule` that it breaks.
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
