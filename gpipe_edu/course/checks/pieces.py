"""Exercise 01: why there are too few or too many pieces, and why their samples are not those of the batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpipe_edu.course.task import Blame, Wrong


def wrong_count(N: int, M: int, sizes: list[int], wrong: Blame) -> Wrong:
    """For `sizes` of N samples, which are not M."""
    came = f"{len(sizes)} pieces of sizes {listed(sizes)}" if sizes else "no pieces"
    if sizes and sizes == [min(M, N - start) for start in range(0, N, M)] and len(sizes) != M:
        because = "M is the number of pieces, not the size of one."
        return wrong("size-M", because, came)
    if len(sizes) == M + 1 and sum(sizes) == N:
        return wrong("one-more", "The remainder became a piece of its own. A schedule for M has no place for it.", came)
    if len(sizes) == N < M:
        because = "There are fewer samples than pieces, and pieces are missing. A piece may be empty, but it is there."
        return wrong("fewer-than-M", because, came)
    if len(sizes) < M:
        because = (
            "Exactly M pieces, always: a schedule for M micro-batches waits for all of them. Rounding N / M up to "
            "one size for all, as `torch.chunk` does, may use up the samples too soon."
        )
        return wrong("too-few", because, came)
    return wrong("too-many", "Exactly M pieces: a schedule for M micro-batches has no place for more.", came)


def wrong_values(batch: Any, pieces: list[Any], together: Any, told: str, wrong: Blame) -> Wrong:
    """For pieces that `together` are not the batch; `told` are their sizes."""
    N, M = len(batch), len(pieces)
    where = next((i for i in range(min(N, len(together))) if not np.array_equal(together[i], batch[i])), None)
    place = min(N, len(together)) if where is None else where
    difference = f"sample {place} of the batch is not in its place"
    if len(together) < N:
        because = "Samples were lost: the pieces together hold fewer than the batch. Who takes the remainder?"
        if len({len(piece) for piece in pieces}) == 1:
            because = f"N // M = {N // M} samples a piece lose the remainder of {N % M}: every sample has to train."
        return wrong("lost", because, told, f"{N - len(together)} of {N} samples are missing")
    if len(together) > N:
        because = "The pieces together hold more samples than the batch: some came twice, or were made up to fill one."
        return wrong("doubled", because, told, f"{len(together)} samples came from {N}")
    if all(np.array_equal(piece, batch[m::M]) for m, piece in enumerate(pieces)):
        because = "The samples were dealt out like cards. Each piece is a run of neighbours, so that joining is simple."
        return wrong("dealt", because, told, difference)
    if sorted(map(repr, together.tolist())) == sorted(map(repr, batch.tolist())):
        because = "All samples are there, but not in their order: labels would no longer fit."
        return wrong("order", because, told, difference)
    because = "Sizes are right, but these numbers are not the batch's. Slices keep them."
    return wrong("invented", because, told, difference)


def listed(items: list[Any], most: int = 12) -> str:
    """The first of them."""
    return ", ".join(map(str, items[:most])) + (", ..." if len(items) > most else "")
