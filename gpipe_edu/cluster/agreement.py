"""Whether all ranks of a pipeline are about to do the same, asked at each step: one that goes another way than the
others would leave them waiting for messages that never come."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from .ranks import gather


def agree(call: Sequence[str], complaint: Exception | None, note: bool, group: Any) -> bool:
    """All ranks of `group` call this with what they are about to do, in words, and what speaks against it on this rank.

    Returns whether any rank has a `note`. Raises what speaks against it on some rank, or ValueError that names the
    first rank that is about to do something else.
    """
    # On the CPU where that is possible, so that no GPU is waited for.
    device = torch.device("cpu" if "cpu" in str(dist.get_backend_config(group)) else "cuda")
    digest = hashlib.blake2b(repr((call, repr(complaint))).encode(), digest_size=7).digest()
    mine = torch.tensor([int.from_bytes(digest, "big"), int(note), int(complaint is not None)], device=device)
    all_ranks = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(all_ranks, mine, group=group)
    found = torch.stack(all_ranks).tolist()
    if all(one[0] == found[0][0] for one in found) and not found[0][2]:
        return any(one[1] for one in found)
    told = gather((dist.get_rank(), list(call), complaint), group)
    for _, _, theirs in told:
        if theirs is not None:
            raise theirs
    first, expected, _ = told[0]
    for rank, others, _ in told:
        for one, other in zip(expected, others, strict=True):
            if one != other:
                hint = ": draw its order by a generator that nothing else uses" if one.startswith("digest=") else ""
                raise ValueError(
                    f"rank {rank} was given {other}, and rank {first} {one}; every rank of a pipeline must be given "
                    f"the same mini-batch, also those that read nothing of it{hint}"
                )
    raise AssertionError("the digests differ")
