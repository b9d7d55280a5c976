"""Megatron-LM's `--pipeline-model-parallel-layout`: a string that says which layers each stage has.

    Et*3|(tt|)*29,m|L      embedding and 3 blocks, 29 stages of 2 blocks, one that predicts further tokens, the loss

E is the embedding, t a transformer block, m a block for multi-token prediction, L the loss with its head; a stroke ends
a stage, commas are for the eye.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gpipe_edu.base.words import join_words, shorten

LETTERS: Final = {"E": "embedding", "t": "transformer block", "m": "multi-token prediction", "L": "loss"}

_MOST: Final = 100_000
"""The most letters of an unrolled layout; a longer one is a slip of a digit."""


def balance_of_layout(layout: str) -> tuple[int, ...]:
    """How many transformer blocks, t, each stage has.

    Embedding, loss and what predicts further tokens do not count, so a stage may have 0 blocks: together they are
    Megatron's `--num-layers`. With K ranks, stage k is on rank k mod K, as in `interleaved`.

    Raises ValueError for what Megatron does not read or does not take: another letter, an embedding that is not the
    first, a loss that is not the last, blocks after an m. TypeError for what is not text.
    """
    if not isinstance(layout, str):
        raise TypeError(f'layout is {layout!r}; it must be text, such as "Et*3|(tt|)*29,m|L"')
    letters = _unrolled(layout)
    layout = shorten(layout, 60)  # in words
    for letter in letters:
        if letter not in (*LETTERS, "|"):
            known = ", ".join(f"{known} {name}" for known, name in LETTERS.items())
            raise ValueError(
                f"layout {layout!r} has {letter!r}; it may have {known}, | between stages, (...)*n and t*n for n times"
            )
    stages = letters.split("|")
    order = "".join(stages)
    if not re.fullmatch("Et*m*L", order):
        raise ValueError(
            f"layout {layout!r} has {_said(order)}; it must have one E at the beginning, then every t, then every m, "
            f"and one L at the end"
        )
    return tuple(stage.count("t") for stage in stages)


def layout_of_balance(blocks: Sequence[int]) -> str:
    """The inverse, with the embedding in the first stage and the loss in the last: (3, 2, 2, 3) is Et*3|tt|tt|t*3L.

    Raises ValueError for fewer than two stages.
    """
    if len(blocks) < 2:
        raise ValueError(f"blocks has {len(blocks)} stages; a layout has two or more")
    stages = ["t" * count if count < 3 else f"t*{count}" for count in blocks]
    return "|".join([f"E{stages[0]}", *stages[1:-1], f"{stages[-1]}L"])


def _unrolled(layout: str) -> str:
    """The layout with what is repeated written out; brackets hold no others, as in Megatron-LM."""
    text = re.sub(r"[,\s]", "", layout)
    if len(text) > _MOST:
        raise ValueError(f"layout {shorten(layout, 60)!r} is {len(text):,} letters long; it may have {_MOST:,}")
    for repeated in (r"\(([^()]+)\)\*(\d{1,9})", r"([^()*])\*(\d{1,9})"):
        most = sum(len(part) * int(times) for part, times in re.findall(repeated, text))
        if most > _MOST:
            raise ValueError(f"layout {shorten(layout, 60)!r} is {most:,} letters long; it may have {_MOST:,}")
        text = re.sub(repeated, lambda found: found[1] * int(found[2]), text)
    return text


def _said(order: str) -> str:
    """The letters in their order, each run of one as a number of them: "1 E, 12 t, 1 L"."""
    return join_words(f"{len(run[0])} {run[1]}" for run in re.finditer(r"(.)\1*", order)) or "no layer"
