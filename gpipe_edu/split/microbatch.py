"""Cutting a mini-batch into micro-batches and putting it together again.

`numpy.array_split` gets the sizes right but knows no tensors and no tuples; `torch.chunk(x, M)` may return fewer than
M pieces (5 samples in 4 chunks give 3). So the cut is made here, once, for all engines. An engine that has fewer
samples than micro-batches runs a schedule of as many as it has samples (`Schedule.first`).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from gpipe_edu.base.validate import whole


def split_batch(batch: Any, M: int) -> list[Any]:
    """Cut `batch` along its first axis into exactly M pieces, in order, whose sizes differ by at most one.

    batch: an array or tensor of shape (N, ...), or a tuple of them with the same N. The first N mod M pieces have
    one sample more; if N < M, the last M - N pieces are empty. Pieces are views where the array type has views.

    Raises TypeError for something without a first axis, ValueError for M < 1 or above a million, or a tuple whose parts
    differ in N.
    """
    M = whole("M", M, 1, most=1_000_000)
    if isinstance(batch, tuple):
        if not batch:
            raise ValueError("the batch is an empty tuple; give an array, or a tuple of arrays")
        sizes = [_samples(part) for part in batch]
        if len(set(sizes)) > 1:
            raise ValueError(f"the parts of the batch have {sizes} samples; all parts need the same number")
        return list(zip(*(split_batch(part, M) for part in batch), strict=True))
    bounds = [m * (_samples(batch) // M) + min(m, _samples(batch) % M) for m in range(M + 1)]
    return [batch[start:end] for start, end in itertools.pairwise(bounds)]


def join_batch(pieces: Sequence[Any]) -> Any:
    """The inverse of `split_batch`: arrays, tensors or tuples of them, joined along the first axis in order.

    Raises ValueError if there is no piece or pieces are tuples of different lengths, TypeError for other types.
    """
    if not isinstance(pieces, Iterable) or hasattr(pieces, "shape"):
        raise TypeError(f"join_batch takes a list of pieces, as split_batch returns it; got {type(pieces).__name__}")
    pieces = list(pieces)
    if not pieces:
        raise ValueError("there are no pieces to join; give at least one")
    if any(isinstance(piece, tuple) for piece in pieces):
        if len({len(piece) if isinstance(piece, tuple) else None for piece in pieces}) > 1:
            raise ValueError("the pieces are not tuples of one length; join only what split_batch returned")
        return tuple(join_batch(parts) for parts in zip(*pieces, strict=True))
    for piece in pieces:
        _samples(piece)
    # A tensor can only come from a torch that is loaded, so this never loads one.
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(pieces[0], torch.Tensor):
        return torch.cat(pieces)
    import numpy as np

    return np.concatenate(pieces)


def _samples(array: Any) -> int:
    shape = getattr(array, "shape", None)
    if not shape:
        what = type(array).__name__ + (" without axes" if shape is not None else "")
        raise TypeError(
            f"a batch is an array or tensor with samples along its first axis, or a tuple of them; got {what}"
        )
    return int(shape[0])
