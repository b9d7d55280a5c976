"""How `split` is called."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpipe_edu.judge.guest.forms import at_its_place, gather, gather_for_good

HIDDEN: Final = {"gpipe_edu.split_batch": "split"}


def perform(split: Any, batch: Any, M: int, view: bool = False, before: Any = None) -> Any:
    """The pieces, as a list even where they come one by one or in an array of arrays; and the batch afterwards.

    view: the batch is every other sample of a larger array, and so lies in memory with gaps. before: an array that is
    cut first, and gone when the batch takes its place in memory.
    """
    if before is not None:
        first = before.copy()
        place = id(first)
        gather(split(first, M))
        del first
        batch = at_its_place(place, batch.copy)
    if view:
        batch = np.repeat(batch, 2, axis=0)[::2]
    found = split(batch, M)
    if isinstance(found, np.ndarray) and isinstance(batch, np.ndarray):
        one_piece = found.ndim <= batch.ndim and found.dtype != object
        return found if one_piece else list(found), batch
    return gather_for_good(found), batch
